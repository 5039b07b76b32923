-- SPDX-License-Identifier: MIT
-- Statements that take apart the argument `channel` of a script: the name of a client's
-- channel, with a blank in place of the client's uuid. Without a prefix and a cluster it is
-- absent (nil), because each argument costs time. No script infers
-- either part from a key, which may begin with any prefix.
--
-- A fragment. It expects `channel`. It offers `start`, the part before the uuid, and
-- `slot`, the part after it: '' without a cluster, else `:{tag}` of the slot in which the
-- keys are. Then messages are published on the sharded channel of that slot.

local start, slot = 'lockwire:2:', ''
if channel then
    start, slot = channel:match('^(.*) (.*)$')
end
