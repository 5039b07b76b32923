-- SPDX-License-Identifier: MIT
-- Shows what stands behind a name. Reads only.
-- KEYS: name, mutex queue, rw queue
-- ARGV: at most so many holds (optional, 100), and waiters of each queue (100)
-- Answer: {type of the name's key (TYPE's word), its TTL ms (-1: none, -2: no key),
--          server time us,
--          value (a string's, its first 1024 bytes; else ''),
--          counts {mode, rcount, readers, writer, wcount, soonest} (a read-write lock's;
--                 else {}),
--          holds {token, "<end ms> <r|w> <owner>", fence, ...}, flat,
--          mutex queue {length, TTL ms, member, ticket, ...}, flat, in order,
--          rw queue, the same}
-- A queue whose key is of another type has length -1.
-- Happy path: each key is read once, all at one moment.

local most_holds, most_waiters = tonumber(ARGV[1]) or 100, tonumber(ARGV[2]) or 100
local kind = redis.call('TYPE', KEYS[1]).ok
local time = redis.call('TIME')

local function read_queue(key)
    local length = redis.pcall('ZCARD', key)
    local answer = {type(length) == 'number' and length or -1, redis.call('PTTL', key)}
    if answer[1] > 0 and most_waiters > 0 then
        for _, item in ipairs(redis.call('ZRANGE', key, 0, most_waiters - 1,
                                         'WITHSCORES')) do
            answer[#answer + 1] = item
        end
    end
    return answer
end

local counts, holds = {}, {}
if kind == 'hash' then
    counts = redis.call('HMGET', KEYS[1], 'mode', 'rcount', 'readers', 'writer', 'wcount',
                        'soonest')
    local ours = counts[1] == 'read/2' or counts[1] == 'write/2'
    counts = ours and counts[6] and counts or {}
end
if #counts > 0 then
    local fields = redis.call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        local token = fields[i]:match('^h:(.*)$')
        if token and #holds < 3 * most_holds then
            local owner = fields[i + 1]:match('^%d+ [rw] (.*)$')
            holds[#holds + 1] = token
            holds[#holds + 1] = fields[i + 1]
            holds[#holds + 1] = owner and redis.call('HGET', KEYS[1], 'f:' .. owner) or ''
        end
    end
end

return {kind, redis.call('PTTL', KEYS[1]), time[1] * 1000000 + time[2],
        kind == 'string' and redis.call('GET', KEYS[1]):sub(1, 1024) or '', counts, holds,
        read_queue(KEYS[2]), read_queue(KEYS[3])}
