-- SPDX-License-Identifier: MIT
-- Says for how long this server must not grant locks, because it may have lost writes that
-- granted some. A client that uses the guard sends it once per connection, before its first
-- acquisition there, and again until it has a usable reply.
--
-- KEYS: guard record (a string `<identity> <guard> <from>`: the server that it is about,
--   the guard time in ms, and the server time in us from which locks are granted)
-- ARGV: identity (the server's run id, and by which promotion it became a master); guard
--   time in ms; uptime in ms (of the process; 0 if it was promoted since it started)
-- Reply: how long to wait in ms, 0 if locks are granted; -1: other clients use another
--   guard time
--
-- Must not shorten a wait that another client was given, nor change anything if the
-- guard times differ.
-- Happy path: the record has this identity, and its time has come; its TTL is extended.
-- A new identity, or a lost record, begins a wait: what a restart lost was granted before
-- the process started, and what a promotion lost was granted before now. A process
-- keeps its wait with another identity: after repl-backlog-ttl a server without replicas
-- forgets that it was promoted, and its uptime would count then.
-- Sent twice, the second finds the first one's record.

local key, identity, guard = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local of, given, from = (redis.call('GET', key) or ''):match('^(%S+) (%d+) (%d+)$')

if given and given ~= guard then
    -- include: pcall_type.lua
    pcall_type('ZREM', key, identity) -- no answer of a replica's
    return -1
end
if of ~= identity then
    local same_process = of and of:match('^[^:]*') == identity:match('^[^:]*')
    local begun = now + math.max(0, guard - ARGV[3]) * 1000
    from = same_process and math.max(begun, from) or begun
end
redis.call('SET', key, string.format('%s %s %.0f', identity, guard, from), 'PX', 86400000)
return math.max(0, math.ceil((from - now) / 1000))
