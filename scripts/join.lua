-- SPDX-License-Identifier: MIT
-- Owns how a waiter gets its place in the queue. A fragment, which stands on queue.lua.
-- Must not know who waits for what.
--
-- Happy path: join() of a new member, behind the last one.

-- The member's ticket, new or old; -1 where the queue's key is of another type. A member
-- that lost its place (the queue expired, its process seemed gone) brings its old ticket.
-- Of one that is new, its position, too: cheaper told than looked up.
local function join(member, ticket)
    local place, position
    if ticket < 0 then
        local last = try('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
        if not last then
            return -1
        end
        local after = (tonumber(last[2]) or 0) + 1
        local last_is_ours = after < 9007199254740992
        ticket = last_is_ours and math.max(us, after) or us
        if redis.call('ZADD', queue, 'NX', format('%.0f', ticket), member) == 0 then
            place = redis.call('ZSCORE', queue, member)
        elseif last_is_ours then
            position = redis.call('ZCARD', queue) - 1
        end
    else
        place = try('ZSCORE', queue, member)
        if place == nil then
            return -1
        elseif not place then
            redis.call('ZADD', queue, format('%.0f', ticket), member)
        end
    end
    redis.call('PEXPIRE', queue, '120000')
    return tonumber(place or ticket), position
end
