-- SPDX-License-Identifier: MIT
-- Sets the lease of a hold of a read-write lock that its holder will no longer renew.
-- The hold lasts until the lease ends, or until a client releases or adopts its token. A
-- client sends it when it would send mutex_detach.lua for a mutex.
--
-- KEYS: name (a hash, described in rw.lua)
-- ARGV: token; lease in ms (if it is negative the hold keeps its own)
-- Reply: 1: the token has a hold, with this lease; 0: it has none
--
-- Must not change another hold, nor serve the queue: nothing becomes free. May shorten
-- the key's TTL, but only if this is the only hold: see mutex_detach.lua.
-- Happy path: it is the only hold, and ends with the key from now on. Among other holds
-- it gets an end of its own.
-- Sent twice, it sets the lease twice; the client sends the rest of it then.

local name, queue, fence, numbers = KEYS[1], nil, '', nil
-- include: rw.lua

local token, lease = ARGV[1], tonumber(ARGV[2])
local record = load() and redis.call('HGET', name, 'h:' .. token)
local ending, kind, owner = parse_hold(record or '')
if not ending or ending > 0 and ending <= now then
    pcall_type('HDEL', name, 'h:') -- no answer of a replica's
    return 0
end
if lease < 0 then
    redis.call('HDEL', name, 'h:') -- a write that a replica refuses
    return 1
end
if lock.rcount + lock.wcount == 1 then
    redis.call('PEXPIRE', name, lease)
    if ending == 0 and lock.soonest == 0 then
        return 1
    end
    ending, lock.soonest = 0, 0
else
    extend_ttl(lease)
    ending = now + lease
    lock.soonest = math.min(lock.soonest, ending)
end
change('h:' .. token, format('%.0f %s %s', ending, kind, owner))
save()
return 1
