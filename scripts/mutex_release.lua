-- SPDX-License-Identifier: MIT
-- Whatever this token has here, it has no more: the lock, a place in the queue, a turn
-- that it was handed meanwhile. Release, leave and give back are this one script.
-- KEYS: name, queue, fence
-- ARGV: token, server
-- Answer: bit 0: it was held and is released; bit 1: again (more dead heads than one call
-- looks at).
-- Happy path: held, nobody queued. The first write frees: it passes without memory.

local held = 0
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    if redis.call('EXISTS', KEYS[2]) == 0 then
        return redis.call('DEL', KEYS[1])
    end
    held = 1
end

local function slow()
    local name, queue, fence, server = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
    -- include: mutex.lua
    if held == 0 then -- who holds does not wait
        try('ZREM', queue, ARGV[1])
        if redis.call('EXISTS', name) == 1 then
            return 0
        end
    end
    local outcome = hand_over()
    if held == 1 and outcome ~= 'handed' then
        redis.call('DEL', name)
    end
    return outcome == 'again' and held + 2 or held
end
return slow()
