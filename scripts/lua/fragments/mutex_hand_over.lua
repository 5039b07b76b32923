-- SPDX-License-Identifier: MIT
-- Statements that hand over the lock to the first live waiter, and have the next one
-- stand by.
--
-- A fragment, inlined where the lock is free or is being released: in mutex_release.lua
-- and in a function of mutex.lua. It is no function itself, because to create one at each
-- call of a script costs as much as a command. It expects
--   `name`, `queue`, `fence`: the keys;
--   `start`, `slot`: what channel.lua offers;
--   `numbers`: Lua's format for a fencing token in a message (%d, or %.0f if an integer
--     of C's may be too small), a blank, and the server's short id;
--   `time`: the reply to TIME, or nil. A message has both words of it, since to combine
--     them costs as much as a command;
--   `caller`: the token whose request the script executes, or nil. It gets no message to
--     stand by, because the reply has its position;
--   `excluded`: a token that must not get the lock, or nil. A holder that acquired the
--     lock by its name alone, while the slot was migrating, may have left its place in
--     the queue.
-- It offers
--   `outcome`: 'handed'; 'free' if there are no waiters, or `caller` is the first, and
--     may take the name; 'again' if sixteen waiters were removed and there are more;
--     'denied' if the server does not permit PUBSUB or PUBLISH. The name is then not set,
--     and of the queue only dead waiters were removed;
--   `behind`: true if others are queued behind the token that gets the lock.
--
-- Happy path: the process of the first waiter is subscribed here. The fencing tokens are
-- drawn, the name is set to the waiter's token for its claim window, the message is
-- published, and the waiter leaves the queue. The waiter behind it gets a message to
-- stand by: to poll when the claim window has ended, since the new holder may hang. If it
-- is of the same process it would hang as well, and gets none.
--
-- A message cannot be taken back. It is therefore published after the commands that make
-- it true, any of which may be refused. ZREM of a member that does not exist shows
-- whether the waiter may be removed. It is removed after the message, so that it keeps
-- its place and its ticket if publishing is refused. Then only the name has to be deleted
-- again. If even that is refused the waiter holds the lock for its claim window, and
-- learns so when it polls.
--
-- A message also reaches subscribers at a replica or at another node, and PUBLISH does not
-- count those. PUBSUB NUMSUB is therefore asked first. Nothing is published if the waiter's
-- process is not subscribed here, or if the server is read-only and has refused the writes.

local outcome, behind, call, pcall = 'again', false, redis.call, redis.pcall
for tries = 0, 16 do
    local heads = pcall('ZRANGE', queue, '0', '1')
    local head, following = heads[1], heads[2]
    if heads.err and not heads.err:find('WRONGTYPE', 1, true) then
        call('ZRANGE', queue, '0', '1') -- ends with the server's error
    elseif not head or head == caller then
        if head then
            call('ZREM', queue, head)
        end
        outcome, behind = 'free', following ~= nil
        break
    elseif tries == 16 then
        break
    end
    -- A token is `<client's uuid>:<n>:<claim window in ms>-`.
    local client, window = head:sub(1, 36), head:match('^:%d+:([1-9]%d*)%-$', 37)
    local channel, subscribers = start .. client .. slot, 0
    if window and head ~= excluded -- up to 60000, compared as text, which is cheaper
        and (#window < 5 or #window == 5 and window <= '60000') then
        subscribers = pcall('PUBSUB', slot == '' and 'NUMSUB' or 'SHARDNUMSUB', channel)[2]
    end
    if subscribers == 0 then
        call('ZREM', queue, head)
    else
        outcome = 'denied'
        if subscribers then
            call('ZREM', queue, '') -- after it Redis refuses no write if memory is short
            local time, count = time or call('TIME'), '16'
            -- inline: draw_fence.lua
            call('SET', name, following and head:sub(1, -2) .. '+' or head, 'PX', window)
            local publish = slot == '' and 'PUBLISH' or 'SPUBLISH'
            local receivers = pcall(publish, channel, 't ' .. head .. ' '
                                    .. numbers:format(last - 15) .. ' ' .. time[1] .. ' '
                                    .. time[2] .. ' ' .. name)
            if type(receivers) == 'number' then
                call('ZREM', queue, head)
                outcome, behind = 'handed', following ~= nil
                local after = following and following ~= caller and following:sub(1, 36)
                if after and after ~= client then
                    pcall(publish, start .. after .. slot,
                          's ' .. following .. ' ' .. window .. ' ' .. name)
                end
            else
                call('DEL', name)
            end
        end
        break
    end
end
