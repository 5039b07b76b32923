-- SPDX-License-Identifier: MIT
-- Extends the lease of a hold of a read-write lock by its name alone. A client sends it
-- in place of rw_renew.lua while the slot is migrating to another node of a cluster, so
-- that neither the queue nor the fence counter can be reached.
--
-- KEYS: name (a hash, described in rw.lua)
-- ARGV: token, lease in ms
-- Reply: a list of one number, 1 (extended) or 0 (the token has no hold)
--
-- Must not remove expired holds, nor serve the queue: the next script of three keys does.
-- Happy path: the token has a hold, which is extended.
-- Sent twice, it has the same effect as once.

local name, queue, fence, numbers, channel = KEYS[1], nil, '', nil, nil
-- include: rw.lua

local token, lease = ARGV[1], tonumber(ARGV[2])
local record = load() and redis.call('HGET', name, 'h:' .. token)
if not record or not parse_hold(record) then
    pcall_type('ZREM', name, token) -- a write, which a replica refuses
    return {0}
end
extend(record, token, lease)
return {1}
