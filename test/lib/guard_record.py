# SPDX-License-Identifier: MIT
"""The record that clients with a guard keep on a real server, for tests in Python: writes it as
another client would, so that no test has to wait for the guard time. (guard_record.h is the same
for C.)

Usual course: `open_now(server)`, and clients with the default guard time are granted locks.
"""
GUARD_MS = 45000  # the default of a quorum's clients

OPEN = """
local info, time = redis.call('INFO'), redis.call('TIME')
local id = info:match('run_id:(%w+)') .. ':' .. info:match('master_replid2:(%w+)') .. ':'
    .. info:match('second_repl_offset:(-?%d+)')
redis.call('SET', 'lockwire:guard', id .. ' ' .. ARGV[1] .. ' '
           .. string.format('%.0f', time[1] * 1000000), 'PX', 86400000)
"""


def open_now(server, guard_ms=GUARD_MS):
    """Makes the server grant locks from now on. `server` is called with a command's words."""
    server("EVAL", OPEN, 0, guard_ms)
