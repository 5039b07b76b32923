-- SPDX-License-Identifier: MIT
-- Extends the leases of holds that still stand.
-- KEYS: fence, then name, queue for each hold
-- ARGV: server; token for each hold; lease ms of all, or for each hold
-- Answer: 1 (extended) or 0 (it is no more) for each hold
-- Happy path: all stand, none of anybody has ended. A hold's lease may end while others
-- keep the key alive: the first to see it drops it, and lets in whom it kept out.

local name, queue, fence, server
fence, server = KEYS[1], ARGV[1]
-- include: rw.lua

local function renew(token, lease)
    if not load() then
        return 0
    end
    local purged = purge()
    local record = redis.call('HGET', name, 'h:' .. token)
    if record then
        extend(record, token, lease)
    else
        redis.call('HDEL', name, 'h:' .. token) -- lets serve() write without memory
    end
    if purged or not record then
        serve()
    end
    return record and 1 or 0
end

local count, answer = (#KEYS - 1) / 2, {}
for i = 1, count do
    name, queue = KEYS[2 * i], KEYS[2 * i + 1]
    answer[i] = renew(ARGV[1 + i], tonumber(ARGV[1 + count + i] or ARGV[2 + count]))
end
return answer
