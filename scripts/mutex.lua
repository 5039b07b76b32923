-- SPDX-License-Identifier: MIT
-- Owns the mutex: the name's value is the holder's token, its TTL the lease; a member of
-- the queue is a waiter's token. Must not know the read-write hash.
--
-- A fragment, like queue.lua, on which it stands.
--
-- Happy path: a release hands over, and the waiter's token is the name's value.

-- include: queue.lua

-- The head was not told, since we may not publish: it is the first again.
local function put_back(head, following)
    if following then
        local ticket = redis.call('ZSCORE', queue, following) - 1
        redis.call('ZADD', queue, format('%.0f', ticket), head)
    else
        redis.call('ZADD', queue, us_text, head)
        redis.call('PEXPIRE', queue, '120000')
    end
end

-- Gives the name, which nobody holds or who holds it lets go, to the first live waiter, and
-- has the next stand by (`me` is told by its answer). What came of it: 'handed'; 'free': `me`
-- may take it, it is first, or nobody waits; 'again': more heads are to be looked at; 'mute':
-- we may not publish. The first write frees: it lets those behind it through without memory.
local function hand_over(me)
    local number
    for tried = 0, 16 do
        local heads = try('ZRANGE', queue, '0', '1') or {}
        local head, following = heads[1], heads[2]
        if not head then
            return 'free'
        end
        if tried == 16 and head ~= me then
            return 'again'
        end
        redis.call('ZREM', queue, head)
        if head == me then
            return 'free'
        end
        local client, window = parse_token(head)
        if client then
            number = number or draw(16)
            local heard = tell_turn('t', client, head, number)
            if not heard then
                put_back(head, following)
                return 'mute'
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
end
