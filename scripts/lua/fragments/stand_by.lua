-- SPDX-License-Identifier: MIT
-- Statements that have the first live waiter stand by: it polls when the lease that a
-- detach has set ends. No holder is left that would hand the lock over, and the lease by
-- which the waiter chose its next poll may have been longer.
--
-- A fragment, inlined where a detach has set the lease: in mutex_detach.lua and in
-- rw_detach.lua. It expects `name` and `queue`, the keys (without `queue` it does
-- nothing), what channel.lua offers, and `lease` in ms, a number.
--
-- The message is a hint. It is published after the lease is set, and a refused command is
-- ignored. Without a message the waiter polls when its last poll has told it to. There is
-- none if the lease is too long for a message, or if sixteen dead waiters are ahead. The
-- next script that serves the queue removes those.

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
