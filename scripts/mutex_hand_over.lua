-- SPDX-License-Identifier: MIT
-- Statements that hand the name over to the first live waiter, and have the next one stand by.
-- The name is free, or its holder releases it.
-- `me`, or nil: the token that is being served. The reply tells its position, so it gets no
--     message. Nor does a waiter of the head's own process, which would hang as well.
-- `gone`, or nil: a token that gets nothing. A holder that took the lock by its name alone,
--     while the slot was moving (claim_moving.c), may have left its place in the queue.
-- The result is `outcome`: 'handed'; 'free': `me` may take the name, as the first waiter or
-- because there are no waiters; 'again': more heads are to be looked at; 'denied': we may not
-- hand over. A mute leaves the name free, and the queue as it was. `behind`: others queue
-- behind the token that the name is for.
--
-- Uses `name`, `queue`, `fence`; `numbers`, the format of the number in a message and the
-- caller's id for the server that runs this: `%d <server>`, or `%.0f` in front if an integer
-- of C's may be too small; and `time`, the reply to TIME if there is one already. A message
-- has both words of it, since combining them costs as much as a command.
--
-- A message cannot be taken back, so it comes after the commands that make it true, any of which
-- may be refused: the name is set first, and ZREM of a member that does not exist shows whether
-- the head may be removed. The head is removed after the message, so that it keeps its place and
-- its ticket if publishing is refused. Then only the name has to be deleted again. If even that
-- is refused the head holds for its claim window, and learns so when it polls.
--
-- A message also reaches subscribers at a replica or at another node, where they are not
-- counted. So the waiter's process is counted first, and nothing is published if it does not
-- listen here, or if the server is read-only and refuses the writes before.
--
-- These are statements because a function, created at each call of a script, costs as much as
-- a command.

local outcome, behind, pcall = 'again', false, redis.pcall
local tag = fence:sub(15) -- of the slot, in a cluster: see rw.lua
for tries = 0, 16 do
    local heads = pcall('ZRANGE', queue, '0', '1')
    local head, following = heads[1], heads[2]
    if heads.err and not heads.err:find('WRONGTYPE', 1, true) then
        redis.call('ZRANGE', queue, '0', '1') -- so that the server itself raises it
    elseif not head or head == caller then
        if head then
            redis.call('ZREM', queue, head)
        end
        outcome, behind = 'free', following ~= nil
        break
    elseif tries == 16 then
        break
    end
    -- A token of ours is `<client>:<n>:<claim window>-`.
    local client, window = head:sub(1, 36), head:match('^:%d+:([1-9]%d*)%-$', 37)
    local channel, subscribers = 'lockwire:2:' .. client .. tag, 0
    if window and head ~= excluded and #window <= 5 and tonumber(window) <= 60000 then
        subscribers = pcall('PUBSUB', tag == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2]
    end
    if subscribers == 0 then
        redis.call('ZREM', queue, head)
    else
        outcome = 'denied'
        if subscribers then
            redis.call('ZREM', queue, '') -- needs no memory, nor do the commands after it then
            local time, count = time or redis.call('TIME'), '16'
            -- inline: draw_fence.lua
            redis.call('SET', name, following and head:sub(1, -2) .. '+' or head, 'PX', window)
            local publish = tag == '' and 'PUBLISH' or 'SPUBLISH'
            local receivers = pcall(publish, channel, 't ' .. head .. ' '
                               .. numbers:format(last - 15) .. ' ' .. time[1] .. ' '
                               .. time[2] .. ' ' .. name)
            if type(receivers) == 'number' then
                redis.call('ZREM', queue, head)
                outcome, behind = 'handed', following ~= nil
                local after = following and following ~= caller and following:sub(1, 36)
                if after and after ~= client then
                    pcall(publish, 'lockwire:2:' .. after .. tag,
                          's ' .. following .. ' ' .. window .. ' ' .. name)
                end
            else
                redis.call('DEL', name)
            end
        end
        break
    end
end
