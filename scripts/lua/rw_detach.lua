-- SPDX-License-Identifier: MIT
-- Sets the lease of a hold of a read-write lock that its holder will no longer renew.
-- The hold lasts until the lease ends, or until a client releases or adopts its token. A
-- client sends it when it would send mutex_detach.lua for a mutex.
--
-- KEYS: name (a hash, described in rw.lua), queue (a sorted set), fence counter (not
--   used). While the name's slot is migrating: the name alone
-- ARGV: token; lease in ms (if it is negative the hold keeps its own); about
--   (described.lua), if the hold gets a description, else '' if an argument follows;
--   channel (channel.lua, optional)
-- Reply: 1: the token has a hold, with this lease; 0: it has none
--
-- Must not change another hold, nor serve the queue: nothing becomes free. May shorten
-- the key's TTL, but only if this is the only hold: see mutex_detach.lua.
-- Happy path: it is the only hold, and ends with the key from now on. Among other holds
-- it gets an end of its own. The first waiter learns when that is, unless the hold keeps its
-- lease, by which the waiter polls already.
-- Sent twice, it sets the lease twice; the client sends the rest of it then.

local name, queue, fence, numbers, channel = KEYS[1], KEYS[2], KEYS[3] or '', nil, ARGV[4]
-- include: rw.lua

local token, lease = ARGV[1], tonumber(ARGV[2])
local record = load() and redis.call('HGET', name, 'h:' .. token)
local ending, kind, owner = parse_hold(record or '')
if not ending or ending > 0 and ending <= now then
    pcall_type('ZREM', name, token) -- a write, which a replica refuses
    return 0
end
local about = ARGV[3]
local function describe()
    if (about or '') ~= '' then
        local before = redis.call('HGET', name, 'd:' .. token) or ''
        -- inline: described.lua
        redis.pcall('HSET', name, 'd:' .. token, described)
    end
end
if lease < 0 then
    redis.call('HDEL', name, 'h:') -- a write that a replica refuses
    describe()
    return 1
end
local alone = lock.rcount + lock.wcount == 1
if not alone then
    extend_ttl(lease)
end
if not alone or ending > 0 or lock.soonest > 0 then
    ending = alone and 0 or now + lease
    lock.soonest = alone and 0 or math.min(lock.soonest, ending)
    change('h:' .. token, format('%.0f %s %s', ending, kind, owner))
    save()
end
if alone then -- after save(), which may be refused: no hold may outlast the key
    redis.call('PEXPIRE', name, lease)
end
describe()
-- inline: stand_by.lua
return 1
