-- SPDX-License-Identifier: MIT
-- Statements that make the description of a hold, `<since> <client> <host> <pid>
-- <user>[ <note>]`: `since` is the server's time in ms when the lock was granted, and the
-- note may contain blanks. Independent of where it is kept.
--
-- A fragment, inlined in mutex_described.lua, describe.lua, rw_detach.lua and rw_adopt.lua.
-- It expects `about`, the client's part: `<ms since the grant> <client> <host> <pid>
-- <user>[ <note>]`; and `before`, the description that the hold has so far, or ''. It
-- offers `described`.
--
-- A hold is described again after each renewal, and when it is detached or adopted. `since`
-- is kept from the first description. The note is kept as well if `about` has none.

local held, who, note = about:match('^(%d+) (%S+ %S+ %S+ %S+)(.*)$')
local its_since, its_note = before:match('^(%d+) %S+ %S+ %S+ %S+(.*)$')
local clock = redis.pcall('TIME') -- if it is refused the time is unknown: 0
local since = clock[1] and clock[1] * 1000 + math.floor(clock[2] / 1000) - held or 0
local described = (its_since or string.format('%.0f', since)) .. ' ' .. who
    .. (note ~= '' and note or its_note or '')
