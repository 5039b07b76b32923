-- SPDX-License-Identifier: MIT
-- Owns the mutex: the name's value is the holder's token, its TTL the lease; a member of
-- the queue is a waiter's token. Must not know the read-write hash.
--
-- A fragment, like queue.lua, on which it stands.
--
-- Happy path: a release hands over, and the waiter's token is the name's value.

-- include: queue.lua

-- Gives the free name to the first live waiter, and has the next stand by (`me` is told by
-- its answer). True where `me` may take it instead: it is first, or nobody waits. Second
-- result: 1 where more heads are to be looked at.
-- The head leaves the queue only when it was told: what may not publish leaves all as is.
local function hand_over(me)
    local number
    for tried = 0, 16 do
        local heads = try('ZRANGE', queue, '0', '1') or {}
        local head = heads[1]
        if not head or head == me then
            if head then
                redis.call('ZREM', queue, me)
            end
            return true, 0
        end
        if tried == 16 then
            return false, 1
        end
        local client, window = parse_token(head)
        local heard = 0
        if client then
            number = number or draw(16)
            heard = tell_turn('t', client, head, number)
            if not heard then
                return false, 0
            end
        end
        redis.call('ZREM', queue, head)
        if heard > 0 then
            redis.call('SET', name, head, 'PX', window)
            local standby = heads[2] and heads[2] ~= me and parse_token(heads[2])
            if standby then
                tell_standby(standby, heads[2], window)
            end
            return false, 0
        end
    end
end
