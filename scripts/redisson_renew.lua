-- SPDX-License-Identifier: MIT
-- Extends the leases of locks that are shared with Redisson and still have our fields.
-- KEYS: names
-- ARGV: field, lease ms for each name
-- Answer: 1 (extended) or 0 (not there) for each name
-- Happy path: all are held; one batch. Never shortens a TTL.

local answer = {}
for i, name in ipairs(KEYS) do
    answer[i] = 0
    if redis.pcall('HEXISTS', name, ARGV[2 * i - 1]) == 1 then
        local left, lease = redis.call('PTTL', name), tonumber(ARGV[2 * i])
        redis.call('PEXPIRE', name, left > lease and left or lease)
        answer[i] = 1
    end
end
return answer
