-- SPDX-License-Identifier: MIT
-- Statements that give the name, which nobody holds or who holds it lets go, to the first
-- live waiter, and have the next stand by (`me`, or nil, is told by its answer; so is one of
-- the head's own process, which would hang as well). What came of it is `outcome`: 'handed';
-- 'free': `me` may take it, it is first, or nobody waits; 'again': more heads are to be looked
-- at; 'mute': we may not count or publish. The head leaves the queue only when it is dead or
-- was told: a mute leaves all as is. `behind`: others queue behind whom it is for.
--
-- A holder who took it by its name alone while its slot was on its way (claim_moving.c) may
-- have left its place there: `gone`, or nil, gets nothing.
--
-- For `name`, `queue`, `fence`; `numbers`, how a message has its number, and the caller's
-- word for the server that runs this: `%d <server>`, or `%.0f` in front where an integer of
-- C's may be too small; and `time`, TIME's reply where there is one already, both words of
-- which stand in a message, since to make them one costs as much as a command.
--
-- Statements, because a function, made anew at each call of a script, costs as much as a
-- command.
--
-- A message also goes to whoever subscribed at a replica or at another node, where nobody is
-- counted: so the waiter's process is counted first, nothing is published where nobody
-- listens here, and the number is drawn before that, a write, which a read-only server
-- refuses.

local outcome, behind = 'again', false
local tag = fence:sub(15) -- of the slot, in a cluster: see queue.lua
for tried = 0, 16 do
    local heads = redis.pcall('ZRANGE', queue, '0', '1')
    local head, following = heads[1], heads[2]
    if heads.err and not heads.err:find('WRONGTYPE', 1, true) then
        redis.call('ZRANGE', queue, '0', '1') -- so that the server itself raises it
    elseif not head or head == me then
        if head then
            redis.call('ZREM', queue, head)
        end
        outcome, behind = 'free', following ~= nil
        break
    elseif tried == 16 then
        break
    end
    -- `<client>:<n>:<claim window>-`, or it is none of ours
    local client, window = head:sub(1, 36), head:match('^:%d+:([1-9]%d*)%-$', 37)
    local heard = 0
    if window and head ~= gone and #window <= 5 and tonumber(window) <= 60000 then
        heard = redis.pcall('PUBSUB', tag == '' and 'NUMSUB' or 'SHARDNUMSUB',
                            'lockwire:2:' .. client .. tag)[2]
    end
    if heard and heard > 0 then
        local time, count, anyway = time or redis.call('TIME'), '16', true
        -- inline: draw.lua
        local told = redis.pcall(tag == '' and 'PUBLISH' or 'SPUBLISH',
                                 'lockwire:2:' .. client .. tag, 't ' .. head .. ' '
                                 .. numbers:format(last - 15) .. ' '
                                 .. time[1] .. ' ' .. time[2] .. ' ' .. name)
        heard = type(told) == 'number' and heard
    end
    if not heard then
        outcome = 'mute'
        break
    end
    redis.call('ZREM', queue, head)
    if heard > 0 then
        outcome, behind = 'handed', following ~= nil
        redis.call('SET', name, following and head:sub(1, -2) .. '+' or head, 'PX', window)
        if following and following ~= me and following:sub(1, 36) ~= client then
            redis.pcall(tag == '' and 'PUBLISH' or 'SPUBLISH',
                        'lockwire:2:' .. following:sub(1, 36) .. tag,
                        's ' .. following .. ' ' .. window .. ' ' .. name)
        end
        break
    end
end
