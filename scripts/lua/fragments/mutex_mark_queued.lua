-- SPDX-License-Identifier: MIT
-- Statements that give the name's value the queue mark, so that its release looks at the
-- queue: the last character becomes + in place of -.
--
-- A fragment, inlined in mutex_release.lua and in a function of mutex.lua. It expects
-- `name`, the key, and `value`, its text (false or an error if the key has no text). It
-- must not change a foreign value, nor the lease. Without memory there is no mark, but then no
-- waiter can join either.

if type(value) == 'string' and value:byte(-1) == 45
    and value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:[1-9]%d*%-$') then
    redis.pcall('SET', name, value:sub(1, -2) .. '+', 'KEEPTTL')
end
