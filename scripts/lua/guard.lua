-- SPDX-License-Identifier: MIT
-- Says for how long this server must not grant locks, because it may have lost writes that
-- granted some. A client that uses the guard sends it on each connection before its first
-- acquisition there, until it has a usable reply; when the wait in the reply has passed; and
-- with each heartbeat.
--
-- KEYS: guard record (a string `<identity> <guard> <from>`: the server that it is about,
--   the guard time in ms, and the server time in us from which locks are granted)
-- ARGV: identity (the server's run id, and by which promotion it became a master); guard
--   time in ms; 1 if this connection had a reply that was not negative, else 0
-- Reply: how long to wait in ms, 0 if locks are granted; negative: the guard time that
--   other clients use, in ms
--
-- Must not shorten a wait that another client was given, nor change anything if it
-- returns another guard time.
-- Happy path: the record has this identity, and its time has come; its TTL is extended.
-- Any other identity, or a lost record, begins a wait of the whole guard time: how long
-- the process has been running says nothing about a server that has taken another's place.
-- Two identities of one process are one server if nothing was lost in between: a
-- promotion ends all connections, so not on a connection that goes on; and a server without
-- replicas forgets after repl-backlog-ttl, later than the guard time, that it was promoted.
-- Before any lock was granted under a record, a longer guard time replaces it. A client
-- that waits for the former one learns of this when it asks at the end of its wait.
-- No wait exceeds the guard time, even if the server's clock was set back.
-- Sent twice, the second finds the first one's record.

local key, identity, guard, goes_on = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local latest = now + guard * 1000
local of, given, from = (redis.call('GET', key) or ''):match('^(%S+) (%d+) (%d+)$')
given, from = tonumber(given), tonumber(from)
if given and (given < 1 or given > 2147483647) then
    of, given = nil, nil -- no client's record
end

if of and given ~= guard and (given > guard or from <= now) then
    -- include: pcall_type.lua
    pcall_type('ZREM', key, identity) -- a write, which a replica refuses
    return -given
end
local same_server = of == identity
if of and of:match('^[^:]*') == identity:match('^[^:]*') then
    same_server = same_server or goes_on or identity:find('^[^:]*:0+:') ~= nil
end
if not same_server or given ~= guard then
    from = latest
end
from = math.min(from, latest)
redis.call('SET', key, string.format('%s %.0f %.0f', identity, guard, from), 'PX', 86400000)
return math.max(0, math.ceil((from - now) / 1000))
