-- SPDX-License-Identifier: MIT
-- Owns the mutex: the name's value is the holder's token, its TTL the lease; a member of
-- the queue is a waiter's token. Must not know the read-write hash.
--
-- A fragment, like queue.lua, on which it stands.
--
-- Happy path: a release hands over, and the waiter's token is the name's value.

-- include: queue.lua

-- Gives the name, which nobody holds or who holds it lets go, to the first live waiter, and
-- has the next stand by (`me` is told by its answer). What came of it: 'handed'; 'free': `me`
-- may take it, it is first, or nobody waits; 'again': more heads are to be looked at; 'mute':
-- we may not count or publish. The head leaves the queue only when it is dead or was told: a
-- mute leaves all as is.
local function hand_over(me)
    for tried = 0, 16 do
        local heads = try('ZRANGE', queue, '0', '1') or {}
        local head, following = heads[1], heads[2]
        if not head then
            return 'free'
        end
        if tried == 16 and head ~= me then
            return 'again'
        end
        local client, window = parse_token(head)
        local heard = 0
        if client and head ~= me then
            heard = listeners(client)
            if not heard or heard > 0 and not tell_turn('t', client, head, draw(16, true)) then
                return 'mute'
            end
        end
        redis.call('ZREM', queue, head)
        if head == me then
            return 'free'
        elseif heard > 0 then
            redis.call('SET', name, head, 'PX', window)
            local standby = following and following ~= me and parse_token(following)
            if standby then
                tell_standby(standby, following, window)
            end
            return 'handed'
        end
    end
end
