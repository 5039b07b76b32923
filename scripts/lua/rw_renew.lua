-- SPDX-License-Identifier: MIT
-- Extends the leases of holds of read-write locks. A client sends it for all holds whose
-- renewal is due, and to verify its holds.
--
-- KEYS: fence counter; then for each hold its name (a hash, described in rw.lua) and
--   queue
-- ARGV: numbers (Lua's format for a fencing token in messages, and the server that is
--   named there); token for each hold; lease in ms, one for all holds or one for each;
--   channel (channel.lua, optional, and only behind a lease for each)
-- Reply: for each hold 1 (extended) or 0 (the token has none)
--
-- Must not shorten a TTL, nor omit a write that changes nothing: see mutex_renew.lua.
-- Happy path: each hold is the only one of its name, and ends with the key. In other
-- cases the lease of a hold may expire while others keep the key alive. The first script
-- that finds such a hold removes it, and lets in the waiters that it kept out.
-- Sent twice, it has the same effect as once.

local count, answer, slow = (#KEYS - 1) / 2, {}, nil

local function load_slow()
    local name, queue, fence, numbers = nil, nil, KEYS[1], ARGV[1]
    local channel = ARGV[2 + 2 * count]
    -- include: rw.lua

    slow = function(i, token, lease)
        name, queue = KEYS[2 * i], KEYS[2 * i + 1]
        if not load() then
            pcall_type('ZREM', queue, '') -- a write, which a replica refuses
            return 0
        end
        local purged = purge()
        local record = redis.call('HGET', name, 'h:' .. token)
        if record and not parse_hold(record) then
            redis.call('HDEL', name, 'h:')
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
