-- SPDX-License-Identifier: MIT
-- Acquires a mutex, or joins its queue; one script, so that no wake-up falls in between.
-- KEYS: name, queue, fence
-- ARGV: token, lease ms, wait 0|1, ticket (-1: none yet), want fence 0|1, server
-- Answer: {1, fence} (0 where none was wanted; else the first of sixteen)
--      or {0, remaining ms (-1: no TTL; 0: free), position (-1: not queued), ticket,
--          server time us, again [, type of a stranger's key]}
-- Happy path: free, nobody queued, the counter there. Sent twice, the second finds its
-- token in the name and extends it.

local granted = redis.call('EXISTS', KEYS[2]) == 0
    and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if granted then
    if ARGV[5] == '0' then
        return {1, 0}
    end
    local last = redis.pcall('INCRBY', KEYS[3], 16)
    if type(last) == 'number' and last >= 1125899906842624
        and last < 9007199254740992 then
        return {1, last - 15}
    end
    -- No number yet, so no grant yet: slow() sees to the counter first.
    redis.call('DEL', KEYS[1])
end

local function slow()
    local name, queue, fence, server = KEYS[1], KEYS[2], KEYS[3], ARGV[6]
    -- include: mutex_ask.lua
    return ask(ARGV[1], try('GET', name), tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4]),
               ARGV[5] ~= '0')
end
return slow()
