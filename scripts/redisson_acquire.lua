-- SPDX-License-Identifier: MIT
-- Acquires a lock that is shared with Redisson's RLock: a hash with one field, the
-- holder's, and the number of its holds as value. Our clients count by themselves, so a
-- field of ours is 1. Nobody queues: who is refused asks again when the channel of the
-- name says so.
-- KEYS: name
-- ARGV: field, lease ms
-- Answer: {1, 0}
--      or {0, remaining ms (-1: no TTL), -1, -1, server time us, 0 [, type of a key that
--          is no such lock]}
-- Happy path: nothing there. Sent twice, the second finds its field and extends it; no
-- TTL is shortened.

local name, field = KEYS[1], ARGV[1]
local kind = redis.call('TYPE', name).ok
local mine = kind == 'hash' and redis.call('HEXISTS', name, field) == 1
if kind == 'none' then
    redis.call('HSETNX', name, field, 1)
    if type(redis.pcall('PEXPIRE', name, ARGV[2])) ~= 'number' then
        if type(redis.pcall('DEL', name)) ~= 'number' -- see rw_acquire.lua
            and type(redis.pcall('HDEL', name, field)) ~= 'number' then
            redis.call('SET', name, '', 'PX', ARGV[2])
        end
        redis.call('PEXPIRE', name, ARGV[2]) -- so that the server itself raises it
    end
    return {1, 0}
end
if mine then
    redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), tonumber(ARGV[2])))
    return {1, 0}
end
local time = redis.call('TIME')
local answer = {0, redis.call('PTTL', name), -1, -1, time[1] * 1000000 + time[2], 0}
-- Read-write locks, Redisson's and ours, are hashes, too.
if kind ~= 'hash' or redis.call('HEXISTS', name, 'mode') == 1 then
    answer[7] = kind
end
return answer
