-- SPDX-License-Identifier: MIT
-- Reads the server's time, which every slow path needs first. Independent of what the
-- keys are for.
--
-- A fragment. It offers `time` (the reply to TIME), `us_text` (the same in microseconds,
-- as text), `format` and pcall_type(), and expects nothing. join.lua and rw.lua include it,
-- in a script with a fast path within slow().

-- include: pcall_type.lua

local format = string.format
-- Read before any key gets a TTL. A client counts the claim window from the time in the
-- message, which must therefore not be later than the beginning of the TTL.
local time = redis.call('TIME')
local us_text = time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
