-- SPDX-License-Identifier: MIT
-- Statements that draw `count` fencing tokens, the last of which is `last`.
--
-- A fragment, inlined where `fence` (the counter's key), `slot` (channel.lua), `count` and
-- `time` (the reply to TIME) are declared: in mutex_hand_over.lua, and in a function of
-- mutex.lua and rw.lua.
--
-- Happy path: INCRBY. A result below 2^50 means that the counter was lost, and one from
-- 2^53 on is too large for Lua. A key of another type, and a text that is no integer or
-- too large to add to, is no counter. Then the counter is set to the server's time in
-- microseconds. It must not be left without a TTL: if the SET is refused, a counter that
-- INCRBY has created is deleted. After any other error of INCRBY nothing is known of the
-- counter, so that the script ends: the time alone could be drawn twice.
--
-- A failover may set back the counter of a cluster's slot unnoticed. Its fencing tokens
-- are therefore never below the server's time.

local last, least = redis.pcall('INCRBY', fence, count), 1125899906842624
if slot ~= '' then
    least = time[1] * 1000000 + time[2] + count - 1
end
if type(last) ~= 'number' or last < least or last >= 9007199254740992 then
    if type(last) ~= 'number' and not last.err:find('WRONGTYPE', 1, true)
        and not last.err:find('not an integer', 1, true)
        and not last.err:find('would overflow', 1, true) then
        redis.call('INCRBY', fence, count) -- ends with the server's error
    end
    local created = last == tonumber(count)
    if type(last) ~= 'number' or last >= 9007199254740992 then
        last = 0
    end
    if last < least then
        last = math.max(last, time[1] * 1000000 + time[2] + count - 1)
        local text = string.format('%.0f', last)
        if redis.pcall('SET', fence, text, 'PX', 86400000).err then
            if created then
                redis.call('DEL', fence)
            end
            redis.call('SET', fence, text, 'PX', 86400000) -- ends with the server's error
        end
    end
end
