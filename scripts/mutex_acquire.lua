-- SPDX-License-Identifier: MIT
-- Acquires a mutex, or joins its queue; one script, so that no wake-up falls in between.
-- KEYS: name, queue, fence
-- ARGV: token, lease ms, how (mutex.lua)
-- Answer: as there
-- Happy path: free and nobody queued; or held by one behind whom others queue, and a new
-- token joins them at the end. All else is slow(). Sent twice, the second finds its token in
-- the name and extends it, or in the queue.

local name, queue, token, lease, how = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local call, pcall = redis.call, redis.pcall
local value = pcall('GET', name)
local joins, wants, no_ticket = how:byte(1, 3)

if not value then
    if #KEYS[3] == 14 and call('EXISTS', queue) == 0 then -- a slot's: draw_fence.lua
        -- The number first: without one there is no grant yet, and slow() sees to it.
        local last = wants == 45 and 1125899906842624 or pcall('INCRBY', KEYS[3], '16')
        if type(last) == 'number' and last >= 1125899906842624
            and last < 9007199254740992 then
            call('SET', name, token, 'PX', lease)
            return wants == 45 and 0 or last - 15
        elseif last == 16 and pcall('PEXPIRE', KEYS[3], '86400000') ~= 1 then
            call('DEL', KEYS[3]) -- the counter was lost, and INCRBY made a new one
        end
    end
elseif joins ~= 110 and no_ticket == 32 and type(value) == 'string' and value:byte(-1) == 43
    and not value:find(token:sub(1, -2), 1, true) then
    local time, position = call('TIME'), pcall('ZCARD', queue)
    local us_text = time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
    if type(position) == 'number' and position > 0
        and pcall('ZADD', queue, 'NX', us_text, token) == 1 then
        if joins == 107 and pcall('PEXPIRE', queue, '120000') ~= 1 then
            call('ZREM', queue, token) -- the queue might never expire
            call('PEXPIRE', queue, '120000') -- so that the server itself raises it
        end
        if pcall('ZREVRANK', queue, token) == 0 then
            return '-2 ' .. position .. ' ' .. us_text
        else -- the clock was set back, or an account lacks ZREVRANK: slow() sees to it
            call('ZREM', queue, token)
        end
    end
end

local function slow()
    local fence, numbers = KEYS[3], how:match(' (.*)$')
    -- include: mutex.lua
    return request(token, pcall_type('GET', name), lease)
end
return slow()
