# SPDX-License-Identifier: MIT
"""Mutations that only a real server's file, or real clocks, show."""

AOF_MUTATIONS = [
    ("fault: a hold is not in the server's file",
     ('scripts/lua/rw_acquire.lua', "            call('HSET', name, 'mode', '2 1 0 1 0 ' .. text",
      "            redis.set_repl(redis.REPL_REPLICA)\n            call('HSET', name, 'mode', '2 1 0 1 0 ' .. text")),
]
OWN_CLOCK_MUTATIONS = [
    ('fault: the clock of leases is the one that is set',
     ('src/loop/loop.h', '#define LW__CLOCK CLOCK_BOOTTIME', '#define LW__CLOCK CLOCK_REALTIME')),
]
DRIFT_MUTATIONS = [
    ('fault: clocks have the same rate',
     ('src/hold/machine.c', 'return span_us / 100 + 2 * MS;', 'return span_us * 0 + 2 * MS;')),
]

MUTATIONS = [
    (AOF_MUTATIONS, 'fault_aof_exclusive', ('killed_with_aof__owner*',)),
    (OWN_CLOCK_MUTATIONS, 'fault_clock_own', ('own_clock*',)),
    (DRIFT_MUTATIONS, 'fault_clocks_quorum_servers', ('servers_that_gain*',)),
]
