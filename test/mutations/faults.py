# SPDX-License-Identifier: MIT
"""Mutations that only real servers show: a file, clocks, replicas; and mutations of the checker of
the campaigns' histories. (The simulator's replicas get each change of a key.)"""


def unreplicated(indent):
    """Returns a script's line after which its writes are sent to no replica."""
    return f"{indent}if redis.set_repl then redis.set_repl(redis.REPL_AOF) end\n"


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

FAILOVER_MUTATIONS = [
    ('fault: a detach is not sent to the replicas',
     ('scripts/lua/mutex_detach.lua', "redis.call('PEXPIRE', name, lease)\n",
      unreplicated('') + "redis.call('PEXPIRE', name, lease)\n")),
]
SWAPPED_MUTATIONS = [
    ("fault: a writer's hold is not sent to the replicas",
     ('scripts/lua/rw_acquire.lua', "            call('HSET', name, 'mode', '2 1 0 1 0 ' .. text",
      unreplicated(' ' * 12) + "            call('HSET', name, 'mode', '2 1 0 1 0 ' .. text")),
]
SENTINELS_MUTATIONS = [
    ("fault: a reader's hold is not sent to the replicas",
     ('scripts/lua/rw_acquire.lua', "            call('HSET', name, 'mode', '2 1 1 0 0 0 '",
      unreplicated(' ' * 12) + "            call('HSET', name, 'mode', '2 1 1 0 0 0 '")),
]
CLUSTER_MUTATIONS = [
    ("fault: a hold in a cluster is not sent to the replicas",
     ('scripts/lua/rw_acquire.lua', '        add_hold(kind, token, owner, lease, number)\n',
      unreplicated(' ' * 8) + '        add_hold(kind, token, owner, lease, number)\n')),
]
DETACHED_MUTATIONS = [
    ('fault: a detach that is sent again has its whole time again',
     ('src/hold/release.c', 'claim->held.stays_until_us - lw__now_us();',
      'claim->held.stays_until_us -\n                      (claim->machine.unconfirmed ? '
      'claim->machine.first_sent_us : lw__now_us());')),
]
HISTORY_MUTATIONS = [
    ('history: who still believes in a lock that another has is not found',
     ('test/fault/history.c', '    if (claim->superseded) {\n        check->verdict.overlaps++;',
      '    if (false) {\n        check->verdict.overlaps++;')),
    ('history: a loss forgives what is after it',
     ('test/fault/history.c', 'one->until_us - check->lease_us < check->loss_end_us &&',
      'one->until_us - check->lease_us < INT64_MAX &&')),
]

MUTATIONS = [
    (AOF_MUTATIONS, 'fault_aof_exclusive', ('killed_with_aof__owner*',)),
    (OWN_CLOCK_MUTATIONS, 'fault_clock_own', ('own_clock_ahead__owner*',)),
    (DRIFT_MUTATIONS, 'fault_clocks_quorum_servers', ('servers_that_gain*',)),
    (FAILOVER_MUTATIONS, 'fault_failover_turns_off',
     ('promoted_with_all_writes__detached_lock*',)),
    (SWAPPED_MUTATIONS, 'fault_servers_exclusive', ('roles_swapped__owner*',)),
    (SENTINELS_MUTATIONS, 'fault_sentinels_writer_waits', ('master_killed__owner_kept*',)),
    (CLUSTER_MUTATIONS, 'fault_cluster_exclusive', ('master_taken_over__owner_kept*',)),
    (DETACHED_MUTATIONS, 'fault_detached_turns_off', ('reset__detach_OK_though_sent_again*',)),
    (HISTORY_MUTATIONS, 'fault_history', ()),
]
