-- SPDX-License-Identifier: MIT
-- Acquires a read-write lock for an owner, to read or to write; or puts the request into
-- the queue. A client sends it when a handle of mode LW_SHARED or LW_EXCLUSIVE acquires
-- the lock, and again whenever it polls.
--
-- KEYS: name (a hash, described in rw.lua), queue (a sorted set), fence counter
-- ARGV: token; lease in ms; `<r|w> <owner>`, to read or to write (without an owner it is
--   the token); `<wait 0|1> <ticket> <permits>[/<N>] <numbers>`; channel (channel.lua,
--   optional). A request that waits joins the queue. The ticket is the server's time in us that its place goes by, -1 if
--   it has none. A reader enters only while fewer than `permits` owners read; 0 is any
--   number. With N, an owner without a hold must not join while N others are queued.
--   `numbers` is Lua's format for a fencing token in messages, and the server that is
--   named there.
-- Reply: the fencing token, if the token has a hold now;
--   or {0, remaining ms (-1: no TTL, 0: free), position (-1: not queued, -2: and N
--     others are), ticket, server's time in us, 1 if the script has to be sent again,
--     else 0[, type of a foreign key]};
--   or -1: another owner that reads is waiting to write, too, so that neither ever could.
--
-- Must not leave a key without a TTL, nor let in a new owner past the first waiter.
-- Happy path: there is neither hold nor waiter, or only holds of readers, and the request
-- is to read. Then it writes what add_hold() in rw.lua would. slow() handles all other
-- cases.
-- Sent twice, it finds the token's hold, and extends it, or its place in the queue.

local name, token, lease, request = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local call, pcall = redis.call, redis.pcall
local owner = #request == 2 and token or request:sub(3)
local exists, to_write = call('EXISTS', name, KEYS[2]), request:byte() == 119 -- w

-- If one more owner can read: the state to change, and the end of the new hold.
local holds, readers, soonest, ending
if exists == 1 and not to_write then
    local state = pcall('HGET', name, 'mode')
    if type(state) == 'string' then
        holds, readers, soonest = state:match('^2 (%d+) (%d+) 0 ([1-9]%d*) 0 $')
    end
    local permits = holds and ARGV[4]:match('^%S+ %S+ (%d+)')
    if holds and (permits == '0' or tonumber(readers) < tonumber(permits))
        and call('HEXISTS', name, 'r:' .. owner) == 0 then
        local time = call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        soonest, ending = tonumber(soonest), now + lease
        exists = soonest > now and 0 or exists
    end
end

local channel = ARGV[5]
if exists == 0 and (not channel or channel:byte(-1) == 32) then -- no slot: draw_fence.lua
    local number = pcall('INCR', KEYS[3])
    if type(number) == 'number' and number >= 1125899906842624
        and number < 9007199254740992 then
        local format = string.format
        local text = format('%d', number) -- cheaper than %.0f, wrong with 32 bits
        if #text ~= 16 then
            text = format('%.0f', number)
        end
        if ending then
            if call('PTTL', name) < tonumber(lease) then
                call('PEXPIRE', name, lease)
            end
            call('HSET', name, 'mode',
                 format('2 %d %d 0 %.0f 0 ', holds + 1, readers + 1,
                        math.min(soonest, ending)),
                 'h:' .. token, format('%.0f r %s', ending, owner),
                 'r:' .. owner, '1 ' .. text)
            return number
        elseif to_write then
            call('HSET', name, 'mode', '2 1 0 1 0 ' .. text .. ' ' .. owner,
                 'h:' .. token, '0 w ' .. owner)
        else
            call('HSET', name, 'mode', '2 1 1 0 0 0 ', 'h:' .. token,
                 '0 r ' .. owner, 'r:' .. owner, '1 ' .. text)
        end
        if pcall('PEXPIRE', name, lease) ~= 1 then -- it would never expire
            -- A probe before the HSET would cost each grant a command.
            if type(pcall('DEL', name)) ~= 'number'
                and type(pcall('HDEL', name, 'mode', 'h:' .. token,
                               'r:' .. owner)) ~= 'number' then
                call('SET', name, '', 'PX', lease) -- foreign, but it expires
            end
            call('PEXPIRE', name, lease) -- ends with the server's error
        end
        return number
    elseif number == 1 and pcall('PEXPIRE', KEYS[3], '86400000') ~= 1 then
        call('DEL', KEYS[3]) -- the counter was lost, and INCRBY created another
    end
end

local function slow()
    local queue, fence = KEYS[2], KEYS[3]
    local wait, ticket, permits, limit, numbers =
        ARGV[4]:match('^(%d) (%S+) (%d+)/?(%d*) (.*)$')
    local kind = request:sub(1, 1)
    wait, ticket, permits = wait == '1', tonumber(ticket), tonumber(permits)
    lease = tonumber(lease)
    -- include: rw.lua
    -- include: join.lua
    local member, full = format('%s%.0f %s %s', kind, permits, token, owner), false
    limit = tonumber(limit)

    -- A request may end with this reply if it does not join; it is then no answer of a
    -- replica's.
    local function refuse(ours, again)
        if full or not wait then
            pcall_type('ZREM', queue, '')
        end
        local left = redis.call('PTTL', name)
        if left == -2 then
            left = 0
        elseif ours and lock.soonest > 0 then
            left = math.max(0, lock.soonest - now)
        end
        ticket = ticket < 0 and us or ticket -- by which it can join later
        local position = full and -2 or pcall_type('ZRANK', queue, member) or -1
        local answer = {0, left, position, ticket, us, again}
        if not ours then
            answer[7] = redis.call('TYPE', name).ok
        elseif lock.rcount > 0 and position > 127 then -- too far behind for a note
            redis.call('HDEL', name, 'a:' .. token)
        elseif lock.rcount > 0 and position >= 0 then
            note_poll('HSET', token, token:match(':(%d+)%-$') or 0, position)
        end
        return answer
    end

    local function grant()
        local number = fence_for(kind, owner)
        add_hold(kind, token, owner, lease, number)
        leave_queue(member, token)
        return number
    end

    -- Returns true if another live owner that reads waits to write: then neither ever
    -- could. Such an owner has ticket 0, before all others, since they wait for its hold.
    local function has_rival()
        for _, other in ipairs(pcall_type('ZRANGEBYSCORE', queue, 0, 0) or {}) do
            local _, _, its_token, its_owner = parse_member(other)
            local client = its_owner and parse_token(its_token)
            if not client or subscribers(client) == 0 then
                leave_queue(other, its_token)
            elseif its_owner ~= owner and read_holds(its_owner) > 0 then
                return true
            end
        end
        return false
    end

    -- Enters without queueing, if there are no waiters, or if the owner has a hold
    -- already (re-entry, upgrade). Returns the fencing token, or nil.
    local function enter()
        if not may_enter(kind, owner, permits) then
            return nil
        end
        local heads = pcall_type('ZRANGE', queue, 0, 0)
        if is_holder(owner) or not (heads and heads[1]) then
            return grant()
        end
    end

    local ours, record = load(), nil
    if ours then
        purge()
        record = redis.call('HGET', name, 'h:' .. token)
    end
    if not ours or record and not parse_hold(record) then
        full = is_full(member, limit)
        if wait and not full then
            ticket = join(member, ticket)
        end
        return refuse(false, 0)
    end
    if record then
        local number = extend(record, token, lease)
        leave_queue(member, token)
        serve()
        return number
    end
    local number, again = enter(), 0
    if number then
        serve()
        return number
    end
    if is_holder(owner) then
        if has_rival() then
            pcall_type('ZREM', queue, '') -- a write, which a replica refuses
            return -1
        end
        ticket = 0
    else
        ticket = ticket == 0 and -1 or ticket
    end
    if limit and ticket ~= 0 then -- waiters are served before they are counted
        number, again = serve(member, lease)
        number = number or enter()
        if number or again == 1 then
            return number or refuse(true, again)
        end
        full = not is_holder(owner) and is_full(member, limit) -- it may have been let in
    end
    if wait and not full then
        ticket = join(member, ticket)
    end
    number, again = serve(member, lease)
    number = number or enter()
    if number then
        return number
    end
    if wait and not full and ticket > 0 and is_holder(owner) then -- it was let in to read
        ticket = 0
        redis.call('ZADD', queue, '0', member)
    end
    return refuse(true, again)
end
return slow()
