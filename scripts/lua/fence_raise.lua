-- SPDX-License-Identifier: MIT
-- Raises the fence counter to a number at least, for a mutex that is held by a majority of
-- independent servers: the numbers of its grant are the largest that any of them drew, and
-- a later majority must not draw smaller ones. A client sends it to a server whose number
-- was smaller, and counts the hold there only after the reply.
--
-- KEYS: fence counter, name (a string, the holder's token)
-- ARGV: number; token
-- Reply: 1: the token holds the lock, and numbers that are drawn from now on are larger;
--   0: it does not hold the lock. An error if GET is refused.
--
-- Must not set the counter back.
-- Happy path: the counter is smaller, and becomes the number for a day. One that is larger
-- stays; it is written all the same, since a replica must refuse. An
-- invalid counter (another type, too large for Lua) is replaced.
-- Sent twice, it finds the counter raised.

local last, value, token = redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2]), ARGV[2]
for _, read in ipairs({last, value}) do
    if type(read) == 'table' and not read.err:find('WRONGTYPE', 1, true) then
        return read -- GET is refused
    end
end
last = type(last) == 'string' and tonumber(last) or 0
if not (last >= 0 and last < 9007199254740991) then
    last = 0
end
local number = math.max(math.floor(last), tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', number), 'PX', 86400000)
return (value == token or value == token:sub(1, -2) .. '+') and 1 or 0
