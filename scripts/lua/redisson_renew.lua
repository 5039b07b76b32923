-- SPDX-License-Identifier: MIT
-- Extends the leases of locks that are shared with Redisson's RLock. A client sends it
-- for all such locks whose renewal is due, and to verify them.
--
-- KEYS: names (hashes with one field, the holder's)
-- ARGV: field for each name; lease in ms, one for all names or one for each
-- Reply: for each name 1 (extended) or 0 (the field does not have the lock). An error if
--   HEXISTS is refused: it is then unknown which field has the lock.
--
-- Must not shorten a TTL.
-- Happy path: all fields have their locks.
-- Sent twice, it has the same effect as once.

local count, answer, lost = #KEYS, {}, nil
for i, name in ipairs(KEYS) do
    local has = redis.pcall('HEXISTS', name, ARGV[i])
    answer[i] = 0
    if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then
        return has -- HEXISTS is refused
    elseif has == 1 then
        local lease = tonumber(ARGV[count + i] or ARGV[count + 1])
        local left = redis.call('PTTL', name)
        redis.call('PEXPIRE', name, left > lease and left or lease)
        answer[i] = 1
    else
        lost = i
    end
end
if lost then
    -- include: pcall_type.lua
    pcall_type('HDEL', KEYS[lost], ARGV[lost]) -- a write, which a replica refuses
end
return answer
