-- SPDX-License-Identifier: MIT
-- Releases a mutex whose value says that nobody queues for it.
-- KEYS: name
-- ARGV: token
-- Answer: 1: released; 0: it is marked or not this token's, mutex_release is to look at it
-- Happy path: the value is the token. One key alone, since each costs.

if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
