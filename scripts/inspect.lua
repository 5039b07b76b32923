-- SPDX-License-Identifier: MIT
-- Shows what stands behind a name. Reads only.
-- KEYS: name, mutex queue, rw queue; or the name alone, whose queues then have nobody
-- ARGV: at most so many holds (optional, 100), and waiters of each queue (100; 0: who asks
--       wants to break the lock, and needs no more than the tokens that hold it)
-- Answer: {type of the name's key (TYPE's word), its TTL ms (-1: none, -2: no key),
--          server time us,
--          value (a string's, its first 1024 bytes, to break 524288; else ''; of a mutex
--                 the token, which the mark at its end is not a part of),
--          how many hold it (a read-write lock; else -1),
--          holds {token, "<end ms, 0: the key's> <r|w> <owner>", fence, ...}, flat,
--          mutex queue {length, TTL ms, member, ticket, ...}, flat, in order,
--          rw queue, the same,
--          role of the server, as INFO has it ('': it may not be asked; nor to break)}
-- A queue whose key is of another type has length -1.
-- Happy path: each key is read once, all at one moment.
--
-- What anybody may have written there must not make the answer longer than a client reads. No
-- client of ours writes a field or a member of more than 512 bytes; one that is longer is an
-- error, but to break the lock: then it is cut, and instead of tokens that are longer there
-- is one that is empty, which rw_release takes for all of them.

local max_holds, max_waiters = tonumber(ARGV[1]) or 100, tonumber(ARGV[2]) or 100
local breaks, max_length, too_long = max_waiters == 0, 512, nil
local kind = redis.call('TYPE', KEYS[1]).ok
local time = redis.call('TIME')
local ttl = redis.call('PTTL', KEYS[1])

local function check_length(text)
    if text and #text > max_length then
        too_long = #text
        return text:sub(1, max_length)
    end
    return text
end

local function read_queue(key)
    if not key then
        return {0, -2}
    end
    local length = redis.pcall('ZCARD', key)
    local answer = {type(length) == 'number' and length or -1, redis.call('PTTL', key)}
    if answer[1] > 0 and max_waiters > 0 then
        for _, item in ipairs(redis.call('ZRANGE', key, 0, max_waiters - 1,
                                         'WITHSCORES')) do
            answer[#answer + 1] = check_length(item)
        end
    end
    return answer
end

local total, holds, long_token = -1, {}, false
local state = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
local count, number, writer = (state or ''):match('^2 (%d+) %d+ %d+ %d+ (%d+) (.*)$')
if count then
    total = check_length(state) and tonumber(count)
    local fields = redis.call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        local token = fields[i]:match('^h:(.*)$')
        if token and breaks and #token > max_length then
            long_token = long_token or fields[i + 1]:find('^%d+ [rw] ') ~= nil
        elseif token and #holds < 3 * max_holds then
            local owner, fence = not breaks and fields[i + 1]:match('^%d+ [rw] (.*)$'), ''
            if owner and owner == writer then
                fence = number
            elseif owner then
                local reads = check_length(redis.call('HGET', KEYS[1], 'r:' .. owner))
                fence = reads and reads:match('^%d+ (%d+)$') or ''
            end
            holds[#holds + 1] = check_length(token)
            holds[#holds + 1] = breaks and fields[i + 1]:sub(1, 64) or check_length(fields[i + 1])
            holds[#holds + 1] = fence
        end
    end
end
if long_token then
    holds[#holds + 1], holds[#holds + 2], holds[#holds + 3] = '', '0 w ', ''
end

local value = kind == 'string' and redis.call('GET', KEYS[1]) or ''
if value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:[1-9]%d*%+$') then
    value = value:sub(1, -2) .. '-'
end
-- ROLE is not for scripts.
local info = not breaks and redis.pcall('INFO', 'replication')
local role = type(info) == 'string' and info:match('role:(%a+)') or ''
local mutex_queue, rw_queue = read_queue(KEYS[2]), read_queue(KEYS[3])
if breaks and #value > 524288 then
    too_long = #value
elseif breaks then
    too_long = nil
end
if too_long then
    return {err = 'ERR what stands there has ' .. too_long .. ' bytes, too long for a lock'}
end
return {kind, ttl, time[1] * 1000000 + time[2],
        value:sub(1, breaks and 524288 or 1024), total, holds, mutex_queue, rw_queue, role}
