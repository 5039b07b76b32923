-- SPDX-License-Identifier: MIT
-- Sets the lease of a mutex that its holder will no longer renew. The lock stays held by
-- its token until the lease ends, or until a client releases or adopts the token. A
-- client sends it to detach a lock, and to release one that has to stay held for a
-- minimum time.
--
-- KEYS: name (a string, the holder's token), queue (a sorted set of tokens), fence counter
--   (not used), holder (the hold's description, absent if it gets none). While
--   the name's slot is migrating: the name alone
-- ARGV: token; lease in ms, or, if the key shall keep its TTL, minus the lease for a key
--   that has none; about (described.lua), if there is a holder key, else '' if
--   an argument follows; channel (channel.lua, optional)
-- Reply: 1: the token holds the lock, and has this lease; 0: it does not hold the lock.
--   An error if GET is refused: it is then unknown which token holds the lock.
--
-- Must not change the lease of another token. This script and rw_detach.lua are the only
-- ones that may shorten the lease of a token that holds. A client that adopts the lock has
-- a token of its own, so a late copy of this script does not shorten its lease.
-- Happy path: the token holds the lock, and the first waiter learns when the lease ends.
-- Sent twice, it sets the lease twice. The second time the client sends the rest of it.

local name, queue, token, lease, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4]
local value = redis.pcall('GET', name)

if value ~= token and value ~= token:sub(1, -2) .. '+' then -- the queue mark
    if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
        return value -- GET is refused
    end
    -- include: pcall_type.lua
    pcall_type('ZREM', name, token) -- a write, which a replica refuses
    return 0
end
lease = tonumber(lease)
if lease < 0 then
    local left = redis.call('PTTL', name)
    lease = left < 0 and -lease or math.max(left, 1)
end
if KEYS[4] then -- before the name's PEXPIRE, so that it does not expire after the name
    local holder, about, old = KEYS[4], ARGV[3], token
    -- inline: mutex_described.lua
end
redis.call('PEXPIRE', name, lease)
-- inline: channel.lua
-- inline: stand_by.lua
return 1
