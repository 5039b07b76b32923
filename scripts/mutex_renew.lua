-- SPDX-License-Identifier: MIT
-- Extends the leases of mutexes that are still held by their tokens.
-- KEYS: names
-- ARGV: token for each name; lease ms of all, or for each name
-- Answer: 1 (extended) or 0 (not this token's) for each name
-- Happy path: all are held; one batch. Never shortens a TTL (a late duplicate would cut a
-- newer lease), and writes even where nothing changes: a demoted server must not say 1.
-- The end is given as a time, which Redis need not rewrite for its replicas: that is a tenth
-- of what the script costs.

local knows_gt = redis.REDIS_VERSION_NUM ~= nil -- 7.0 and later
local call, pcall = redis.call, redis.pcall -- looked up once for many keys
local keys, words, answer = KEYS, ARGV, {}
local count = #keys
local time = call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local first = words[count + 1]
local known, ends

for i = 1, count do
    local name, held = keys[i], 0
    local value, token = pcall('GET', name), words[i]
    if value == token or value == token:sub(1, -2) .. '+' then -- marked or not
        local lease = words[count + i] or first
        if lease ~= known then
            known, ends = lease, string.format('%.0f', now_ms + lease)
        end
        if not knows_gt or call('PEXPIREAT', name, ends, 'GT') == 0 then
            local left = call('PTTL', name)
            call('PEXPIRE', name, left > tonumber(lease) and left or lease)
        end
        held = 1
    end
    answer[i] = held
end
return answer
