-- SPDX-License-Identifier: MIT
-- Whatever this field has of a lock that is shared with Redisson, it has no more; where
-- that frees the lock, those who wait on its channel are told.
-- KEYS: name
-- ARGV: field, channel
-- Answer: 0: it was not held; else it is released, and it was told to so many less one.
-- Happy path: held. The first write frees: it passes without memory. Sent twice, the
-- second finds nothing and tells nobody.

local has = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then
    return has -- HEXISTS is refused: that does not tell whose it is
elseif has ~= 1 then
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then
    local receivers = redis.pcall('PUBLISH', ARGV[2], '0')
    if type(receivers) == 'number' then -- else not permitted: they find it by its TTL
        return 1 + receivers
    end
end
return 1
