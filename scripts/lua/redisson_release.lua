-- SPDX-License-Identifier: MIT
-- Releases a lock that is shared with Redisson's RLock. If the lock is free then, it is
-- published on the lock's channel, so that waiters try again. A client sends it to
-- release a lock, and after a request whose outcome is unknown.
--
-- KEYS: name (a hash with one field, the holder's, and the number of its holds as value)
-- ARGV: field, channel
-- Reply: 0 if the field did not have the lock; else it is released, and the reply is 1
--   plus the number of subscribers that got the message. An error if HEXISTS is refused:
--   it is then unknown which field has the lock.
--
-- Must not release the lock of another field. The first write frees memory, so that it
-- passes without. If PUBLISH is not permitted waiters find out by the TTL.
-- Happy path: the field has the lock, and the key is gone with it.
-- Sent twice, it finds nothing and publishes nothing.

local has = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then
    return has -- HEXISTS is refused
elseif has ~= 1 then
    -- include: pcall_type.lua
    pcall_type('HDEL', KEYS[1], ARGV[1]) -- a write, which a replica refuses
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then
    local receivers = redis.pcall('PUBLISH', ARGV[2], '0')
    if type(receivers) == 'number' then -- else it is not permitted
        return 1 + receivers
    end
end
return 1
