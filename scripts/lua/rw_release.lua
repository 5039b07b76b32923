-- SPDX-License-Identifier: MIT
-- Releases all that a token has of a read-write lock: its hold, or its place in the
-- queue. A client sends it to release a lock, to leave the queue, to release a hand-over
-- to an unknown token, and to break a lock.
--
-- KEYS: name (a hash, described in rw.lua), queue (a sorted set), fence counter
-- ARGV: token; `<numbers>[ <r|w><permits> <owner>]`; channel (channel.lua, optional).
--   `numbers` is Lua's format for a fencing token in messages, and the server that is
--   named there. The rest is that of the queue's member; without an owner it is the
--   token. To break a lock the rest is omitted, since a holder is not queued. The token
--   '' is all tokens longer than 512 bytes.
-- The short form has less to pass, and is cheaper: KEYS is name and queue, and ARGV the
--   hold's field, `h:<token>`. It releases a hold on the happy path, and has no effect on
--   any other.
-- Reply: bit 0: the token had a hold, which is released; bit 1: the script has to be sent
--   again, since it has served 128 waiters, or in full, since the short form had no
--   effect; from bit 2 on, the number of holds that the owner still has
--
-- Must not change a foreign key. The first write frees memory, so that it passes without.
-- Happy path: it is the only hold, or its owner's only one among others that read, and
-- the queue is empty. A state that has not exactly this form is left to slow().
-- Sent twice, it finds nothing of the token, but serves the queue.

local name, hold, call = KEYS[1], KEYS[3] and 'h:' .. ARGV[1] or ARGV[1], redis.call
local state, only, record = redis.pcall('HGET', name, 'mode'), nil, nil
if type(state) == 'string' then
    only = state == '2 1 1 0 0 0 ' or state:find('^2 1 0 1 %d+ %d+ ')
    record = call(only and 'HEXISTS' or 'HGET', name, hold)
end
if record and record ~= 0 and call('EXISTS', KEYS[2]) == 0 then
    if only then
        return call('DEL', name)
    end
    local holds, readers, soonest = state:match('^2 (%d+) (%d+) 0 ([1-9]%d*) 0 $')
    if holds == '1' then
        return call('DEL', name)
    end
    local owner = holds and record:match('^%d+ r (.*)$')
    local read_holds = owner and call('HGET', name, 'r:' .. owner)
    local time = read_holds and read_holds:find('1 ', 1, true) == 1 and call('TIME')
    if time and tonumber(soonest) > time[1] * 1000 + time[2] / 1000 then
        call('HDEL', name, 'h:') -- see rw.lua
        call('HSET', name, 'mode', string.format('2 %d %d 0 %s 0 ', holds - 1,
                                                 readers - 1, soonest))
        call('HDEL', name, hold, 'r:' .. owner, 'd' .. hold:sub(2))
        return 1
    end
end
if not KEYS[3] then
    return 2
end

local function slow()
    local queue, fence, token, channel = KEYS[2], KEYS[3], hold:sub(3), ARGV[3]
    local numbers, request, owner = ARGV[2]:match('^(%S+ %S*) ?(%S*) ?(.*)$')
    if owner == '' then
        owner = token
    end
    local member = request .. ' ' .. token .. ' ' .. owner
    -- include: rw.lua
    if only then
        record = redis.call('HGET', name, hold)
    end
    if not load() or record and not parse_hold(record) then
        pcall_type('ZREM', queue, member)
        return 0
    end
    local released = 0
    if token == '' then
        for _, field in ipairs(redis.call('HKEYS', name)) do
            local long = #field > 514 and field:match('^h:(.*)$')
            local ending, kind, holder =
                parse_hold(long and redis.call('HGET', name, field) or '')
            if ending then
                remove_hold(long, kind, holder)
                released = 1
            end
        end
    end
    if released == 1 then
        save()
    end
    if record then
        local _, kind, holder = parse_hold(record)
        owner = holder
        remove_hold(token, kind, owner)
        save()
        released = 1
    end
    leave_queue(member, token)
    purge()
    local _, again = serve()
    local holds = read_holds(owner) + (is_writer(owner) and lock.wcount or 0)
    return released + 2 * again + 4 * holds
end
return slow()
