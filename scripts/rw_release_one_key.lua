-- SPDX-License-Identifier: MIT
-- Takes a hold away by its name alone, whose slot is on its way to another node. Who waits is
-- let in by the next script of three keys: they ask from time to time.
-- KEYS: name
-- ARGV: token
-- Answer: bit 0: it was held and is released; above bit 1, how many holds its owner still has
-- Happy path: it stands.

local name, queue, fence, numbers = KEYS[1], nil, '', nil
-- include: rw.lua

local record = load() and redis.call('HGET', name, 'h:' .. ARGV[1])
local ending, kind, owner = parse_hold(record or '')
if not ending then
    return 0
end
remove_hold(ARGV[1], kind, owner)
save()
if lock.rcount + lock.wcount == 0 then
    return 1 -- the key is gone, of which nothing may be asked where its slot leaves
end
return 1 + 4 * (read_holds(owner) + (is_writer(owner) and lock.wcount or 0))
