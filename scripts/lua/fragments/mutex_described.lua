-- SPDX-License-Identifier: MIT
-- Statements that store the description of a mutex's hold (described.lua) in a key of its
-- own, since the name's key is the token alone, with the lease as its TTL. The value begins
-- with the token, so that a description is never shown for another hold.
--
-- A fragment, inlined in describe.lua, mutex_detach.lua and mutex_adopt.lua. It expects
-- `holder`, the key; `token`, the hold's; `old`, the token with which the present
-- description may begin (another one only if the hold is adopted); `about` (described.lua);
-- and `lease` in ms.
--
-- Nothing depends on a description. So a refused command is ignored, and the description
-- is missing then.

local before = redis.pcall('GET', holder)
if type(before) ~= 'string' or before:sub(1, #old + 1) ~= old .. ' ' then
    before = ''
end
before = before:sub(#old + 2)
-- inline: described.lua
redis.pcall('SET', holder, token .. ' ' .. described, 'PX', lease)
