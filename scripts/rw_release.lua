-- SPDX-License-Identifier: MIT
-- Whatever this token has here, it has no more: its hold, or its place in the queue.
-- KEYS: name, queue, fence
-- ARGV: token ('': of an operator who breaks the lock: all that are longer than 512 bytes),
--       member (as it stands in the queue: `<r|w><permits> <token> <owner>`), server
-- Answer: {1 if it was held and is released, else 0; holds its owner still has; again}
-- Happy path: the only hold, nobody queued. The first write frees, so that it passes
-- without memory.

local only = redis.pcall('HMGET', KEYS[1], 'h:' .. ARGV[1], 'rcount', 'wcount')
if only[1] and (only[2] == '1' and only[3] == '0' or only[2] == '0' and only[3] == '1')
    and redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
    return {1, 0, 0}
end

local function slow()
    local name, queue, fence, server = KEYS[1], KEYS[2], KEYS[3], ARGV[3]
    -- include: rw.lua
    local token, member = ARGV[1], ARGV[2]
    if not load() then
        try('ZREM', queue, member)
        return {0, 0, 0}
    end
    local released = 0
    if token == '' then
        for _, field in ipairs(redis.call('HKEYS', name)) do
            local long = #field > 514 and field:match('^h:(.*)$')
            local ending, kind, holder = parse_hold(long and redis.call('HGET', name, field) or '')
            if ending then
                drop(long, kind, holder)
                released = 1
            end
        end
    end
    if released == 1 then
        save()
    end
    local _, _, _, owner = parse_member(member)
    local record = redis.call('HGET', name, 'h:' .. token)
    if record then
        local _, kind, holder = parse_hold(record)
        owner = holder
        drop(token, kind, owner)
        save()
        released = 1
    end
    leave(member, token)
    purge()
    local _, again = serve()
    local left = 0
    if owner then
        left = reads(owner) + (writes(owner) and lock.wcount or 0)
    end
    return {released, left, again}
end
return slow()
