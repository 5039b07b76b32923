-- SPDX-License-Identifier: MIT
-- Acquires a mutex, or joins its queue; one script, so that no wake-up falls in between.
-- KEYS: name, queue, fence
-- ARGV: token, lease ms, how (mutex_ask.lua)
-- Answer: as there
-- Happy path: free and nobody queued; or held by one behind whom others queue, and a new
-- token joins them at the end. All else is slow(). Sent twice, the second finds its token in
-- the name and extends it, or in the queue.

local name, queue, token, lease, how = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local value = redis.pcall('GET', name)
local joins, wants, no_ticket = how:byte(1, 3)

if not value then
    if #KEYS[3] == 14 and redis.call('EXISTS', queue) == 0 then -- a slot's: draw.lua
        -- The number first: where it cannot be had there is no grant yet, slow() sees to it.
        local last = wants == 45 and 1125899906842624 or redis.pcall('INCRBY', KEYS[3], '16')
        if type(last) == 'number' and last >= 1125899906842624
            and last < 9007199254740992 then
            redis.call('SET', name, token, 'PX', lease)
            return wants == 45 and 0 or last - 15
        end
    end
elseif joins ~= 110 and no_ticket == 32 and type(value) == 'string' and value:byte(-1) == 43
    and value:sub(1, -2) ~= token:sub(1, -2) then
    local time = redis.call('TIME')
    local us_text = time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
    if redis.pcall('ZADD', queue, 'NX', us_text, token) == 1 then
        if redis.pcall('ZREVRANK', queue, token) == 0 then
            local position = redis.call('ZCARD', queue) - 1
            if position == 0 or joins == 107 then
                redis.call('PEXPIRE', queue, '120000')
            end
            if position > 0 then
                return '-2 ' .. position .. ' ' .. us_text
            end
            local left = redis.call('PTTL', name)
            if left < 100000000000000 then -- `..` writes no more than 14 digits
                return left .. ' 0 ' .. us_text
            end
        else -- the clock was set back, or an account lacks ZREVRANK: slow() sees to it
            redis.call('ZREM', queue, token)
        end
    end
end

local function slow()
    local fence, numbers = KEYS[3], how:match(' (.*)$')
    -- include: mutex_ask.lua
    return ask(token, try('GET', name), lease)
end
return slow()
