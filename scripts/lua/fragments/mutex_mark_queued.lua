-- SPDX-License-Identifier: MIT
-- Statements that give the name's value the queue mark, so that its release looks at the
-- queue: the last character becomes + in place of -.
--
-- A fragment, inlined in mutex_acquire.lua, in mutex_release.lua and in a function of
-- mutex.lua. It expects `name`, the key, and `value`, its text (false or an error if the key
-- has no text), and offers `marked`, the reply to SET, or false or nil if there is nothing to
-- mark. It must not change a foreign value, nor the lease. Without memory there is no mark,
-- but then no waiter can join either.

local marked = type(value) == 'string' and value:byte(-1) == 45
    and value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:[1-9]%d*%-$')
    and redis.pcall('SET', name, value:sub(1, -2) .. '+', 'KEEPTTL')
