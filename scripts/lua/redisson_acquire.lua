-- SPDX-License-Identifier: MIT
-- Acquires a lock that is shared with Redisson's RLock. A client sends it when a handle
-- of mode LW_REDISSON acquires the lock, and again when the lock's channel has a message,
-- or when it polls. There is no queue in Redis.
--
-- KEYS: name (a hash with one field, the holder's, and the number of its holds as value)
-- ARGV: field, lease in ms
-- Reply: {1, 0} if the field has the lock now;
--   or {0, remaining ms (-1: no TTL), -1, -1, server's time in us, 0[, type of a key that
--     is no such lock]}
--
-- Must not shorten a TTL, nor leave the key without one. A handle holds once, so that
-- the value of its field is 1.
-- Happy path: there is no such key.
-- Sent twice, it finds its field, and extends the lease.

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
        redis.call('PEXPIRE', name, ARGV[2]) -- ends with the server's error
    end
    return {1, 0}
end
if mine then
    redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), tonumber(ARGV[2])))
    return {1, 0}
end
-- include: pcall_type.lua
pcall_type('HDEL', name, field) -- a write, which a replica refuses
local time = redis.call('TIME')
local answer = {0, redis.call('PTTL', name), -1, -1, time[1] * 1000000 + time[2], 0}
-- Read-write locks, Redisson's and ours, are hashes with a mode.
if kind ~= 'hash' or redis.call('HEXISTS', name, 'mode') == 1 then
    answer[7] = kind
end
return answer
