-- SPDX-License-Identifier: MIT
-- Tells which keys are locks of ours, one step of SCAN at a time. Reads only, and of no key more
-- than a lock's own bytes.
-- KEYS: none, since they are not known before; in a cluster they are those of the node that is
--       asked
-- ARGV: cursor, how many keys to look at, pattern (optional)
-- Answer: {next cursor (0: the end), how many keys were looked at, how many the server has (-1:
--          DBSIZE is not permitted), name, ...}
-- Happy path: TYPE, then GETRANGE has a mutex's token, or HGET the state of a read-write lock
-- (rw.lua). (To ask GETRANGE first would save a command, and be an error for each other key.)
--
-- A key that this account may not read is passed over, a command that it may not use is an
-- error. What cannot be looked at here while its slot is on its way is named all the same: who
-- asks looks at each name by itself.

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
