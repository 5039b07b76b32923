-- SPDX-License-Identifier: MIT
-- Extends the lease of a hold by its name alone, whose slot is on its way to another node:
-- there is no queue to serve then, and no number to be drawn.
-- KEYS: name
-- ARGV: token, lease ms
-- Answer: one word in a list: 1 (extended) or 0 (it is no more)
-- Happy path: it stands. Whose lease has ended is for the next script of three keys to see.

local name, queue, fence, numbers = KEYS[1], nil, '', nil
-- include: rw.lua

local token, lease = ARGV[1], tonumber(ARGV[2])
local record = load() and redis.call('HGET', name, 'h:' .. token)
if not record or not parse_hold(record) then
    return {0}
end
extend(record, token, lease)
return {1}
