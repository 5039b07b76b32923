-- SPDX-License-Identifier: MIT
-- Statements that have the first live waiter stand by: it polls when the lease that a
-- detach has set ends. The waiter sleeps by the longer lease of its last poll otherwise,
-- and no holder is left that would hand the lock over to it.
--
-- A fragment, inlined where a detach has set the lease: in mutex_detach.lua and in
-- rw_detach.lua. It expects `name`, `queue` and `fence`, the keys (without `queue` and
-- `fence` it does nothing), and `lease` in ms, a number.
--
-- The message is a hint. It is published after the lease is set, and a refused command is
-- ignored: the waiter then polls by the time that it knows. So it does if the lease is
-- longer than a message can tell, or if sixteen waiters that are gone are ahead of it.
-- These stay in the queue, from which the next script that serves it removes them.

if queue and lease <= 60000 then
    local tag = fence:sub(15) -- of the slot, in a cluster: lockwire:fence:{tag}
    local prefix = tag == '' and '' or 'S'
    local heads = redis.pcall('ZRANGE', queue, '0', '15')
    for i = 1, #heads do
        local waiter = heads[i]:match('^[rw]%d+ (%S+) ') or heads[i]
        local channel = 'lockwire:2:' .. waiter:sub(1, 36) .. tag
        local subscribers = redis.pcall('PUBSUB', tag == '' and 'NUMSUB' or 'SHARDNUMSUB',
                                        channel)[2]
        if subscribers ~= 0 then
            if subscribers then
                redis.pcall(prefix .. 'PUBLISH', channel,
                            's ' .. waiter .. ' ' .. string.format('%d', lease) .. ' '
                            .. name)
            end
            break
        end
    end
end
