-- SPDX-License-Identifier: MIT
-- The read-write lock. Its key, the name, is a hash with these fields:
--   `h:<token>` = "<end ms> <r|w> <owner>" for each hold. The end of the only hold is 0:
--     it ends with the key;
--   `r:<owner>` = "<read holds> <fencing token>" for each owner that reads;
--   `mode` = "2 <holds> <owners that read> <write holds> <soonest> <number> <owner>", the
--     state. No hold ends before `soonest`; 0 means the key's own end. Number (a fencing
--     token) and owner are the writer's; without a writer they are 0 and empty;
--   `a:<token>` = "<ms by which the waiter polls again>", while there are readers;
--   `d:<token>` = a hold's description (described.lua), if it has one.
-- The 2 in the state is the wire version. A hash without such a state is foreign. Its
-- field is named like that of Redisson's read-write lock: Redisson enters any hash
-- without it, and waits if it says neither read nor write. redisson_acquire.lua knows our
-- hash by it, too.
-- The queue is a sorted set (join.lua) of members `<r|w><permits> <token> <owner>`.
-- Independent of the mutex.
--
-- A fragment. It offers load(), add_hold(), remove_hold(), extend(), save(), purge(),
-- serve() and what these consist of. It expects `name`, `queue` and `fence`, the keys,
-- `numbers` (mutex_hand_over.lua) and `channel` (channel.lua). Without a queue (nil) and a
-- fence counter ('') it does not serve waiters. All scripts of the read-write lock include it, in a function if
-- they have a fast path, which does the same for the commonest cases by itself.
--
-- Happy path: load() reads the state into `lock`; the script adds or removes a hold,
-- which changes `lock` and notes changed fields in `changes`; save() writes both; serve()
-- lets in the next waiters. Each change of holds must be followed by save().
--
-- The server may refuse any command, and nothing is undone by itself. The holds and their
-- counts are therefore written by one HSET, before any field is removed, and after HDEL
-- has shown that fields may be removed. HDEL of a field that does not exist (`h:`) shows
-- that. It needs no memory, and lets the commands after it pass without memory.
--
-- A message also reaches subscribers at a replica or at another node, and PUBLISH does not
-- count those. PUBSUB NUMSUB is therefore asked first. Nothing is published if the waiter's
-- process is not subscribed here, or if the server is read-only and has refused the writes.
--
-- Most of the cost of a script is Lua's, and the way between Lua and Redis. Numbers are
-- therefore passed to redis.call as strings if they already are strings, a score is read
-- only if it is needed, and a function is created only where it may be called.

-- include: clock.lua

-- inline: channel.lua
local sharded = slot == '' and '' or 'S'

-- Returns the first of `count` new fencing tokens.
local function draw_fence(count)
    -- inline: draw_fence.lua
    return last - count + 1
end

-- Returns the client and the claim window (text) of a token, `<client>:<n>:<window>-`;
-- nil for any other text.
local function parse_token(token)
    local colon = token:find(':', 1, true)
    local window = colon and token:match('^%d+:([1-9]%d*)%-$', colon + 1)
    if window and #window <= 5 and tonumber(window) <= 60000 then
        return token:sub(1, colon - 1), window
    end
end

-- Returns the number of subscribers to a client's channel here. It is 0 if the process is
-- gone, or is subscribed at another server, and nil if PUBSUB is not permitted. PUBLISH
-- returns a count too late, and includes the subscribers by pattern.
local function subscribers(client)
    return redis.pcall('PUBSUB', slot == '' and 'NUMSUB' or 'SHARDNUMSUB',
                      start .. client .. slot)[2]
end

-- Publishes that a waiter has been handed the lock. `kind` is r, a read-write lock's, so
-- that a client that does not know the token can release it. Returns false if PUBLISH is
-- not permitted.
local function publish_hand_over(kind, client, token, number)
    local receivers = redis.pcall(sharded .. 'PUBLISH', start .. client .. slot,
                                  kind .. ' ' .. token .. ' ' .. numbers:format(number)
                                  .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. name)
    return type(receivers) == 'number'
end

-- Publishes that a waiter is the first now, and shall poll when the claim window of the
-- new holder, which may hang, has ended.
local function publish_standby(client, token, window)
    redis.pcall(sharded .. 'PUBLISH', start .. client .. slot,
                's ' .. token .. ' ' .. window .. ' ' .. name)
end

local now = math.floor(us_text / 1000)
local lock
local changes = {} -- the changed fields, in order; and by field its value, false: removed
local reader_left -- an owner that reads no more may be queued with an upgrader's ticket

-- Reads the state. Returns false if the key is foreign: of another type, or a hash
-- without such a state.
local function load()
    local state = pcall_type('HGET', name, 'mode')
    if state == false and redis.call('EXISTS', name) == 0 then
        lock = {rcount = 0, readers = 0, wcount = 0, number = 0, writer = ''}
        reader_left = true
        return true
    end
    local holds, readers, wcount, soonest, number, writer =
        (state or ''):match('^2 (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
    if not holds then
        return false
    end
    lock = {rcount = holds - wcount, readers = tonumber(readers),
            wcount = tonumber(wcount), soonest = tonumber(soonest),
            number = tonumber(number), writer = writer}
    return true
end

local function state()
    return format('2 %d %d %d %.0f %.0f %s', lock.rcount + lock.wcount, lock.readers,
                  lock.wcount, lock.soonest, lock.number, lock.writer)
end

local function change(field, value)
    if changes[field] == nil then
        changes[#changes + 1] = field
    end
    changes[field] = value
end

-- Sends a command in parts, since Lua limits the number of its arguments.
local function write(command, words)
    for i = 1, #words, 1000 do
        redis.call(command, name, unpack(words, i, math.min(i + 999, #words)))
    end
end

local function save()
    local set, removed = {'mode', ''}, {}
    for _, field in ipairs(changes) do
        if changes[field] then
            set[#set + 1] = field
            set[#set + 1] = changes[field]
        else
            removed[#removed + 1] = field
        end
    end
    changes = {}
    if lock.rcount + lock.wcount == 0 then
        redis.call('DEL', name)
        lock = {rcount = 0, readers = 0, wcount = 0, number = 0, writer = ''}
        return
    end
    set[2] = state()
    if removed[1] then
        redis.call('HDEL', name, 'h:')
    end
    write('HSET', set)
    write('HDEL', removed)
end

-- Returns the number of an owner's read holds, and their fencing token.
local function read_holds(owner)
    local field = 'r:' .. owner
    local text = changes[field]
    if text == nil then
        text = redis.call('HGET', name, field)
    end
    local count, number = (text or ''):match('^(%d+) (%d+)$')
    return tonumber(count) or 0, tonumber(number)
end

local function set_reads(owner, count, number)
    change('r:' .. owner, format('%d %.0f', count, number))
end

local function is_writer(owner)
    return lock.wcount > 0 and lock.writer == owner
end

local function is_holder(owner)
    return is_writer(owner) or read_holds(owner) > 0
end

-- Returns the end, kind and owner of a hold; nothing if its record is damaged. To its
-- token the key is then foreign, unless the token releases the only hold.
local function parse_hold(record)
    local ending, kind, owner = record:match('^(%d+) ([rw]) (.*)$')
    return tonumber(ending), kind, owner
end

local function parse_member(member)
    local kind, permits, token, owner = member:match('^([rw])(%d+) (%S+) (.*)$')
    if kind then
        return kind, tonumber(permits), token, owner
    end
end

-- Extends the key's TTL to at least `ms`. Returns true if `ms` is its TTL now.
local function extend_ttl(ms)
    local longest = math.max(redis.call('PTTL', name), ms)
    redis.call('PEXPIRE', name, longest)
    return longest == ms
end

-- Returns an owner's fencing token; nil if it has none, or one that was drawn while the
-- server's clock was before 2005, which no client accepts.
local function fence_of(owner)
    local number = lock.number
    if not is_writer(owner) then
        number = select(2, read_holds(owner))
    end
    return number and number >= 1125899906842624 and number
end

-- Returns the fencing token of a new hold. An owner gets one when it enters, and another
-- one at its first write hold; its further holds share that.
local function fence_for(kind, owner)
    if is_holder(owner) and not (kind == 'w' and lock.wcount == 0) then
        return fence_of(owner) or draw_fence(1)
    end
    return draw_fence(1)
end

-- Gives the only hold an end of its own, before another one is added. The clock is read
-- after the TTL, so that this end is not before the key's. In its last millisecond a key
-- has a TTL of 0. If the TTL was removed (PERSIST) the newcomer's lease counts instead.
local function set_own_end(ttl, lease)
    local fields = redis.call('HGETALL', name)
    local clock = redis.call('TIME')
    lock.soonest = clock[1] * 1000 + math.floor(clock[2] / 1000)
        + (ttl < 0 and lease or math.max(ttl, 1))
    for i = 1, #fields, 2 do
        if fields[i + 1]:sub(1, 2) == '0 ' then
            change(fields[i], format('%.0f%s', lock.soonest, fields[i + 1]:sub(2)))
        end
    end
end

-- Adds a hold, unless it exists. Returns true if it is new. Every command that may be
-- refused is tried before the HSET that may create the key, which must not stay without a
-- TTL. The first write to an existing hash changes nothing, but needs memory, so that
-- without memory there is no grant.
local function add_hold(kind, token, owner, lease, number)
    local ending, ttl = now + lease, redis.call('PTTL', name)
    local longest = math.max(ttl, lease)
    if ttl ~= -2 then
        redis.call('HSET', name, 'mode', state())
    end
    redis.call('PEXPIRE', name, longest)
    local new = redis.call('HEXISTS', name, 'h:' .. token) == 0
    if lock.soonest == 0 then
        set_own_end(ttl, lease)
    end
    if new then
        local count = read_holds(owner)
        change('h:' .. token, format('%.0f %s %s', ending, kind, owner))
        if kind == 'w' then
            lock.wcount, lock.number, lock.writer = lock.wcount + 1, number, owner
        else
            count, lock.rcount = count + 1, lock.rcount + 1
            lock.readers = lock.readers + (count == 1 and 1 or 0)
        end
        if count > 0 then -- a writer's read holds have the same fencing token
            set_reads(owner, count, number)
        end
        lock.soonest = math.min(lock.soonest or ending, ending)
    end
    save()
    if ttl == -2 then
        redis.call('PEXPIRE', name, longest)
    end
    return new
end

-- Extends a hold. Returns its fencing token. PEXPIRE comes first, and lets the HSET pass
-- if memory is out. An only hold that extends the key has the key's end from then on. So
-- has one whose record still has another end although the state says so: set_own_end()
-- would leave it that end, which is too early.
local function extend(record, token, lease)
    local ending, kind, owner = parse_hold(record)
    local grows, ends = extend_ttl(lease), 0
    local alone, longer = lock.rcount + lock.wcount == 1, now + lease
    if lock.soonest > 0 and not (alone and grows and ending <= longer) then
        ends = math.max(ending, longer)
    end
    if lock.soonest > 0 or ending > 0 then
        change('h:' .. token, format('%.0f %s %s', ends, kind, owner))
        lock.soonest = alone and ends or lock.soonest
    end
    local number = fence_of(owner)
    if not number and fence ~= '' then -- '': left to a script that has the counter
        number = draw_fence(1)
        lock.number = is_writer(owner) and number or lock.number
        local count = read_holds(owner)
        if count > 0 then
            set_reads(owner, count, number)
        end
        save()
    elseif changes[1] then
        save()
    end
    return number
end

local function remove_notes()
    for _, field in ipairs(redis.call('HKEYS', name)) do
        if field:sub(1, 2) == 'a:' then
            change(field, false)
        end
    end
end

-- Notes until when a waiter counts as alive, by HSET or HSETNX (`set`). A waiter polls
-- within its delay (lw__poll_delay_us): 3 s for each place, at most 10 s, or 30 s from
-- the hundredth place on, plus a tenth. A waiter that has not polled for three delays and
-- its claim window hangs. If memory is out HDEL lets the HSET pass. Waiters of a queue
-- that expired have left their notes: if there are too many, all are removed.
local function note_poll(set, token, window, position)
    local longest = math.min(3300 * (position + 1), position < 100 and 11000 or 33000)
    local due = format('%.0f', now + 3 * longest + window)
    local new = redis.pcall(set, name, 'a:' .. token, due)
    if type(new) ~= 'number' then
        redis.call('HDEL', name, 'h:')
        new = redis.call(set, name, 'a:' .. token, due)
    end
    if new == 1 and redis.call('HLEN', name)
        > 257 + 2 * (lock.rcount + lock.wcount) + lock.readers then
        remove_notes()
        save()
    end
end

-- Returns true if a waiter hangs. One without a note joined before this hash existed. It
-- is treated, as are all such among the first sixteen waiters, as if it had polled just
-- now; otherwise each hung waiter would cost its own time-out.
local function is_hung(token)
    local due = redis.call('HGET', name, 'a:' .. token)
    if due then
        return (tonumber(due) or 0) <= now
    end
    for place, member in ipairs(redis.call('ZRANGE', queue, '0', '15')) do
        local _, _, its_token = parse_member(member)
        local client, window = parse_token(its_token or '')
        if client then
            note_poll('HSETNX', its_token, window, place - 1)
        end
    end
    return false
end

-- Removes a member from the queue, and its note.
local function leave_queue(member, token)
    if pcall_type('ZREM', queue, member) == 1 and token then
        redis.call('HDEL', name, 'a:' .. token)
    end
end

-- Removes a hold that exists.
local function remove_hold(token, kind, owner)
    change('h:' .. token, false)
    change('d:' .. token, false)
    if kind == 'w' then
        lock.wcount = lock.wcount - 1
        if lock.wcount == 0 then
            lock.number, lock.writer = 0, ''
        end
    else
        local count, number = read_holds(owner)
        lock.rcount = math.max(lock.rcount - 1, 0)
        if count > 1 then
            set_reads(owner, count - 1, number)
        else
            change('r:' .. owner, false)
            lock.readers = math.max(lock.readers - 1, 0)
            reader_left = true
        end
    end
    if lock.rcount == 0 and lock.wcount > 0 then
        remove_notes() -- they are needed only while there are readers
    end
end

-- Removes the holds that have expired while others keep the key alive, and counts those,
-- so that a wrong count is corrected. Returns true if any had expired. A damaged record
-- counts as a write hold if the state has a writer, else as a read hold of the owner ''.
local function recount()
    redis.call('HDEL', name, 'h:')
    local fields, stored, counts, owners = redis.call('HGETALL', name), {}, {}, {}
    local expired, soonest, rcount, wcount, writer = false, nil, 0, 0, nil
    for i = 1, #fields, 2 do
        local field, record = fields[i], fields[i + 1]
        if field:sub(1, 2) == 'h:' then
            local ending, kind, owner = parse_hold(record)
            if ending and ending <= now then
                change(field, false)
                expired = true
            elseif kind == 'w' or not kind and lock.wcount > 0 then
                wcount, writer = wcount + 1, owner or writer
            else
                owner = owner or ''
                if not counts[owner] then
                    owners[#owners + 1] = owner
                end
                counts[owner], rcount = (counts[owner] or 0) + 1, rcount + 1
            end
            if ending and ending > now then
                soonest = math.min(soonest or ending, ending)
            end
        elseif field ~= 'mode' then
            stored[field] = record
        end
    end
    if wcount == 0 then
        lock.number, lock.writer = 0, ''
    elseif writer and writer ~= lock.writer then
        lock.number, lock.writer = 0, writer
    end
    lock.rcount, lock.readers, lock.wcount = rcount, #owners, wcount
    lock.soonest = soonest or now
    for _, owner in ipairs(owners) do
        local field = 'r:' .. owner
        local count, number = (stored[field] or ''):match('^(%d+) (%d+)$')
        if tonumber(count) ~= counts[owner] then
            set_reads(owner, counts[owner],
                      number or owner == lock.writer and lock.number or 0)
        end
        stored[field] = nil
    end
    for field in pairs(stored) do
        local kind = field:sub(1, 2)
        if kind == 'd:' then
            if changes['h' .. field:sub(2)] == false then
                change(field, false)
            end
        elseif kind == 'r:' or rcount == 0 then -- see remove_hold()
            change(field, false)
            reader_left = true
        end
    end
    save()
    return expired
end

-- Removes expired holds. Returns true if there were any. An owner that holds and waits
-- for more has ticket 0, before all others. When it holds no more it gets the ticket of a
-- newcomer.
local function purge()
    local expired = false
    if lock.soonest and lock.soonest > 0 and lock.soonest <= now then
        expired = recount()
    end
    for _, member in ipairs(reader_left and pcall_type('ZRANGEBYSCORE', queue, '0', '0')
                            or {}) do
        local _, _, _, owner = parse_member(member)
        if owner and not is_holder(owner) then
            local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')
            local ticket, after = tonumber(us_text), tonumber(last[2]) + 1
            if after > ticket and after < 9007199254740992 then
                ticket = after
            end
            redis.call('HDEL', name, 'h:')
            redis.call('ZADD', queue, format('%.0f', ticket), member)
        end
    end
    reader_left = false
    return expired
end

-- Returns true if an owner may have another hold of this kind now.
local function may_enter(kind, owner, permits)
    if lock.rcount + lock.wcount == 0 then
        return true
    end
    if lock.wcount > 0 and lock.writer ~= owner then
        return false
    end
    if kind == 'w' then
        return lock.rcount == read_holds(owner)
    end
    return permits == 0 or lock.readers < permits or is_holder(owner)
end

-- Lets in the first waiter, as long as the first may enter. `caller` is the member that
-- the script serves, queued or not, and `my_lease` its lease; both are nil if there is none.
-- Returns the caller's fencing token if it was let in, else nil; and 1 if the script has
-- to be sent again, since it has served 128 waiters, else 0. Then the first waiter gets
-- a message to stand by as well, since the reply to a grant has no room for the 1.
--
-- If PUBSUB or PUBLISH is not permitted the first waiter stays where it is. A message
-- cannot be taken back. It is therefore published after the commands that make it true,
-- any of which may be refused: the hold is written, and ZREM of a member that does not
-- exist has shown whether the waiter may be removed.
--
-- A first waiter that is dead or hangs leaves the queue if it keeps out a reader that
-- could enter now: the caller, or the waiter behind it. (When its client wakes up it asks
-- with its ticket, and has its place again.)
local function serve(caller, my_lease)
    local mine, window_given
    if numbers == '- ' then -- the guard: no lock is granted
        return nil, 0
    end
    for tries = 0, 128 do
        local heads = pcall_type('ZRANGE', queue, '0', '1') or {}
        local head = heads[1]
        if not head then
            return mine, 0
        end
        local kind, permits, token, owner = parse_member(head)
        local client, window
        if kind then
            client, window = parse_token(token)
            window = tonumber(window)
        end
        local must_wait = client and not may_enter(kind, owner, permits)
        local behind = must_wait and lock.wcount == 0 and head ~= caller
            and (caller or heads[2])
        if behind then
            local its_kind, its_permits, _, its_owner = parse_member(behind)
            if (kind == 'w' and not caller
                or its_kind and may_enter(its_kind, its_owner, its_permits))
                and (is_hung(token) or subscribers(client) == 0) then
                must_wait, client = false, nil
            end
        end
        if must_wait then
            if window_given then
                publish_standby(client, token, window_given)
            end
            return mine, 0
        end
        if tries == 128 then
            if client then
                publish_standby(client, token, 1)
            end
            return mine, 1
        end
        local count = 0
        if client and head ~= caller then
            count = subscribers(client)
            if not count then
                return mine, 0
            end
        end
        if head == caller then
            mine = fence_for(kind, owner)
            leave_queue(head, token)
            add_hold(kind, token, owner, my_lease, mine)
        elseif count > 0 then
            redis.call('ZREM', queue, '')
            redis.call('HDEL', name, 'h:')
            local number = fence_for(kind, owner)
            local new = add_hold(kind, token, owner, window, number)
            if not publish_hand_over('r', client, token, number) then
                if new then
                    remove_hold(token, kind, owner)
                    save()
                end
                return mine, 0
            end
            leave_queue(head, token)
            window_given = math.max(window_given or 0, window)
        else
            leave_queue(head, token)
        end
    end
end
