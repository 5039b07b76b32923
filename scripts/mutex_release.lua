-- SPDX-License-Identifier: MIT
-- Whatever this token has here, it has no more: the lock, a place in the queue, a turn
-- that it was handed meanwhile. Release, leave and give back are this one script.
-- KEYS: name, queue, fence
-- ARGV: token, numbers (mutex_hand_over.lua)
-- Answer: bit 0: it was held and is released; bit 1: again (more dead heads than one call
-- looks at).
-- Happy path: held, and the first in the queue is handed it.

local name, queue, fence, token, numbers = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local value, time, caller = redis.pcall('GET', name), nil, nil
local held = value == token
if not held and token:byte(-1) == 45 then
    held = value == token:sub(1, -2) .. '+'
end

if not held then -- who holds does not wait
    if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
        return value -- GET is refused: that does not tell whose it is
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
local excluded = token
-- inline: mutex_hand_over.lua
if held and outcome ~= 'handed' then
    redis.call('DEL', name)
end
return (held and 1 or 0) + (outcome == 'again' and 2 or 0)
