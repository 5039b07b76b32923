-- SPDX-License-Identifier: MIT
-- Owns what serving a queue of waiters needs: numbers from the fence counter, and messages
-- to the process that waits.
-- Must not know who holds a name, nor in which format.
--
-- A fragment, which stands on clock.lua, for scripts that declare `name`, `queue` and
-- `fence`, the three keys, and `numbers`: how a message has them (mutex_hand_over.lua).
--
-- Happy path: listeners() finds the process of the head here, and tell_turn() reaches it.
--
-- A message also goes to whoever subscribed at a replica or at another node, where nobody is
-- counted: so it is counted first, nothing is published where nobody listens here, and the
-- caller has written something before it publishes, which a read-only server refuses.
--
-- Most of what a script costs is Lua's, and the way between Lua and Redis. So numbers reach
-- redis.call as strings wherever they are some already; a score is read only where it must
-- be, and a function made only where it may be called: each costs as much as a command.

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
