-- SPDX-License-Identifier: MIT
-- Acquires a mutex for a token or, if it is held, puts the token into the queue. One
-- script does both, so that no release falls in between. A client sends it after a plain
-- SET NX was refused, or at once if the name is known to be contended; and again whenever
-- it polls.
--
-- KEYS: name (a string, the holder's token), queue (a sorted set of tokens), fence
--   counter
-- ARGV: token; `how`; channel (channel.lua, optional). `how` has six parts in one text,
--   because each argument costs time:
--     "<n|j|k><f|-><ticket>[/<limit>] <numbers> <lease in ms>"
--   n: the token does not wait; j: it joins the queue; k: it joins, and the queue's TTL is
--     renewed
--   f: a fencing token is wanted
--   ticket: the score that the token has in the queue, or shall have; empty: none yet
--   limit: the token must not join while so many others are queued
--   numbers: two words for messages: Lua's format for a fencing token, and the server's id
-- Reply: if the token has the lock now, the first of sixteen fencing tokens, or 0 if none
--   was wanted. Else the text
--     "<remaining ms> <position> <server's time in us>[ <ticket> <again>[ <type>]]"
--   remaining: of the lease; -1: the key has no TTL; 0: the lock is free; -2: not read,
--     for a newcomer behind other waiters: it would cost a command, and the first waiter
--     polls when the lease ends anyway
--   position: -1: the token is not queued; -2: `limit` others are queued
--   ticket: if absent, the server's time
--   again: 1: sixteen dead waiters were removed, and the script has to be sent again
--   type: of a foreign key that is no string
--
-- Must not leave a value without the queue mark (mutex.lua) while there are waiters, nor
-- a key without a TTL, nor shorten a TTL.
-- Happy path: the lock is free and the queue empty; or a new token joins, as the first
-- waiter of a holder without the queue mark, or behind others of one with it. slow()
-- handles all other cases. It creates many functions, which the server's collector has to
-- free later.
-- Sent twice, it finds its token as the value or in the queue. A token that is the value
-- gets its full lease again, one in the queue keeps its place.

local name, queue, token, how, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local call, pcall = redis.call, redis.pcall
local value = pcall('GET', name)
local joins, wants, no_ticket = how:byte(1, 3) -- in ASCII j, k, n: 106, 107, 110; -: 45

if not value then
    if (not channel or channel:byte(-1) == 32) -- no cluster (draw_fence.lua)
        and call('EXISTS', queue) == 0 then
        -- The fencing token first: if it cannot be drawn there is no grant yet, and
        -- slow() handles that.
        local last = wants == 45 and 1125899906842624 or pcall('INCRBY', KEYS[3], '16')
        if type(last) == 'number' and last >= 1125899906842624
            and last < 9007199254740992 then
            call('SET', name, token, 'PX', how:match(' (%d+)$'))
            return wants == 45 and 0 or last - 15
        elseif last == 16 and pcall('PEXPIRE', KEYS[3], '86400000') ~= 1 then
            call('DEL', KEYS[3]) -- the counter was lost, and INCRBY created another
        end
    end
elseif joins ~= 110 and no_ticket == 32 and type(value) == 'string'
    -- Is the value not this token? Mostly the last digit of n differs. To compare that
    -- costs less than to search.
    and (value:byte(-7) ~= token:byte(-7) or not value:find(token:sub(1, -2), 1, true)) then
    local position, left = nil, nil
    if value:byte(-1) == 43 then
        position = pcall('ZCARD', queue)
    else
        -- inline: mutex_mark_queued.lua
        -- SET is refused if memory is out. PEXPIRE, which has no effect, shows that the queue
        -- may be given a TTL.
        if marked and marked.ok and pcall('PEXPIRE', queue, '120000') == 0 then
            left = pcall('PTTL', name)
            position = type(left) == 'number' and left >= -1 and left < 2147483648 and 0
        end
    end
    if type(position) == 'number' and (left or position > 0) then
        local time = call('TIME')
        local us_text = #time[2] == 6 and time[1] .. time[2]
            or time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
        if pcall('ZADD', queue, 'NX', us_text, token) == 1 then
            if (left or joins == 107) and pcall('PEXPIRE', queue, '120000') ~= 1 then
                call('ZREM', queue, token) -- the queue may lack a TTL
                call('PEXPIRE', queue, '120000') -- ends with the server's error
            elseif left or pcall('ZREVRANK', queue, token) == 0 then
                if left then
                    -- A part of the work that Redis has Lua's collector do in each 50th
                    -- script, and that would delay a hand-over if it is a release.
                    collectgarbage('step')
                end
                -- Cheaper than .. alone, and than to format us_text, too.
                return string.format(left and '%d 0 ' or '-2 %d ', left or position) .. us_text
            else -- the clock was set back, or ZREVRANK is not permitted: left to slow()
                call('ZREM', queue, token)
            end
        end
    end
end

local function slow()
    local fence, kind, fenced, ticket, limit, numbers, lease =
        KEYS[3], how:match('^(.)(.)(%d*)/?(%d*) (.*) (%d+)$')
    local waits, wants_fence = kind ~= 'n', fenced == 'f'
    -- inline: channel.lua
    -- include: mutex.lua
    return request(pcall_type('GET', name), tonumber(ticket) or -1)
end
return slow()
