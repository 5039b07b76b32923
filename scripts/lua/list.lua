-- SPDX-License-Identifier: MIT
-- Finds the keys that are locks, one step of SCAN at a time. A client sends it for
-- lw_list, until the cursor is 0.
--
-- KEYS: none, since they are not known before; in a cluster they are those of the node
-- ARGV: cursor, number of keys to look at, pattern (optional)
-- Reply: {next cursor (0: the end), number of keys looked at, number of the server's keys
--   (-1: DBSIZE is not permitted), name, ...}. An error if a command is not permitted.
--
-- Must not write, nor read more of a key than a lock has. A key that this account may not
-- read is skipped. A key that cannot be read, since its slot is migrating, is included:
-- the client inspects each name by itself.
-- Happy path: TYPE; then GETRANGE reads a mutex's token, or HGET the state of a
-- read-write lock (rw.lua). GETRANGE without TYPE would save a command, but is an error
-- for each other key.
-- Sent twice, it looks at the same step again.

local step = {ARGV[1], 'COUNT', ARGV[2]}
if ARGV[3] then
    step[4], step[5] = 'MATCH', ARGV[3]
end

local refused

local function read(command, ...)
    local answer = redis.pcall(command, ...)
    local err = type(answer) == 'table' and answer.err
    if not err then
        return answer
    end
    if not err:find('access .*key') or err:find('same slot', 1, true) then
        refused = refused or 'ERR ' .. command .. ': ' .. err:gsub('^ERR ', '')
    end
    return nil, err
end

local function is_ours(key)
    local kind, err = read('TYPE', key)
    if not kind then
        return err:find('non local key', 1, true)
    end
    if kind.ok == 'string' then
        local value = read('GETRANGE', key, 0, 99)
        return value and #value < 80 and
            value:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+:%d+[-+]?$')
    end
    if kind.ok ~= 'hash' then
        return false
    end
    local length = read('HSTRLEN', key, 'mode')
    local state = length and length > 0 and length <= 512 and read('HGET', key, 'mode')
    return state and state:find('^2 %d+ %d+ %d+ %d+ %d+ ')
end

local page = read('SCAN', unpack(step))
if refused then
    return {err = refused}
end
local keys = page[2]
local size = redis.pcall('DBSIZE')
local answer = {page[1], ARGV[3] and tonumber(ARGV[2]) or #keys,
                type(size) == 'number' and size or -1}
for _, key in ipairs(keys) do
    if #key <= 512 and key:sub(1, 9) ~= 'lockwire:' and is_ours(key) then
        answer[#answer + 1] = key
    end
end
return refused and {err = refused} or answer
