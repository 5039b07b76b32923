-- SPDX-License-Identifier: MIT
-- Owns how a token asks for a mutex: it is granted, or refused and, if it waits, queued.
-- A fragment, which stands on join.lua and mutex.lua.
--
-- Happy path: ask() joins; a later release hands over.

-- include: join.lua
-- include: mutex.lua

-- `value` is what try('GET') said of the name: nil for a stranger of another type. Who has
-- no ticket, since it may not join yet, gets one: with it it will join in its place.
local function refuse(token, value, ticket, again, position)
    local left = redis.call('PTTL', name)
    local answer = {0, left == -2 and 0 or left,
                    position or try('ZRANK', queue, token) or -1,
                    ticket < 0 and us or ticket, us, again}
    if value == nil then
        answer[7] = redis.call('TYPE', name).ok
    end
    return answer
end

-- The name is this token's already, or nobody's. Nil, and whether to ask again, where others
-- come first.
local function take(token, value, lease, want_fence)
    if value then
        try('ZREM', queue, token)
        redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), lease))
        if redis.call('EXISTS', queue) == 1 then
            mark(value)
        end
        return {1, want_fence and draw(16) or 0}
    end
    local outcome, behind = hand_over(token)
    if outcome == 'free' then
        -- The number first: where it cannot be had, no grant stays behind the error.
        local number = want_fence and draw(16) or 0
        redis.call('SET', name, behind and marked(token) or token, 'PX', lease)
        return {1, number}
    end
    return nil, outcome == 'again' and 1 or 0
end

-- `value` as above.
local function ask(token, value, lease, wait, ticket, want_fence)
    local mine = value == token or value == marked(token)
    local position
    if wait and not mine then
        mark(value) -- first: a mark without a queue does no harm
        ticket, position = join(token, ticket)
    end
    if value and not mine or value == nil then
        if not wait and redis.call('EXISTS', queue) == 1 then
            mark(value)
        end
        return refuse(token, value, ticket, 0, position)
    end
    local granted, again = take(token, value, lease, want_fence)
    return granted or refuse(token, value, ticket, again)
end
