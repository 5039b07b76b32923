-- SPDX-License-Identifier: MIT
-- Owns the read-write lock, a hash:
-- `h:<token>` = "<end ms> <r|w> <owner>" for each hold; 0 while there is no other, which has
--     the key's own end;
-- `r:<owner>` = "<its read holds> <its number>" for each owner that reads;
-- `mode` = "2 <holds> <owners that read> <write holds> <soonest> <number> <owner>", the state,
--     where no hold ends before `soonest` (0: it is the key's own end), and number and owner
--     are the writer's, 0 and none without one;
-- `a:<token>` = "<ms by which it has asked again>" of who waits, while anybody reads.
-- The state's 2 is the wire version: a hash without such a state is a stranger's. Its field is
-- called as Redisson's read-write lock calls its own: that enters every hash which has none, and
-- waits where this says neither read nor write; redisson_acquire.lua knows us by it, too.
-- A queue's member is `<r|w><permits> <token> <owner>`. Must not know the mutex.
--
-- A fragment. While a script runs, the state is kept in
-- `lock`, and the fields that change with it in `changes`. save() writes both, and must follow
-- each change of holds. The scripts also write the first hold of a name, its renewal and its end
-- themselves, without all this.
--
-- The server may refuse any command, and nothing is undone by itself. So the holds and their
-- counts are written by one HSET, after HDEL has shown that fields may be removed, and before
-- any of them is. HDEL of a field that does not exist (`h:`) shows this. It needs no memory, and
-- lets the commands after it pass without memory.
--
-- Happy path: load(); the caller adds or drops a hold; save(); serve() lets in the next.

-- include: clock.lua

-- In a cluster the fence's key has the tag of the slot, `lockwire:fence:{tag}`, and the
-- channels have it, too: those of a slot, which its node alone has.
local tag = fence:sub(15)
local prefix = tag == '' and '' or 'S'

-- The first of `count` new numbers; see draw_fence.lua.
local function draw_fence(count)
    -- inline: draw_fence.lua
    return last - count + 1
end

-- The client and the claim window (text) of `<client>:<n>:<window>-`; nil for all else.
local function parse_token(token)
    local colon = token:find(':', 1, true)
    local window = colon and token:match('^%d+:([1-9]%d*)%-$', colon + 1)
    if window and #window <= 5 and tonumber(window) <= 60000 then
        return token:sub(1, colon - 1), window
    end
end

-- How many listen to a client here. 0: its process is gone, or listens at another server.
-- Nil: we may not ask. PUBLISH's own count would come too late, and a PSUBSCRIBE fools it.
local function subscribers(client)
    return redis.pcall('PUBSUB', prefix == '' and 'NUMSUB' or 'SHARDNUMSUB',
                      'lockwire:2:' .. client .. tag)[2]
end

-- `kind`: t of a mutex, r of a read-write lock, so that who does not know the token can
-- give it back. False: we may not publish.
local function publish_hand_over(kind, client, token, number)
    local receivers = redis.pcall(prefix .. 'PUBLISH', 'lockwire:2:' .. client .. tag, kind .. ' ' .. token .. ' '
                              .. numbers:format(number) .. ' ' .. time[1] .. ' '
                              .. time[2] .. ' ' .. name)
    return type(receivers) == 'number'
end

-- "You are first now. Who was handed the lock may hang: ask when its window has ended."
local function publish_standby(client, token, window)
    redis.pcall(prefix .. 'PUBLISH', 'lockwire:2:' .. client .. tag, 's ' .. token .. ' ' .. window .. ' ' .. name)
end

local now = math.floor(us_text / 1000)
local lock
local changes = {} -- the changed fields, in order, and by field its value, or false: removed
local reader_left -- an owner reads no more, who may wait with an upgrader's ticket

-- False where the key is a stranger's: of another type or with other fields.
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
    lock = {rcount = holds - wcount, readers = tonumber(readers), wcount = tonumber(wcount),
            soonest = tonumber(soonest), number = tonumber(number), writer = writer}
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

-- In parts: Lua cannot pass any number of words.
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

-- How many read holds an owner has, and the number that goes with them.
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

-- Nothing where it is damaged: then all is a stranger's to that token, unless it releases what
-- nobody else holds.
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

-- True where that made it longer.
local function extend_ttl(ms)
    local longest = math.max(redis.call('PTTL', name), ms)
    redis.call('PEXPIRE', name, longest)
    return longest == ms
end

-- Nil also where it was drawn while the server's clock stood before 2005: it was told to
-- nobody.
local function fence_of(owner)
    local number = lock.number
    if not is_writer(owner) then
        number = select(2, read_holds(owner))
    end
    return number and number >= 1125899906842624 and number
end

-- An owner gets a number when it enters, and at its first write; other holds repeat it.
local function fence_for(kind, owner)
    if is_holder(owner) and not (kind == 'w' and lock.wcount == 0) then
        return fence_of(owner) or draw_fence(1)
    end
    return draw_fence(1)
end

-- The only hold gets an end of its own, since another one comes. The clock is read last, lest
-- that be before the key's; in its last millisecond a key has a TTL of 0. (Of a key whose TTL
-- somebody took away: the newcomer's lease.)
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

-- Returns true if the hold is new. Everything that may be refused is tried before the HSET: a
-- key that it makes must not stay without a TTL. The first write to a hash that exists is one
-- that needs memory, and changes nothing: without memory there is no grant.
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
        if count > 0 then -- who writes reads with the same number
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

-- The PEXPIRE comes first: it is what lets the HSET through when memory is out. An only hold
-- that makes the key live longer has the key's end from then on, and so it has where the state
-- says that and the hold does not: else part() would leave it an end that was meanwhile put off.
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
    if not number and fence ~= '' then -- (by its name alone: another time)
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

-- `set`: HSET or HSETNX. A waiter asks again within its poll's delay (lw__poll_delay_us):
-- 3 s for each place, at most 10 s, from the hundredth on 30 s, and a tenth. Who has not for
-- three of these and its window hangs. Without memory, too: HDEL opens the way. A queue that
-- expired left its notes here: where they are too many, all begin anew.
local function note_poll(set, token, window, position)
    local longest = math.min(3300 * (position + 1), position < 100 and 11000 or 33000)
    local due = format('%.0f', now + 3 * longest + window)
    local new = redis.pcall(set, name, 'a:' .. token, due)
    if type(new) ~= 'number' then
        redis.call('HDEL', name, 'h:')
        new = redis.call(set, name, 'a:' .. token, due)
    end
    if new == 1 and redis.call('HLEN', name)
        > 257 + lock.rcount + lock.wcount + lock.readers then
        remove_notes()
        save()
    end
end

-- Of whom no note is known came before this hash: it counts as if it asked now, and so do
-- those behind it, lest each that hangs costs its own time.
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

local function leave_queue(member, token)
    if pcall_type('ZREM', queue, member) == 1 and token then
        redis.call('HDEL', name, 'a:' .. token)
    end
end

-- Drops a hold that exists.
local function remove_hold(token, kind, owner)
    change('h:' .. token, false)
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
        remove_notes() -- waiters keep out others only while there are readers
    end
end

-- Drops the holds whose own lease has expired, though others keep the key alive, and counts the
-- others, so that a wrong count is corrected. Returns true if there were expired ones. A damaged
-- record excludes as the writer's if the state has a writer, else as a nameless reader's.
local function recount()
    redis.call('HDEL', name, 'h:')
    local fields, there, counts, owners = redis.call('HGETALL', name), {}, {}, {}
    local dropped, soonest, rcount, wcount, writer = false, nil, 0, 0, nil
    for i = 1, #fields, 2 do
        local field, record = fields[i], fields[i + 1]
        if field:sub(1, 2) == 'h:' then
            local ending, kind, owner = parse_hold(record)
            if ending and ending <= now then
                change(field, false)
                dropped = true
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
            there[field] = record
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
        local count, number = (there[field] or ''):match('^(%d+) (%d+)$')
        if tonumber(count) ~= counts[owner] then
            set_reads(owner, counts[owner],
                      number or owner == lock.writer and lock.number or 0)
        end
        there[field] = nil
    end
    for field in pairs(there) do
        if field:sub(1, 2) == 'r:' or rcount == 0 then -- see drop()
            change(field, false)
            reader_left = true
        end
    end
    save()
    return dropped
end

-- With an owner's last read goes ticket 0, before all others: it waits on as if it came now.
-- Returns true if holds were dropped.
local function purge()
    local dropped = false
    if lock.soonest and lock.soonest > 0 and lock.soonest <= now then
        dropped = recount()
    end
    for _, member in ipairs(reader_left and pcall_type('ZRANGEBYSCORE', queue, '0', '0') or {}) do
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
    return dropped
end

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

-- Lets in whoever is first, as long as the first may enter. Returns the number of `me`
-- (a member, queued or not; nil: nobody asks) if that was among them, and 1 where more are
-- to be looked at; the head is told too, since a grant's answer cannot say it.
-- If we may not count or publish, the head stays where it is. The message cannot be taken back, so
-- it comes after the commands that make it true, any of which may be refused: the hold is written,
-- and ZREM of a member that does not exist has shown whether the head may be removed. A head that is dead or hangs
-- leaves the queue if it keeps out a reader that could enter now, the caller or the one behind it.
-- (When the client wakes up it asks with its ticket, and has its place again.)
local function serve(caller, my_lease)
    local mine, window_given
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
        local behind = must_wait and lock.wcount == 0 and head ~= caller and (caller or heads[2])
        if behind then
            local its_kind, its_permits, _, its_owner = parse_member(behind)
            if (kind == 'w' and not caller or its_kind and may_enter(its_kind, its_owner, its_permits))
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
