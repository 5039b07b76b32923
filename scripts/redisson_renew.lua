-- SPDX-License-Identifier: MIT
-- Extends the leases of locks that are shared with Redisson and still have our fields.
-- KEYS: names
-- ARGV: field for each name; lease ms of all, or for each name
-- Answer: 1 (extended) or 0 (not there) for each name
-- Happy path: all are held; one batch. Never shortens a TTL.

local count, answer = #KEYS, {}
for i, name in ipairs(KEYS) do
    local has = redis.pcall('HEXISTS', name, ARGV[i])
    answer[i] = 0
    if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then
        return has -- HEXISTS is refused: that does not tell whose it is
    elseif has == 1 then
        local lease = tonumber(ARGV[count + i] or ARGV[count + 1])
        local left = redis.call('PTTL', name)
        redis.call('PEXPIRE', name, left > lease and left or lease)
        answer[i] = 1
    end
end
return answer
