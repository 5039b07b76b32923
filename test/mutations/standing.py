# SPDX-License-Identifier: MIT
"""Mutations of what a server may reply that could not have written, and of a fence counter that
may not be increased."""

DENIED = 'test/integration/scripts/scripts_denied'
STALE_MUTATIONS = [ # one of each kind of script
    (f'a stale replica ends an operation in {script}',
     (f'scripts/lua/{script}', text + " -- a write, which a replica refuses\n", '\n'))
    for script, text in (
        ('mutex_renew.lua', "pcall_type('ZREM', keys[1], words[1])"),
        ('rw_detach.lua', "pcall_type('ZREM', name, token)"),
        ('redisson_acquire.lua', "pcall_type('HDEL', name, field)"),
        ('guard.lua', "pcall_type('ZREM', key, identity)"),
        ('inspect.lua', "pcall_type('ZREM', KEYS[2] or KEYS[1], 'lockwire:')"))
]

MUTATIONS = [
    (STALE_MUTATIONS, DENIED, ()),
    ([('a stale replica says that there is nothing to detach',
       ('scripts/lua/mutex_detach.lua',
        "pcall_type('ZREM', name, token) -- a write, which a replica refuses\n", '\n'))],
     'test/integration/api/detach', ('what_a_stale_replica*',)),
    ([('any error of INCRBY means a lost counter',
       ('scripts/lua/fragments/draw_fence.lua', "redis.call('INCRBY', fence, count) -- ends", '-- ends'))],
     'test/integration/scripts/scripts_faults', ()),
]
