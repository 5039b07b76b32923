# SPDX-License-Identifier: MIT
"""Mutations of a detach: its message to the first waiter, and what a client keeps of it."""

DETACH = 'test/integration/api/detach'

MUTATIONS = [
    ([('the first waiter does not learn of a detach',
       ('scripts/lua/fragments/stand_by.lua', 'if queue and lease <= 60000 then', 'if false then'))],
     DETACH, ('a_waiter_polls*',)),
    ([('a refused message fails a detach',
       ('scripts/lua/fragments/stand_by.lua', "redis.pcall(slot == '' and 'PUBLISH'",
        "redis.call(slot == '' and 'PUBLISH'"))],
     'test/integration/scripts/scripts_denied', ()),
    ([("the request of a client's own waiter precedes the detach",
       ('src/lock', 'bool request_first = claim->extras->votes != NULL;',
        'bool request_first = true;'))],
     DETACH, ('a_waiter_of_the_same*',)),
    ([('a message to stand by counts only while no request is in flight',
       ('src/hold', 'if (standby_due < m->due_us) {', 'if (standby_due < 0) {'))],
     'test/unit/unit_machine_window', ()),
    ([('a detached token is kept for its whole time',
       ('src/hold', 'if (claim->held.stays_until_us < until) {', 'if (until > 0) {'))],
     'test/integration/api/lingering', ()),
]
