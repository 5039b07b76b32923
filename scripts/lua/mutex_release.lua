-- SPDX-License-Identifier: MIT
-- Releases all that a token has of a mutex: the lock, its place in the queue, or a lock
-- that was handed over to it in the meantime. A client sends it to release a lock, to
-- leave the queue, to release a hand-over to an unknown token, and to break a lock.
--
-- KEYS: name (a string, the holder's token), queue (a sorted set of tokens), fence
--   counter, holder (absent if the hold has no description, mutex_described.lua)
-- ARGV: token; numbers (two words for messages, Lua's format for a fencing token and the
--   server's id; or `- ` if the guard grants no lock: it is then not handed over); channel
--   (channel.lua, optional)
-- Reply: bit 0: the token held the lock, which is released; bit 1: the script has to be
--   sent again, since it has removed sixteen dead waiters. An error if GET is refused:
--   it is then unknown which token holds the lock.
--
-- Must not release the lock of another token, nor leave its value without the queue mark
-- (mutex.lua) while there are waiters.
-- Happy path: the token holds the lock, and the first waiter is handed it.
-- Sent twice, it finds nothing of the token. If the lock is free the queue is served.

local name, queue, fence, token, numbers = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local value, time, caller = redis.pcall('GET', name), nil, nil
local held = value == token
if not held and token:byte(-1) == 45 then
    held = value == token:sub(1, -2) .. '+'
end

if not held then -- a holder that is queued, too: see `excluded` in mutex_hand_over.lua
    if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
        return value -- GET is refused
    end
    -- include: pcall_type.lua
    pcall_type('ZREM', queue, token)
    if value then
        if redis.call('EXISTS', queue) == 1 then
            -- inline: mutex_mark_queued.lua
        end
        return 0
    end
end
if held and KEYS[4] then
    redis.pcall('DEL', KEYS[4])
end
if numbers == '- ' then -- the guard: no lock is granted
    return held and redis.call('DEL', name) or 0
end
local excluded, channel = token, ARGV[3]
-- inline: channel.lua
-- inline: mutex_hand_over.lua
if held and outcome ~= 'handed' then
    redis.call('DEL', name)
end
return (held and 1 or 0) + (outcome == 'again' and 2 or 0)
