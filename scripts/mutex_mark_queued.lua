-- SPDX-License-Identifier: MIT
-- Statements that mark the name, whose value is `value` (false, or an error: there is none of
-- ours): whoever releases it shall look at the queue. A token is marked by a + in place of
-- its - at the end, which nobody else's text has; a stranger's is never changed.
-- The lease runs on. Without memory there is no mark; then nobody joins either.

if type(value) == 'string' and value:byte(-1) == 45
    and value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:[1-9]%d*%-$') then
    redis.pcall('SET', name, value:sub(1, -2) .. '+', 'KEEPTTL')
end
