-- SPDX-License-Identifier: MIT
-- Owns what every slow path begins with: the server's time, and commands that may meet a key
-- of another type. Must not know what the keys are for.
--
-- A fragment: the build puts it before all others, into slow() where a script has that.

-- include: pcall_type.lua

local format = string.format
-- Read before anything gets a TTL: a message that says when must not say it too late.
local time = redis.call('TIME')
local us_text = time[1] .. ('000000'):sub(#time[2] + 1) .. time[2]
