-- SPDX-License-Identifier: MIT
-- Acquires a read-write lock for an owner, or joins its queue.
-- KEYS: name, queue, fence
-- ARGV: token, lease ms, wait 0|1, ticket (-1: none yet), mode r|w, owner,
--       permits (0: any number of owners), server
-- Answer: {1, fence}
--      or {0, remaining ms (-1: no TTL; 0: free), position (-1: not queued), ticket,
--          server time us, again [, type of a stranger's key]}
--      or {-1}: another reader waits to become the writer, too; neither could ever.
-- Happy path: nothing there. Sent twice, the second finds its hold and extends it.

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
    local number = redis.pcall('INCRBY', KEYS[3], '1')
    if type(number) == 'number' and number >= 1125899906842624
        and number < 9007199254740992 then
        local time = redis.call('TIME')
        local ending = string.format('%.0f', time[1] * 1000
                                     + math.floor(time[2] / 1000) + ARGV[2])
        local name, owner, hold = KEYS[1], ARGV[6], 'h:' .. ARGV[1]
        if ARGV[5] == 'w' then
            redis.call('HSET', name, 'mode', 'write/2', 'rcount', '0', 'readers', '0',
                       'writer', owner, 'wcount', '1', 'soonest', ending,
                       'f:' .. owner, string.format('%.0f', number),
                       hold, ending .. ' w ' .. owner)
        else
            redis.call('HSET', name, 'mode', 'read/2', 'rcount', '1', 'readers', '1',
                       'writer', '', 'wcount', '0', 'soonest', ending, 'r:' .. owner, '1',
                       'f:' .. owner, string.format('%.0f', number),
                       hold, ending .. ' r ' .. owner)
        end
        redis.call('PEXPIREAT', name, ending)
        return {1, number}
    end
end

local function slow()
    local name, queue, fence, server = KEYS[1], KEYS[2], KEYS[3], ARGV[8]
    -- include: rw.lua
    -- include: join.lua
    local token, lease, wait = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
    local ticket, kind, owner = tonumber(ARGV[4]), ARGV[5], ARGV[6]
    local permits = tonumber(ARGV[7])
    local member = format('%s%.0f %s %s', kind, permits, token, owner)

    local function refuse(ours, again)
        local left = redis.call('PTTL', name)
        if left == -2 then
            left = 0
        elseif ours then
            left = math.max(0, lock.soonest - now)
        end
        ticket = ticket < 0 and us or ticket -- with it who may not join yet will
        local position = try('ZRANK', queue, member) or -1
        local answer = {0, left, position, ticket, us, again}
        if not ours then
            answer[7] = redis.call('TYPE', name).ok
        elseif lock.rcount > 0 and position > 127 then -- those so far behind have no note
            redis.call('HDEL', name, 'a:' .. token)
        elseif lock.rcount > 0 and position >= 0 then
            note('HSET', token, token:match(':(%d+)%-$') or 0, position)
        end
        return answer
    end

    local function grant()
        local number = number_for(kind, owner)
        add(kind, token, owner, lease, number)
        leave(member, token)
        return number
    end

    -- Of two readers that wait to write neither could ever: does another one wait, alive?
    -- Such a one has ticket 0, before all others, since it holds what those wait for.
    local function rival()
        for _, other in ipairs(try('ZRANGEBYSCORE', queue, 0, 0) or {}) do
            local _, _, its_token, its_owner = parse_member(other)
            local client = its_owner and parse_token(its_token)
            if not client or listeners(client) == 0 then
                leave(other, its_token)
            elseif its_owner ~= owner and reads(its_owner) > 0 then
                return true
            end
        end
        return false
    end

    -- Without queueing: nobody waits, or the owner is in already (re-entry, upgrade).
    local function enter()
        if not admit(kind, owner, permits) then
            return nil
        end
        local heads = try('ZRANGE', queue, 0, 0)
        if is_in(owner) or not (heads and heads[1]) then
            return grant()
        end
    end

    if not load() then
        if wait then
            ticket = join(member, ticket)
        end
        return refuse(false, 0)
    end
    purge()
    local record = redis.call('HGET', name, 'h:' .. token)
    if record then
        local number = extend(record, token, lease)
        leave(member, token)
        serve()
        return {1, number}
    end
    local number, again = enter(), 0
    if number then
        serve()
        return {1, number}
    end
    if is_in(owner) then
        if rival() then
            return {-1}
        end
        ticket = 0
    elseif ticket == 0 then
        ticket = -1
    end
    if wait then
        ticket = join(member, ticket)
    end
    number, again = serve(member, lease)
    number = number or enter()
    if number then
        return {1, number}
    end
    if wait and ticket > 0 and is_in(owner) then -- it came to read while it waited to write
        ticket = 0
        redis.call('ZADD', queue, '0', member)
    end
    return refuse(true, again)
end
return slow()
