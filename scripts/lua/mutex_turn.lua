-- SPDX-License-Identifier: MIT
-- Releases a client's old token of a mutex, and acquires the lock for its new token: at
-- once if there are no waiters, else behind them. A client sends it when one of its
-- handles releases the lock and another of them waits.
--
-- KEYS: name (a string, the holder's token), queue (a sorted set of tokens), fence
--   counter
-- ARGV: old token; new token; lease in ms; how, as mutex_acquire.lua describes it, without
--   the lease (whether the new token joins the queue, whether it wants a fencing token, and more)
-- Reply: the reply of mutex_acquire.lua for the new token, with the outcome for the old
--   one. A number n (the new token has the lock) is n if the old token held the lock, and
--   -1 - n if it did not. A text has "1 " in front if the old token held the lock, else
--   "0 ".
--
-- Must not bring back a token that was released.
-- Happy path: the old token holds the lock. If the queue is empty the new token gets it.
-- Else the first waiter does, and the new token joins the queue at its end. slow()
-- handles all other cases.
-- Sent twice, it finds the new token as the value, and extends the lease, or in the
-- queue. If neither token is here any more it is a late duplicate: it neither acquires
-- nor queues (position -1), and only serves the queue.

local name, queue, fence, old, token = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local how = ARGV[4]
local held, value = false, redis.pcall('GET', name)
if value == old or value == old:sub(1, -2) .. '+' then
    redis.call('DEL', name) -- first, since it passes without memory
    held, value = true, false
    local joins, wants, no_ticket = how:byte(1, 3)
    if redis.call('EXISTS', queue) == 0 then
        wants = wants ~= 45
        local last = wants and redis.pcall('INCRBY', fence, '16') or 1125899906842624
        if type(last) == 'number' and last >= 1125899906842624
            and last < 9007199254740992 then
            redis.call('SET', name, token, 'PX', ARGV[3])
            return wants and last - 15 or 0
        elseif last == 16 and redis.pcall('PEXPIRE', fence, '86400000') ~= 1 then
            redis.call('DEL', fence) -- the counter was lost, and INCRBY created another
        end
    elseif joins ~= 110 and no_ticket == 32 then
        local time, caller, numbers = redis.call('TIME'), token, how:sub(4)
        local us_text = #time[2] == 6 and time[1] .. time[2]
            or time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
        if redis.pcall('ZADD', queue, 'NX', us_text, token) == 1 then
            if joins == 107 then
                redis.call('PEXPIRE', queue, '120000')
            end
            if redis.pcall('ZREVRANK', queue, token) == 0 then
                local excluded
                -- inline: mutex_hand_over.lua
                if outcome ~= 'free' then
                    local position = redis.call('ZCARD', queue) - 1
                    local left = outcome ~= 'handed' and 0 or position > 0 and -2
                        or redis.call('PTTL', name)
                    return '1 ' .. left .. ' ' .. position .. ' ' .. us_text
                        .. (outcome == 'again' and ' ' .. us_text .. ' 1' or '')
                end
            else
                redis.call('ZREM', queue, token) -- see mutex_acquire.lua
            end
        end
    end
end

local function slow()
    local numbers = how:match(' (.*)$')
    -- include: mutex.lua
    local left = 0
    if not held then -- else it is not queued, and the name is free now
        left, value = pcall_type('ZREM', queue, old), pcall_type('GET', name)
    end
    local answer
    if held or left == 1 or value == token or value == marked(token)
        or pcall_type('ZSCORE', queue, token) then
        answer = request(token, value, ARGV[3])
    else
        local again = 0
        if value == false then
            again = hand_over() == 'again' and 1 or 0
        elseif redis.call('EXISTS', queue) == 1 then
            mark_queued(value)
        end
        answer = refuse(token, value, -1, again)
    end
    if type(answer) == 'number' then
        return held and answer or -1 - answer
    end
    return (held and '1 ' or '0 ') .. answer
end
return slow()
