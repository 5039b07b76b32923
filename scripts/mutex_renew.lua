-- SPDX-License-Identifier: MIT
-- Extends the leases of mutexes that are still held by their tokens.
-- KEYS: names
-- ARGV: token, lease ms for each name
-- Answer: 1 (extended) or 0 (not this token's) for each name
-- Happy path: all are held; one batch. Never shortens a TTL (a late duplicate would cut a
-- newer lease), and writes even where nothing changes: a demoted server must not say 1.

local knows_gt = redis.REDIS_VERSION_NUM ~= nil -- 7.0 and later
local call, pcall = redis.call, redis.pcall -- looked up once for many keys
local keys, words, answer = KEYS, ARGV, {}

for i = 1, #keys do
    local name, held = keys[i], 0
    if pcall('GET', name) == words[2 * i - 1] then
        local lease = words[2 * i]
        if not knows_gt or call('PEXPIRE', name, lease, 'GT') == 0 then
            local left = call('PTTL', name)
            call('PEXPIRE', name, left > tonumber(lease) and left or lease)
        end
        held = 1
    end
    answer[i] = held
end
return answer
