-- SPDX-License-Identifier: MIT
-- Owns what every queue of waiters needs: the server's time, numbers from the fence
-- counter, and messages to the process that waits.
-- Must not know who holds a name, nor in which format.
--
-- A fragment: the build puts it into slow() of each script, which declares before it
-- `name`, `queue` and `fence`, the three keys.
--
-- Happy path: tell_turn() reaches the process of the head. Numbers reach redis.call as
-- strings wherever they are some already: it spends more on a number than on most commands.

local format = string.format
-- Read before anything gets a TTL: a message that says when must not say it too late.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local us_text = time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]

-- The reply; nil where the key is of another type. Every other error ends the script:
-- the command is given again so that the server itself raises it, its code in front.
local function try(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
        if reply.err:find('WRONGTYPE', 1, true) then
            return nil
        end
        return redis.call(...)
    end
    return reply
end

-- The first of `count` new numbers. Below 2^50 the counter was lost, above 2^53 Lua
-- cannot count it, and of another type it is none: then time begins it again.
local function draw(count)
    local last = redis.pcall('INCRBY', fence, count)
    if type(last) ~= 'number' or last >= 9007199254740992 then
        last = 0
    end
    if last < 1125899906842624 then
        last = math.max(last, us + count - 1)
        redis.call('SET', fence, format('%.0f', last), 'PX', 86400000)
    end
    return last - count + 1
end

-- The client and the claim window (text) of `<client>:<n>:<window>`; nil for all else, so
-- that nothing of a stranger's becomes a channel or a TTL.
local function parse_token(token)
    local client, window = token:match('^([%w%-]+):%d+:([1-9]%d*)$')
    if client and tonumber(window) <= 60000 then
        return client, window
    end
end

-- How many heard it: 0 means that the process is gone. nil: we may not publish.
local function tell(client, message)
    local heard = redis.pcall('PUBLISH', 'lockwire:' .. client, message)
    return type(heard) == 'number' and heard or nil
end

-- `kind`: t of a mutex, r of a read-write lock, so that who does not know the token can
-- give it back.
local function tell_turn(kind, client, token, number)
    return tell(client, kind .. ' ' .. token .. ' ' .. format('%.0f', number) .. ' '
                .. us_text .. ' ' .. name)
end

-- "You are first now. Who was handed the lock may hang: ask when its window has ended."
local function tell_standby(client, token, window)
    tell(client, 's ' .. token .. ' ' .. window .. ' ' .. name)
end
