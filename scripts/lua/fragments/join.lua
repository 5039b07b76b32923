-- SPDX-License-Identifier: MIT
-- Puts a waiter into the queue, a sorted set whose scores are tickets: the server's time
-- in microseconds when the waiter came. Independent of the lock that is waited for.
--
-- A fragment. It offers join(), is_full() and `us` (the server's time), and expects
-- `queue`, the key. mutex.lua and rw_acquire.lua include it.
--
-- Happy path: join() adds a new member behind the last one, and the queue has more than
-- 90 of its 120 seconds left. The queue must not be left without a TTL.

-- include: clock.lua

local us = tonumber(us_text)

-- Moves a newcomer behind the last member, if the clock was set back, or if others came
-- in the same microsecond. Returns its ticket, one more than the last. Returns nil if
-- that is foreign, and too large for Lua to count on from there.
local function add_last(member)
    local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
    local after = tonumber(last[2]) + 1
    if after < 9007199254740992 then
        redis.call('ZADD', queue, format('%.0f', after), member)
        return after
    end
end

-- Returns true if a newcomer must not join, since `limit` others are queued, dead ones
-- included. It is never true for a member, nor without a limit (nil).
local function is_full(member, limit)
    return limit and (pcall_type('ZCARD', queue) or 0) >= limit
        and not pcall_type('ZSCORE', queue, member)
end

-- Adds a member, unless it is queued already. `ticket` is -1 for a newcomer. A member that
-- could not join earlier, or has lost its place because the queue expired or its process
-- seemed to be gone, has a ticket already. Returns the member's ticket. For a newcomer that
-- was added it also returns the position, because that costs less here than later. If the
-- queue's key is of another type it returns `ticket`, or the server's time for -1.
local function join(member, ticket)
    local left, score, added, position = redis.call('PTTL', queue), nil, nil, nil
    if left == -2 then
        -- Neither command has an effect. PEXPIRE shows that the queue may be given a TTL.
        -- ZADD is refused if memory is short. It comes first, because Redis does not look
        -- at the memory after a script's first write.
        redis.call('ZADD', queue, 'XX', '0', member)
        redis.call('PEXPIRE', queue, '120000')
    end
    if ticket >= 0 then
        score = pcall_type('ZSCORE', queue, member)
        added = score == false
            and redis.call('ZADD', queue, format('%.0f', ticket), member) == 1
    else
        added = pcall_type('ZADD', queue, 'NX', us_text, member)
        score, added = added == 0, added == 1
    end
    -- Directly behind the ZADD, which may have created the queue.
    if (score or added) and left < 90000
        and type(redis.pcall('PEXPIRE', queue, '120000')) ~= 'number' then
        if added then
            redis.call('ZREM', queue, member)
        end
        redis.call('PEXPIRE', queue, '120000') -- ends with the server's error
    end
    if score then
        return tonumber(score == true and redis.call('ZSCORE', queue, member) or score)
    end
    if ticket < 0 then
        ticket = us
        if added and redis.call('ZRANGE', queue, '-1', '-1')[1] ~= member then
            ticket = add_last(member)
        end
        position = added and ticket and redis.call('ZCARD', queue) - 1 or nil
    end
    return ticket or us, position
end
