-- SPDX-License-Identifier: MIT
-- Owns the mutex: the name's value is the holder's token, its TTL the lease; a member of
-- the queue is a waiter's token. Where somebody may be queued the value is marked: the token
-- ends in + there, and in - everywhere else. Must not know the read-write hash.
--
-- A fragment, which stands on clock.lua.
--
-- Happy path: a release hands over, and the waiter's token is the name's value.
--
-- After each script that knows the queue, a value that is not marked says that the queue is
-- empty. (A plain SET NX that comes between a lease's end and the next script makes it say
-- so untruly, until a script looks.)

-- include: join.lua

-- The first of sixteen new numbers.
local function draw_fence()
    local count = '16'
    -- inline: draw_fence.lua
    return last - 15
end

local function marked(token)
    return token:sub(1, -2) .. '+'
end

local function mark_queued(value)
    -- inline: mutex_mark_queued.lua
end

-- See mutex_hand_over.lua: `outcome` and `behind`.
local function hand_over(caller)
    local excluded
    -- inline: mutex_hand_over.lua
    return outcome, behind
end

-- `value` is what try('GET') said of the name: nil for a stranger of another type. Who has
-- no ticket, since it may not join yet, gets one: with it it will join in its place.
local function refuse(token, value, ticket, again, position)
    local left = math.min(redis.call('PTTL', name), 9007199254740992) -- a client reads so far
    local place = position or pcall_type('ZRANK', queue, token) or -1
    local answer = format('%.0f %d %s', left == -2 and 0 or left, place, us_text)
    if value ~= nil and again == 0 and (ticket < 0 or ticket == us) then
        return answer
    end
    local kind = value == nil and ' ' .. redis.call('TYPE', name).ok or ''
    return answer .. format(' %.0f %d', ticket < 0 and us or ticket, again) .. kind
end

-- The name is this token's already, or nobody's. Nil, and whether to ask again, where others
-- come first.
local function take(token, value, lease, want_fence)
    if value then
        pcall_type('ZREM', queue, token)
        redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), lease))
        if redis.call('EXISTS', queue) == 1 then
            mark_queued(value)
        end
        return want_fence and draw_fence() or 0
    end
    local outcome, behind = hand_over(token)
    if outcome == 'free' then
        -- The number first: where it cannot be had, no grant stays behind the error.
        local number = want_fence and draw_fence() or 0
        redis.call('SET', name, behind and marked(token) or token, 'PX', lease)
        return number
    end
    return nil, outcome == 'again' and 1 or 0
end

-- `value` as above.
local function request(token, value, lease)
    local mine = value == token or value == marked(token)
    local wait, ticket = how:byte() ~= 110, tonumber((how:match('^..(%d+)'))) or -1
    local position
    if wait and not mine then
        mark_queued(value) -- first: a mark without a queue does no harm
        ticket, position = join(token, ticket)
    end
    if value and not mine or value == nil then
        if not wait and redis.call('EXISTS', queue) == 1 then
            mark_queued(value)
        end
        return refuse(token, value, ticket, 0, position)
    end
    local number, again = take(token, value, tonumber(lease), how:byte(2) == 102)
    return number or refuse(token, value, ticket, again)
end
