-- SPDX-License-Identifier: MIT
-- Owns the mutex: the name's value is the holder's token, its TTL the lease; a member of
-- the queue is a waiter's token. Where somebody may be queued the value is marked: the token
-- ends in + there, and in - everywhere else. Must not know the read-write hash.
--
-- A fragment, which stands on clock.lua.
--
-- Happy path: a release hands over, and the waiter's token is the name's value.
--
-- After each script that knows the queue, a value that is not marked says that the queue is
-- empty. (A plain SET NX that comes between a lease's end and the next script makes it say
-- so untruly, until a script looks.)

-- include: clock.lua

-- The first of sixteen new numbers.
local function draw_fence()
    local count = '16'
    -- inline: draw_fence.lua
    return last - 15
end

local function marked(token)
    return token:sub(1, -2) .. '+'
end

local function mark_queued(value)
    -- inline: mutex_mark_queued.lua
end

-- See mutex_hand_over.lua: `outcome` and `behind`.
local function hand_over(caller)
    local excluded
    -- inline: mutex_hand_over.lua
    return outcome, behind
end
