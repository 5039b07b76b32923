-- SPDX-License-Identifier: MIT
-- Extends the leases of holds that still stand.
-- KEYS: fence, then name, queue for each hold
-- ARGV: numbers (mutex_hand_over.lua); token for each hold; lease ms of all, or for each hold
-- Answer: 1 (extended) or 0 (it is no more) for each hold
-- Never shortens a TTL, and writes even where nothing changes: see mutex_renew.lua.
-- Happy path: each is the only one of its name, whose end is the key's. Else a hold's
-- lease may end while others keep the key alive: the first to see it drops it, and lets in
-- whom it kept out.

local count, answer, slow = (#KEYS - 1) / 2, {}, nil

local function load_slow()
    local name, queue, fence, numbers = nil, nil, KEYS[1], ARGV[1]
    -- include: rw.lua

    slow = function(i, token, lease)
        name, queue = KEYS[2 * i], KEYS[2 * i + 1]
        if not load() then
            return 0
        end
        local purged = purge()
        local record = redis.call('HGET', name, 'h:' .. token)
        if record and not parse_hold(record) then
            return 0
        elseif record then
            extend(record, token, lease)
        else
            redis.call('HDEL', name, 'h:' .. token) -- lets serve() write without memory
        end
        if purged or not record then
            serve()
        end
        return record and 1 or 0
    end
end

for i = 1, count do
    local name, token = KEYS[2 * i], ARGV[1 + i]
    local lease = ARGV[1 + count + i] or ARGV[2 + count]
    local record = redis.pcall('HGET', name, 'h:' .. token)
    if type(record) == 'string' and record:find('^0 [rw] ') then
        local left = redis.call('PTTL', name)
        redis.call('PEXPIRE', name, left > tonumber(lease) and left or lease)
        answer[i] = 1
    else
        if not slow then
            load_slow()
        end
        answer[i] = slow(i, token, tonumber(lease))
    end
end
return answer
