-- SPDX-License-Identifier: MIT
-- Draws one fencing token that is larger than all earlier ones, even if the counter was
-- lost, or was set back by a failover. A client sends it when a connection begins, when a
-- heartbeat finds no counter, and in a cluster from time to time for each slot in use.
--
-- KEYS: the fence counter
-- ARGV: none
-- Reply: the fencing token. One below 2^50 means that the server's clock is wrong.
--
-- Happy path: the server's time in microseconds is ahead of the counter, and becomes the
-- counter for a day. Fencing tokens do not run ahead of the time, so it is also larger
-- than all that a lost counter gave out. A counter that is ahead is increased by 1. A key
-- that is no counter (another type, too large for Lua) is replaced. The counter must not
-- stay without a TTL: encode_extend in node_fence.c has the reason why it may have none.
-- Sent twice, it draws a second, larger fencing token.

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
