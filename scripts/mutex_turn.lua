-- SPDX-License-Identifier: MIT
-- Ends a client's turn: releases the old token and acquires for the new one, at once if
-- nobody else waits, else at the tail.
-- KEYS: name, queue, fence
-- ARGV: old token, token, lease ms, ticket, want fence 0|1, wait ('0': do not join), server
-- Answer: {1 if the old token was held and is released, else 0, then mutex_acquire's}
-- Happy path: held, nobody queued.
--
-- A turn is spent with its old token: sent again when neither token is here any more, it
-- neither takes the name nor queues (position -1), so that a late duplicate cannot bring
-- back a token that was released. It still serves the queue.

local held, value = 0, redis.pcall('GET', KEYS[1])
if value == ARGV[1] or value == ARGV[1]:sub(1, -2) .. '+' then
    redis.call('DEL', KEYS[1]) -- first: it passes without memory
    held = 1
    if redis.call('EXISTS', KEYS[2]) == 0 then
        local last = ARGV[5] ~= '0' and redis.pcall('INCRBY', KEYS[3], 16) or 0
        if type(last) == 'number' and (ARGV[5] == '0' or last >= 1125899906842624
            and last < 9007199254740992) then
            redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
            return {1, 1, ARGV[5] == '0' and 0 or last - 15}
        end
    end
end

local function slow()
    local name, queue, fence, server = KEYS[1], KEYS[2], KEYS[3], ARGV[7]
    -- include: mutex_ask.lua
    local old, token = ARGV[1], ARGV[2]
    local left, value = 0, false
    if held == 0 then -- who held does not wait, and its name is free now
        left, value = try('ZREM', queue, old), try('GET', name)
    end
    local answer
    if held == 1 or left == 1 or value == token or value == marked(token)
        or try('ZSCORE', queue, token) then
        answer = ask(token, value, tonumber(ARGV[3]), ARGV[6] ~= '0', tonumber(ARGV[4]),
                     ARGV[5] ~= '0')
    else
        local again = 0
        if value == false then
            again = hand_over() == 'again' and 1 or 0
        elseif redis.call('EXISTS', queue) == 1 then
            mark(value)
        end
        answer = refuse(token, value, -1, again)
    end
    table.insert(answer, 1, held)
    return answer
end
return slow()
