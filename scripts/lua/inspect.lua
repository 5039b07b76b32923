-- SPDX-License-Identifier: MIT
-- Reports the state of a lock of any kind. A client sends it for lw_inspect, for each
-- name that lw_list has found, and before lw_break releases the holds.
--
-- KEYS: name, mutex's queue, read-write lock's queue, holder (mutex_described.lua); or the
--   name alone, and the queues count as empty
-- ARGV: the maximum number of holds (absent: 100); that of waiters of each queue (absent:
--   100). With 0 waiters the client wants to break the lock, and needs only the tokens.
-- Reply: a list of ten elements, or an error if a field or member is longer than 512
--   bytes, which no client writes:
--   1: the type of the name's key, as TYPE returns it
--   2: its TTL in ms (-1: none, -2: no key)
--   3: the server's time in us
--   4: a string's value without the queue mark (mutex.lua), up to 1024 bytes of it, or
--      524288 to break the lock; '' for another type
--   5: the number of holds of a read-write lock; -1 for another lock
--   6: these holds: {token, "<end ms, 0: the key's> <r|w> <owner>", fencing token,
--      description (described.lua) or '', ...}
--   7: the mutex's queue: {length (-1: another type), TTL in ms, member, ticket, ...}
--   8: the read-write lock's queue, the same
--   9: the server's role as INFO reports it; '' if INFO is not permitted, or to break
--   10: the description of the mutex's hold, or ''
--
-- Must not change anything. Must not make the reply longer than a client reads, whatever others
-- have written to the keys. To break a lock, longer fields are cut, and one empty token
-- stands for all longer tokens, as rw_release.lua takes it; and a write that changes nothing
-- is tried, since a break may end with the answer that there is nothing to break, which no
-- replica may give.
-- Happy path: each key is read once, all at one moment.
-- Sent twice, it reports the state at either time.

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

-- Returns the description of a hold, or '' without one, or if it is longer than any of ours.
local function describe(text)
    return not breaks and type(text) == 'string' and #text <= max_length and text or ''
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
        elseif token and #holds < 4 * max_holds then
            local owner, fence = not breaks and fields[i + 1]:match('^%d+ [rw] (.*)$'), ''
            if owner and owner == writer then
                fence = number
            elseif owner then
                local reads = check_length(redis.call('HGET', KEYS[1], 'r:' .. owner))
                fence = reads and reads:match('^%d+ (%d+)$') or ''
            end
            holds[#holds + 1] = check_length(token)
            holds[#holds + 1] = breaks and fields[i + 1]:sub(1, 64)
                or check_length(fields[i + 1])
            holds[#holds + 1] = fence
            holds[#holds + 1] = describe(redis.call('HGET', KEYS[1], 'd:' .. token))
        end
    end
end
if long_token then
    local last = #holds
    holds[last + 1], holds[last + 2], holds[last + 3], holds[last + 4] = '', '0 w ', '', ''
end

local value = kind == 'string' and redis.call('GET', KEYS[1]) or ''
if value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:[1-9]%d*%+$') then
    value = value:sub(1, -2) .. '-'
end
local description = KEYS[4] and value ~= '' and redis.pcall('GET', KEYS[4]) or ''
if type(description) ~= 'string' or description:sub(1, #value + 1) ~= value .. ' ' then
    description = ''
end
description = describe(description:sub(#value + 2))
-- Scripts may not call ROLE.
local info = not breaks and redis.pcall('INFO', 'replication')
local role = type(info) == 'string' and info:match('role:(%a+)') or ''
local mutex_queue, rw_queue = read_queue(KEYS[2]), read_queue(KEYS[3])
if breaks then
    -- include: pcall_type.lua
    pcall_type('ZREM', KEYS[2] or KEYS[1], 'lockwire:') -- a write, which a replica refuses
end
if breaks and #value > 524288 then
    too_long = #value
elseif breaks then
    too_long = nil
end
if too_long then
    return {err = 'ERR the key contains a value of ' .. too_long
                  .. ' bytes, too long for a lock'}
end
return {kind, ttl, time[1] * 1000000 + time[2],
        value:sub(1, breaks and 524288 or 1024), total, holds, mutex_queue, rw_queue,
        role, description}
