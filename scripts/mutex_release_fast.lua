-- SPDX-License-Identifier: MIT
-- Releases a mutex whose value says that nobody queues for it.
-- KEYS: name
-- ARGV: token; and, where the queue cannot be looked at since its slot is on its way to
-- another node, a word more: it is released all the same, and who waits asks
-- Answer: 1: released; 0: it is marked or not this token's, mutex_release is to look at it
-- Happy path: the value is the token. One key alone, since each costs.

local value, token = redis.pcall('GET', KEYS[1]), ARGV[1]

if value == token or (ARGV[2] and value == token:sub(1, -2) .. '+') then
    return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    return value -- GET is refused: that does not tell whose it is
end
return 0
