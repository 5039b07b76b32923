-- SPDX-License-Identifier: MIT
-- Of a cluster's slot the counter may come back as it was before, without that anybody
-- notices: no number of it is below the clock.
--
-- Statements that draw `count` new numbers from the counter `fence`, the last of them `last`.
-- Below 2^50 the counter was lost, above 2^53 Lua cannot count it, and of another type it is
-- none: then `time`, TIME's reply, begins it again. `anyway`: without memory, too. PEXPIRE
-- needs none, and opens the way for what follows it.

local last, least = redis.pcall('INCRBY', fence, count), 1125899906842624
if #fence > 14 then -- a slot's
    least = time[1] * 1000000 + time[2] + count - 1
end
if type(last) ~= 'number' or last < least or last >= 9007199254740992 then
    if anyway and type(last) ~= 'number' then
        redis.call('PEXPIRE', fence, '86400000')
        last = redis.pcall('INCRBY', fence, count)
    end
    if type(last) ~= 'number' or last >= 9007199254740992 then
        last = 0
    end
    if last < least then
        last = math.max(last, time[1] * 1000000 + time[2] + count - 1)
        redis.call('SET', fence, string.format('%.0f', last), 'PX', 86400000)
    end
end
