-- SPDX-License-Identifier: MIT
-- Extends the leases of mutexes that are still held by their tokens. A client sends it
-- for all locks whose renewal is due, and to verify its locks.
--
-- KEYS: names (strings, the holders' tokens)
-- ARGV: token for each name; lease in ms, one for all names or one for each
-- Reply: the number of names if all are extended; else for each name 1 (extended) or 0
--   (not held by this token)
--
-- Must not shorten a TTL: a late duplicate would cut a newer lease. Must not omit a write
-- that changes nothing: a former master that has been demoted would reply that the lock
-- is held.
-- Happy path: all are held. The end is given as a time, which Redis need not rewrite for
-- its replicas; this saves a tenth of the cost.
-- Sent twice, it has the same effect as once.

local knows_gt = redis.REDIS_VERSION_NUM ~= nil -- 7.0 and later
local call = redis.call -- looked up once for many keys
local keys, words, lost = KEYS, ARGV, nil
local count = #keys
local values = count > 0 and call('MGET', unpack(keys)) -- false for another type
local time = call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local first = words[count + 1]
local known, ends

for i = 1, count do
    local name, value, token = keys[i], values[i], words[i]
    if value == token or value == token:sub(1, -2) .. '+' then -- the queue mark
        local lease = words[count + i] or first
        if lease ~= known then
            known, ends = lease, string.format('%.0f', now_ms + lease)
        end
        if not knows_gt or call('PEXPIREAT', name, ends, 'GT') == 0 then
            local left = call('PTTL', name)
            call('PEXPIRE', name, left > tonumber(lease) and left or lease)
        end
    else
        lost = lost or {}
        lost[i] = true
    end
end
if not lost then
    return count
end
-- include: pcall_type.lua
pcall_type('ZREM', keys[1], words[1]) -- a write, which a replica refuses
local answer = {}
for i = 1, count do
    answer[i] = lost[i] and 0 or 1
end
return answer
