-- SPDX-License-Identifier: MIT
-- The first number that a connection draws, and in a cluster one now and then: larger than every
-- earlier one, also after the counter was lost or set back by a failover, since it never runs
-- ahead of the time.
-- KEYS: fence
-- Answer: the number
-- Happy path: the time is ahead of the counter. A key that is no counter of ours (another
-- type, too large for Lua) is replaced, and so is one without a TTL (see put_keep in node_fence.c).

local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local last = redis.pcall('GET', KEYS[1])
last = type(last) == 'string' and tonumber(last) or 0
if not (last >= 0 and last < 9007199254740991) then
    last = 0
end
local number = math.max(math.floor(last) + 1, us)
redis.call('SET', KEYS[1], string.format('%.0f', number), 'PX', 86400000)
return number
