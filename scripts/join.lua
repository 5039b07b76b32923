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
local function place_last(member)
    local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
    local after = tonumber(last[2]) + 1
    if after < 9007199254740992 then
        redis.call('ZADD', queue, format('%.0f', after), member)
        return after
    end
end

-- The member's ticket, also where the queue's key is of another type. A member that asked
-- before (without joining, or it lost its place: the queue expired, its process seemed gone)
-- brings its old ticket; -1: it has none. Of one that is new, its position, too: cheaper told
-- than looked up.
local function join(member, ticket)
    local place, position
    if ticket < 0 then
        ticket = us
        place = try('ZADD', queue, 'NX', us_text, member)
        if place == 0 then
            ticket = tonumber(redis.call('ZSCORE', queue, member))
        elseif place then
            if redis.call('ZRANGE', queue, '-1', '-1')[1] ~= member then
                ticket = place_last(member)
            end
            position = ticket and redis.call('ZCARD', queue) - 1
        end
    else
        place = try('ZSCORE', queue, member)
        if place then
            ticket = tonumber(place)
        elseif place == false then
            redis.call('ZADD', queue, format('%.0f', ticket), member)
        end
    end
    if place ~= nil and redis.call('PTTL', queue) < 90000 then
        if type(redis.pcall('PEXPIRE', queue, '120000')) ~= 'number' then
            redis.call('ZREM', queue, member) -- the queue might never end
            redis.call('PEXPIRE', queue, '120000') -- so that the server itself raises it
        end
    end
    return ticket or us, position
end
