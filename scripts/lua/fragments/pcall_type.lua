-- SPDX-License-Identifier: MIT
-- Calls Redis with a command whose key may be of another type. Independent of what the
-- keys are for.
--
-- A fragment. It offers pcall_type() and expects nothing. clock.lua includes it.

-- Returns the reply, or nil if the key is of another type. After any other error the
-- command is called again, so that the script ends with the server's own error and code.
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
