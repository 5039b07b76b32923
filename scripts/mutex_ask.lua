-- SPDX-License-Identifier: MIT
-- Owns how a token asks for a mutex: it is granted, or refused and, if it waits, queued.
-- A fragment, like mutex.lua, on which it stands.
--
-- Happy path: ask() joins; a later release hands over.

-- include: mutex.lua
-- include: join.lua

-- `value` is what try('GET') said of the name: nil for a stranger of another type.
local function refuse(token, value, ticket, again, position)
    local left = redis.call('PTTL', name)
    local answer = {0, left == -2 and 0 or left,
                    position or try('ZRANK', queue, token) or -1, ticket, us, again}
    if value == nil then
        answer[7] = redis.call('TYPE', name).ok
    end
    return answer
end

-- `value` as above. The PEXPIRE is sent even where it changes nothing: it frees nothing and
-- needs nothing, but as the first write it is what lets INCRBY through when memory is out.
local function ask(token, value, lease, wait, ticket, want_fence)
    if value == token then
        try('ZREM', queue, token)
        redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), lease))
        return {1, want_fence and draw(16) or 0}
    end
    local again, position = 0, nil
    if wait then
        ticket, position = join(token, ticket)
    end
    if value == false then
        local mine
        position = nil
        mine, again = hand_over(token)
        if mine then
            -- The number first: where it cannot be had, no grant stays behind the error.
            local number = want_fence and draw(16) or 0
            redis.call('SET', name, token, 'PX', lease)
            return {1, number}
        end
    end
    return refuse(token, value, ticket, again, position)
end
