-- SPDX-License-Identifier: MIT
-- The mutex. Its key, the name, is a string: the holder's token, with the lease as its
-- TTL. A token is `<client's uuid>:<n>:<claim window in ms>-`. The queue is a sorted set
-- of the waiters' tokens (join.lua). While there may be waiters the value has the queue
-- mark: its last character is + in place of -. A value of any other form is foreign.
-- Independent of the read-write lock.
--
-- A fragment of mutex_acquire.lua, whose slow() includes it and calls request(). It
-- expects `name`, `queue` and `fence`, the keys; `token`; what channel.lua offers; and the
-- parts of `how`: `waits` and `wants_fence` (booleans), `limit` ('' if none), `numbers`,
-- `lease`.
--
-- Happy path: request() puts the token into the queue; a later release hands over to it.
--
-- After each script that uses the queue, a token without a mark as the value means that the
-- queue is empty. (If a plain SET NX comes between the end of a lease and the next such
-- script, this is untrue until that script has run.)

-- include: join.lua

-- Returns the first of sixteen new fencing tokens.
local function draw_fence()
    local count = '16'
    -- inline: draw_fence.lua
    return last - 15
end

local function mark_queued(value)
    -- inline: mutex_mark_queued.lua
end

-- Returns `outcome` and `behind` of mutex_hand_over.lua.
local function hand_over(caller)
    local excluded
    -- inline: mutex_hand_over.lua
    return outcome, behind
end

-- Returns the reply if the token does not get the lock. `value` is pcall_type('GET')'s
-- result for the name: nil if the key is of another type. A token that had no ticket,
-- since it may not join yet, gets one, by which it will later join in its place. If the
-- token does not join, the reply may end the request. The ZREM has no effect, but a replica
-- refuses it, so that this reply is never a replica's.
local function refuse(value, ticket, again, position)
    if not waits or position == -2 then
        pcall_type('ZREM', queue, '')
    end
    local left = math.min(redis.call('PTTL', name), 9007199254740992) -- decode.c's limit
    local place = position or pcall_type('ZRANK', queue, token) or -1
    local answer = format('%.0f %d %s', left == -2 and 0 or left, place, us_text)
    if value ~= nil and again == 0 and (ticket < 0 or ticket == us) then
        return answer
    end
    local kind = value == nil and ' ' .. redis.call('TYPE', name).ok or ''
    return answer .. format(' %.0f %d', ticket < 0 and us or ticket, again) .. kind
end

-- Extends the token's own hold, or acquires a free lock. Returns the reply. If others come
-- first it returns nil, and then 1 if the script has to be sent again, or 0.
local function take(value)
    if value then
        pcall_type('ZREM', queue, token)
        redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), tonumber(lease)))
        if redis.call('EXISTS', queue) == 1 then
            mark_queued(value)
        end
        return wants_fence and draw_fence() or 0
    end
    local outcome, behind = hand_over(token)
    if outcome == 'free' then
        -- The fencing token first: if it cannot be drawn there must be no grant.
        local number = wants_fence and draw_fence() or 0
        redis.call('SET', name, behind and token:sub(1, -2) .. '+' or token, 'PX', lease)
        return number
    end
    return nil, outcome == 'again' and 1 or 0
end

-- Acquires the lock, or joins its queue. `value` as for refuse(); `ticket`: -1 if the
-- token has none.
local function request(value, ticket)
    local mine = value == token or value == token:sub(1, -2) .. '+'
    local most = not mine and tonumber(limit) or nil
    if most and value == false then -- waiters are served before they are counted
        local number, again = take(value)
        if number or again == 1 then
            return number or refuse(value, ticket, again)
        end
        value = pcall_type('GET', name)
    end
    local full = is_full(token, most)
    local position = full and -2 or nil
    if waits and not mine and not full then
        mark_queued(value) -- first: a mark without a queue does no harm
        ticket, position = join(token, ticket)
    end
    if value and not mine or value == nil then
        if (full or not waits) and redis.call('EXISTS', queue) == 1 then
            mark_queued(value)
        end
        return refuse(value, ticket, 0, position)
    end
    local number, again = take(value)
    return number or refuse(value, ticket, again, full and -2 or nil)
end
