-- SPDX-License-Identifier: MIT
-- Describes a hold for those who inspect the lock: since when it is held, by which client
-- and user, and with which note. A client sends it after the grant of a lock that has a
-- note, after the grant of a lock that it has adopted, and after each renewal of these.
--
-- KEYS: name (a string or a hash, described in mutex.lua and rw.lua), holder (a string:
--   the token and the description of a mutex's hold)
-- ARGV: token; about (described.lua)
-- Reply: 1: the token holds the lock, and is described; 0: it does not hold the lock
--
-- Must not create the name's key, nor a description without a hold, or one that lasts
-- longer than the lease.
-- Happy path: the token holds the lock. A mutex's description gets the rest of the lease
-- as its TTL. A read-write lock's is a field of the hash, and goes with the hold.
-- Sent twice, it describes the hold once. After a release it has no effect.

local name, holder, token, about = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local value, old = redis.pcall('GET', name), token

if value == token or value == token:sub(1, -2) .. '+' then -- the queue mark
    local lease = redis.call('PTTL', name)
    if lease <= 0 then
        return 0
    end
    -- inline: mutex_described.lua
    return 1
end
if type(value) == 'table' and redis.pcall('HEXISTS', name, 'h:' .. token) == 1 then
    local before = redis.call('HGET', name, 'd:' .. token) or ''
    -- inline: described.lua
    redis.pcall('HSET', name, 'd:' .. token, described)
    return 1
end
return 0
