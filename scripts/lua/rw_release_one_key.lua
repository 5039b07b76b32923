-- SPDX-License-Identifier: MIT
-- Releases a hold of a read-write lock by its name alone. A client sends it in place of
-- rw_release.lua while the slot is migrating to another node of a cluster, so that the
-- queue cannot be reached.
--
-- KEYS: name (a hash, described in rw.lua)
-- ARGV: token
-- Reply: bit 0: the token had a hold, which is released; from bit 2 on, the number of
--   holds that its owner still has
--
-- Must not use another key. Waiters poll, and are let in by the next script of three
-- keys.
-- Happy path: the token has a hold, which is removed.
-- Sent twice, it replies 0.

local name, queue, fence, numbers, channel = KEYS[1], nil, '', nil, nil
-- include: rw.lua

local record = load() and redis.call('HGET', name, 'h:' .. ARGV[1])
local ending, kind, owner = parse_hold(record or '')
if not ending then
    pcall_type('ZREM', name, ARGV[1]) -- a write, which a replica refuses
    return 0
end
remove_hold(ARGV[1], kind, owner)
save()
if lock.rcount + lock.wcount == 0 then
    return 1 -- a deleted key must not be read: the slot is migrating
end
return 1 + 4 * (read_holds(owner) + (is_writer(owner) and lock.wcount or 0))
