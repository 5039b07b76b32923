-- SPDX-License-Identifier: MIT
-- Takes over a mutex from a token that is no longer used by its holder: the key gets a
-- new token. A client sends it to adopt a lock that was detached.
--
-- KEYS: name (a string, the holder's token), fence counter, holder (optional: the hold's
--   description, mutex_described.lua)
-- ARGV: old token; new token; lease in ms; f (a fencing token is wanted) or -; about
--   (described.lua), if there is a holder key, else '' if an argument follows; channel
--   (channel.lua, optional)
-- Reply: the first of sixteen fencing tokens, or 0 if none was wanted; -1: the old token
--   does not hold the lock; -2: the key is no mutex. An error if GET is refused: it is
--   then unknown which token holds the lock.
--
-- Must not shorten the TTL, nor touch the queue or the queue mark (mutex.lua).
-- Happy path: the old token holds the lock. The first write changes nothing, and needs
-- no memory. After it Redis does not refuse the next ones if memory is short.
-- Sent twice, it finds its new token, and extends the lease. A second client finds that
-- the old token is gone.

local name, fence, old, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local lease = tonumber(ARGV[3])
local value = redis.pcall('GET', name)

local foreign = type(value) == 'table'
if foreign and not value.err:find('WRONGTYPE', 1, true) then
    return value -- GET is refused
end
local mark = value and not foreign and value:byte(-1) == 43 and '+' or '-'
local mine = value == token:sub(1, -2) .. mark
if not mine and value ~= old:sub(1, -2) .. mark then
    -- include: pcall_type.lua
    pcall_type('ZREM', name, token) -- a write, which a replica refuses
    return foreign and -2 or -1
end
local time, left = redis.call('TIME'), redis.call('PTTL', name)
redis.call('PEXPIRE', name, left > 0 and left or lease)
local number = 0
if ARGV[4] == 'f' then -- first: without it there is no grant
    local count, channel = '16', ARGV[6]
    -- inline: channel.lua
    -- inline: draw_fence.lua
    number = last - 15
end
lease = math.max(left, lease)
redis.call('SET', name, token:sub(1, -2) .. mark, 'PX', lease)
if KEYS[3] then
    local holder, about = KEYS[3], ARGV[5]
    old = mine and token or old:sub(1, -2) .. '-'
    -- inline: mutex_described.lua
end
return number
