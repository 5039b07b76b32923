-- SPDX-License-Identifier: MIT
-- Owns how a waiter gets its place in the queue. Must not know who waits for what.
--
-- A fragment, which stands on clock.lua, for scripts that declare `queue`, the key.
--
-- Happy path: join() of a new member, behind the last one.

-- include: clock.lua

local us = tonumber(us_text)

-- The server's clock was set back, or others came in the same microsecond: one more than the
-- last one's ticket. Nil where that is a stranger's, and Lua cannot count on from there.
local function add_last(member)
    local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
    local after = tonumber(last[2]) + 1
    if after < 9007199254740992 then
        redis.call('ZADD', queue, format('%.0f', after), member)
        return after
    end
end

-- Returns the member's ticket, also if the queue's key is of another type. A member that asked
-- before (without joining, or it lost its place: the queue expired, or its process seemed gone)
-- brings its old ticket; -1: it has none. For a new member the position is returned as well,
-- since that costs less here than later.
local function join(member, ticket)
    local left, score, added, position = redis.call('PTTL', queue), nil, nil, nil
    if left == -2 then
        -- PEXPIRE shows that the queue may be given a TTL. The ZADD before it does nothing, but
        -- is refused without memory, as no command after the PEXPIRE would be.
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
    -- Directly behind the ZADD that may have made the queue, which must not stay without a TTL.
    if (score or added) and left < 90000
        and type(redis.pcall('PEXPIRE', queue, '120000')) ~= 'number' then
        if added then
            redis.call('ZREM', queue, member)
        end
        redis.call('PEXPIRE', queue, '120000') -- so that the server itself raises it
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
