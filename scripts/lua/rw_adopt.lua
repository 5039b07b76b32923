-- SPDX-License-Identifier: MIT
-- Takes over a hold of a read-write lock from a token that is no longer used by its
-- holder: the hold gets a new token. Its owner and its kind stay, and so do all counts.
-- A client sends it to adopt a hold that was detached.
--
-- KEYS: name (a hash, described in rw.lua), fence counter
-- ARGV: old token; new token; lease in ms; `<r|w> <owner>`, without an owner if any will
--   do; about (described.lua), if the hold is to have a description, else '' if an argument
--   follows; channel (channel.lua, optional)
-- Reply: the fencing token and the owner; or -1: the old token has no hold; -2: the key
--   is no read-write lock, or the hold is of another kind or owner
--
-- Must not shorten the hold or the TTL, nor serve the queue: nothing becomes free.
-- Happy path: the old token has a hold. Its owner gets a new fencing token, which its
-- other holds share. The first write changes nothing, and needs no memory, so that the
-- next ones pass without memory.
-- Sent twice, it finds the hold of the new token, and extends it.

local name, queue, fence, numbers, channel = KEYS[1], nil, KEYS[2], nil, ARGV[6]
-- include: rw.lua

local old, token, lease = 'h:' .. ARGV[1], ARGV[2], tonumber(ARGV[3])
local wanted_kind, wanted_owner = ARGV[4]:match('^(.) (.*)$')
-- Nothing is refused without a write, so that no refusal is a replica's.
local function refuse(answer)
    pcall_type('ZREM', name, token)
    return answer
end

if not load() then
    return refuse(-2)
end
local record = redis.call('HGET', name, 'h:' .. token)
local ending, kind, owner = parse_hold(record or '')
if ending then
    return {extend(record, token, lease), owner}
end
record = redis.call('HGET', name, old)
ending, kind, owner = parse_hold(record or '')
if not ending or ending > 0 and ending <= now then
    return refuse(-1)
end
if kind ~= wanted_kind or wanted_owner ~= '' and wanted_owner ~= owner then
    return refuse(-2)
end
redis.call('HDEL', name, 'h:')
local number, count = draw_fence(1), read_holds(owner)
if is_writer(owner) then
    lock.number = number
end
if count > 0 then
    set_reads(owner, count, number)
end
local before, about = redis.call('HGET', name, 'd:' .. ARGV[1]) or '', ARGV[5]
if before ~= '' then
    change('d:' .. ARGV[1], false)
end
if (about or '') ~= '' then
    -- inline: described.lua
    change('d:' .. token, described)
end
change(old, false)
change('h:' .. token, record)
extend(record, token, lease)
return {number, owner}
