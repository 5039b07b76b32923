-- SPDX-License-Identifier: MIT
-- Statements that draw `count` new numbers from the counter `fence`, the last of them `last`.
-- Below 2^50 the counter was lost, above 2^53 Lua cannot count it, and a key of another type
-- is no counter: then `time`, the reply to TIME, begins it again.
--
-- The counter of a cluster's slot may be set back to an earlier value without any sign of it,
-- so none of its numbers is below the clock.

local last, least = redis.pcall('INCRBY', fence, count), 1125899906842624
if #fence > 14 then -- a slot's
    least = time[1] * 1000000 + time[2] + count - 1
end
if type(last) ~= 'number' or last < least or last >= 9007199254740992 then
    local created = last == tonumber(count) -- the counter was lost, and INCRBY made a new one
    if type(last) ~= 'number' or last >= 9007199254740992 then
        last = 0
    end
    if last < least then
        last = math.max(last, time[1] * 1000000 + time[2] + count - 1)
        local text = string.format('%.0f', last)
        if redis.pcall('SET', fence, text, 'PX', 86400000).err then
            if created then
                redis.call('DEL', fence) -- it has no TTL
            end
            redis.call('SET', fence, text, 'PX', 86400000) -- so that the server itself raises it
        end
    end
end
