-- SPDX-License-Identifier: MIT
-- Owns how a token asks for a mutex: it is granted, or refused and, if it waits, queued.
-- A fragment, which stands on join.lua and mutex.lua, for scripts whose last argument is
--   `how`: j (it joins), k (the same, and the queue shall live on for all of its time) or
--          n (it does not); f (a number is wanted) or - ; its ticket, or nothing; a blank;
--          then `numbers` (mutex_hand_over.lua)
--
-- Happy path: ask() joins; a later release hands over. The number is the answer of who is
-- granted: the first of sixteen, or 0 where none was wanted. Who is refused is told
--   "<remaining ms, -1: no TTL, 0: free, -2: not told> <position, -1: not queued>
--    <server time us>[ <ticket> <again 0|1>[ <type of a stranger's key>]]"
-- Without a ticket it is the time. Not told what is left is who came just now and has others
-- in front: when the lease ends the first of them asks, and to say it costs a command.

-- include: join.lua
-- include: mutex.lua

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
