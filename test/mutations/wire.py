# SPDX-License-Identifier: MIT
"""Mutations that need a failing allocation, a false reply, the server's clock or another server.
The suites unit, integration and modes and 60 seeds of the simulator pass with them, except that
unit_identity and other programs catch the one of unit_identity."""

LINK_MEMORY = 'test/fault/memory_link'
LINK_MEMORY_MUTATIONS = [
    ('memory: a link without a timer is not freed',
     ('src/redis/link.c', 'if (lw__timer_reserve(loop, 1) < 0) {\n        destroy(link);',
      'if (lw__timer_reserve(loop, 1) < 0) {')),
    ('memory: a subscription is sent without a record of its confirmation',
     ('src/redis/link.c',
      'if (pending_reserve(&link->pending) == NULL) {\n        return LW_ENOMEM;\n    }\n'
      '    lw__resp_words', '(void)pending_reserve(&link->pending);\n    lw__resp_words')),
    ('memory: a command without memory for its callback counts as sent',
     ('src/redis/reader.c', '    if (callback == NULL || lw__reader_send_unseen(',
      '    if (callback == NULL) {\n        return 0;\n    }\n    if (lw__reader_send_unseen(')),
]
BUSY_POLL = 'test/unit/unit_busy_poll'
BUSY_POLL_MUTATIONS = [
    ('a client looks at the socket although that never pays',
     ('src/redis/link.c', 'lw__busy_poll_note(&link->busy_poll, times, arrived);', '(void)times;')),
    ('one fruitless look after a pause begins the count anew',
     ('src/redis/busy_poll.h',
      'poll->wasted = LW__BUSY_POLL_ENOUGH - LW__BUSY_POLL_FRUITLESS;', 'poll->wasted = 0;')),
    ('a client looks at the socket while deferred calls wait',
     ('src/redis/link.c', ' || lw__loop_has_calls(link->loop) ||', ' ||')),
    ('a client looks at the socket with busy_poll_us 0',
     ('src/redis/link.c', 'link->busy_poll_us > 0 ? &link->written : NULL', '&link->written')),
]
MEMORY = 'test/fault/memory'
MEMORY_MUTATIONS = [
    ('mutex__one_*', ('memory: a channel that is not in the hash table is used',
     ('src/redis/listener.c', 'if (channel->hh.tbl == NULL) {',
      "if (channel->text[0] == '\\0') {"))),
    ('inquiries__one_*', ('memory: a list without its pattern is not freed',
     ('src/look/list.c', 'strdup(pattern)) == NULL) {\n        free(list);',
      'strdup(pattern)) == NULL) {'))),
    ('keep__one_*', ('memory: a keep that cannot be created is not freed',
     ('src/lock/keep.c', '    if (status != LW_OK) {\n        lw_keep_free(keep);',
      '    if (status != LW_OK) {'))),
    ('an_adoption_without*', ('memory: an adoption whose token was not copied is an acquisition',
     ('src/hold/claim.c', 'copy(args->adopts, &extras->adopts) && (votes',
      '(copy(args->adopts, &extras->adopts), true) && (votes'))),
    ('a_keep_without*', ('memory: a keep whose owner was not copied acquires without one',
     ('src/lock/keep.c', '(options->owner = keep->owner = strdup(options->owner)) == NULL) {',
      '(options->owner = keep->owner = strdup(options->owner), false)) {'))),
    ('sentinel__one_*', ('memory: a sentinel that was not allocated is used',
     ('src/redis/sentinel.c', 'if (one == NULL || lw__timer_reserve(loop_of(set), 2) != 0) {',
      'if (lw__timer_reserve(loop_of(set), 2) != 0) {'))),
]
RESOLVING_MUTATIONS = [
    ('memory: a resolution whose queries were not sent is not freed',
     ('src/loop/resolve.c', '        lw__resolve_cancel(resolve);\n        return LW_ENOMEM;',
      '        return LW_ENOMEM;')),
    ('memory: queries that were not allocated are used',
     ('src/loop/resolve.c', '    if (queries == NULL) {\n        return LW_ENOMEM;\n    }\n', '')),
]
REDISSON_MEMORY_MUTATIONS = [
    ("memory: a listener to Redisson's channels that was not allocated is used",
     ('src/hold/redisson.c', 'if (redisson == NULL || lw__timer_reserve(',
      'if (lw__timer_reserve(')),
]
CLUSTER_MEMORY = 'test/fault/memory_cluster'
CLUSTER_MEMORY_MUTATIONS = [
    ('memory: a survey without memory for one of its lists does not free the other',
     ('src/redis/node_table.c',
      'if (endpoints == NULL || others == NULL) {\n        free(endpoints);',
      'if (endpoints == NULL || others == NULL) {')),
]
QUORUM_MEMORY = 'test/fault/memory_quorum'
QUORUM_MEMORY_MUTATIONS = [
    ('memory: votes that were not allocated are used',
     ('src/quorum/votes.c', '    if (votes == NULL) {\n        return false;\n    }\n', '')),
]

# False replies to commands about a lock.
LIES = 'test/fault/fault_lies'
LIES_MUTATIONS = [
    ('wrong_number__waiter_asks_again__turns_off', ('a number in reply to SET is a grant',
     ('src/hold/claim.c', '    default:\n        return false;\n    }\n}\n\n/* An error of SET',
      '    default:\n        claim->try = LW__TRY_SET;\n        return true;\n    }\n}\n\n'
      '/* An error of SET'))),
    ('wrong_number__owner_O1__semaphore', ('any reply to a renewal is a confirmation',
     ('src/hold/renewal.c',
      'if (!lw__decode_renewed(reply, batch->count, renewed)) {\n        return false;',
      'if (!lw__decode_renewed(reply, batch->count, renewed)) {\n'
      '        memset(renewed, 1, sizeof(renewed));'))),
]

IDENTITY_UNIT = 'test/unit/unit_identity'
IDENTITY_UNIT_MUTATIONS = [
    ('clients of two processes have the same id',
     ('src/base/random.c', '    return getentropy(ret, size) == 0;',
      '    static unsigned char drawn;\n\n    memset(ret, 0, size);\n'
      '    *(unsigned char *)ret = ++drawn;\n    return true;'),
     ('src/base/random.c', '#include <unistd.h>', '#include <string.h>')),
]

UNSET_CLOCK_MUTATIONS = [
    ("a fence counter that an unset clock began is used",
     ('src/redis/node_fence.c',
      '} else if (number < LW__FENCE_MIN) {\n        (void)lw__node_reject',
      '} else if (number < 2) {\n        (void)lw__node_reject')),
]
MINIREDIS_MUTATIONS = [ # gopher-lua has no %f
    ("a script needs Lua's own implementation",
     ('scripts/lua/fragments/mutex_hand_over.lua', "head:match('^:%d+:([1-9]%d*)%-$', 37)",
      "head:match('^:%d+:%f[1-9](%d+)%-$', 37)")),
]

MUTATIONS = [ # groups: mutations, the program that catches them, and its arguments
    (LINK_MEMORY_MUTATIONS, LINK_MEMORY, ()),
    (BUSY_POLL_MUTATIONS, BUSY_POLL, ()),
    *(([mutation], MEMORY, (test,)) for test, mutation in MEMORY_MUTATIONS),
    (RESOLVING_MUTATIONS, 'memory_resolving', ('resolving__one_*',)),
    (REDISSON_MEMORY_MUTATIONS, 'memory_redisson', ()),
    (CLUSTER_MEMORY_MUTATIONS, CLUSTER_MEMORY, ('semaphore__one_*',)),
    (QUORUM_MEMORY_MUTATIONS, QUORUM_MEMORY, ('turns__one_*',)),
    *(([mutation], LIES, (test,)) for test, mutation in LIES_MUTATIONS),
    (IDENTITY_UNIT_MUTATIONS, IDENTITY_UNIT, ()),
    (UNSET_CLOCK_MUTATIONS, 'fault_clock_unset', ('who_wants_a_number*',)),
    (MINIREDIS_MUTATIONS, 'miniredis', ()),
]
