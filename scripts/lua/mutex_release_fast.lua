-- SPDX-License-Identifier: MIT
-- Releases a mutex whose value shows that the queue is empty. A client sends it in place
-- of mutex_release.lua after an uncontended acquisition. It uses one key, since each one
-- costs.
--
-- KEYS: name (a string, the holder's token)
-- ARGV: token; any further word if the queue cannot be reached, since the slot is
--   migrating. The lock is then released although there may be waiters, which poll.
-- Reply: 1: released; 0: the value has the queue mark (mutex.lua) or is not the token's,
--   so that mutex_release.lua has to be sent. An error if GET is refused: it is then
--   unknown which token holds the lock.
--
-- Must not release the lock of another token, nor, without the further word, one that may
-- have waiters.
-- Happy path: the value is the token, and the key is deleted.
-- Sent twice, it replies 0.

local value, token = redis.pcall('GET', KEYS[1]), ARGV[1]

if value == token or (ARGV[2] and value == token:sub(1, -2) .. '+') then
    return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value -- GET is refused
end
if ARGV[2] then -- else mutex_release.lua follows
    -- include: pcall_type.lua
    pcall_type('ZREM', KEYS[1], token) -- a write, which a replica refuses
end
return 0
