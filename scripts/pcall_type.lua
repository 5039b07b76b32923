-- SPDX-License-Identifier: MIT
-- Owns commands that may meet a key of another type. Must not know what the keys are for.
--
-- A fragment; who needs the time as well includes clock.lua.

-- The reply; nil where the key is of another type. Every other error ends the script:
-- the command is given again so that the server itself raises it, its code in front.
local function pcall_type(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
        if reply.err:find('WRONGTYPE', 1, true) then
            return nil
        end
        return redis.call(...)
    end
    return reply
end
