-- SPDX-License-Identifier: MIT
-- Statements that have the first live waiter stand by: it polls when the lease that a
-- detach has set ends. The waiter sleeps by the longer lease of its last poll otherwise,
-- and no holder is left that would hand the lock over to it.
--
-- A fragment, inlined where a detach has set the lease: in mutex_detach.lua and in
-- rw_detach.lua. It expects `name` and `queue`, the keys (without `queue` it does
-- nothing), what channel.lua offers, and `lease` in ms, a number.
--
-- The message is a hint. It is published after the lease is set, and a refused command is
-- ignored: the waiter then polls by the time that it knows. So it does if the lease is
-- longer than a message can tell, or if sixteen waiters that are gone are ahead of it.
-- These stay in the queue, from which the next script that serves it removes them.

if queue and lease <= 60000 then
    local heads = redis.pcall('ZRANGE', queue, '0', '15')
    for i = 1, #heads do
        local waiter = heads[i]:match('^[rw]%d+ (%S+) ') or heads[i]
        local its_channel = start .. waiter:sub(1, 36) .. slot
        local subscribers = redis.pcall('PUBSUB', slot == '' and 'NUMSUB' or 'SHARDNUMSUB',
                                        its_channel)[2]
        if subscribers ~= 0 then
            if subscribers then
                redis.pcall(slot == '' and 'PUBLISH' or 'SPUBLISH', its_channel,
                            's ' .. waiter .. ' ' .. string.format('%d', lease) .. ' '
                            .. name)
            end
            break
        end
    end
end
