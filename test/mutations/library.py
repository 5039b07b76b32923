# SPDX-License-Identifier: MIT
"""Mutations of library and scripts that a test with or without a server catches."""

MASTER_ID_UNIT = 'test/unit/unit_sentinel_master_id'
MASTER_ID_MUTATIONS = [
    ('a master with another run id is used',
     ('src/redis/session.c', 'if (!check_master_id(s, s->new_run_id)) {',
      'if (s->new_run_id[0] == 1) {')),
    ('a connection to another process stays',
     ('src/redis/sentinel.c', 'lw__session_check_master(session);', '(void)session;')),
    ('a run id that no sentinel reports after a switch is forgotten',
     ('src/redis/sentinel.c', 'memcpy(id->run_id, known->run_id, sizeof(id->run_id));',
      '(void)known;')),
    ('replicas are not asked for',
     ('src/redis/sentinel.c', 'note_known(sentinel->set, &replica.endpoint, replica.id,',
      'note_known(sentinel->set, &replica.endpoint, "",')),
    ('a replica that has restarted is not used after a switch',
     ('src/redis/session.c', ' || s->started_us > id->known_us) {', ') {')),
    ('a restart excuses another run id',
     ('src/redis/sentinel.c', '(struct lw__master_id){.known_us = INT64_MAX}',
      '(struct lw__master_id){.known_us = info_us(set->all)}')),
    ('a discovered sentinel overrules the listed ones about the run id',
     ('src/redis/sentinel.c', '(best == NULL || best->discovered > one->discovered ||',
      '(best == NULL || best->discovered < one->discovered ||')),
    ('an old report of a run id counts as much as a new one',
     ('src/redis/sentinel.c', 'info_us(one) > info_us(best)', 'info_us(one) < info_us(best)')),
    ('a loopback address of another host is used',
     ('src/redis/sentinel.c', 'on_answer(sentinel, useful && !refuse_loopback(sentinel));',
      'on_answer(sentinel, useful);')),
    ('a switch to a loopback address of another host is followed',
     ('src/redis/sentinel.c', '!is_of_other_host(sentinel, &next.endpoint)) {', 'true) {')),
    ('a loopback address is refused although it is mapped',
     ('src/redis/sentinel.c',
      '!lw__address_map_apply(sentinel->set->servers.address_map, &target) &&', '')),
    ('an unknown run id is no warning',
     ('src/redis/session.c', 'if (s->config->master_id != NULL) {', 'if (false) {')),
]

# Situations that are too rare in the worlds, and that the traces of a unit test have.
SENTINEL_UNIT = 'test/unit/unit_sentinel'
SENTINEL_UNIT_MUTATIONS = [
    ('a sentinel that has a master replaced is believed about it',
     ('src/redis', 'a->epoch > b->epoch : b->moving && !a->moving;',
      'a->epoch > b->epoch : false;')),
    ('ROLE is not asked where a sentinel leads to',
     ('src/redis', 'if (strcmp(role, "master") == 0) {', 'if (role != NULL) {')),
    ('a switch to and fro that no sentinel told is none',
     ('src/redis',
      'return master->announced_epoch >= 0 && announced_epoch > master->announced_epoch;',
      '(void)master;\n    return announced_epoch < -1;')),
    ('the first sentinel that answers is believed',
     ('src/redis', '#define LATER_US (200 * (int64_t)LW__MS)', '#define LATER_US 0')),
    ('a learnt sentinel leads away by its word alone',
     ('src/redis', '(!sentinel->discovered ||', '(true ||')),
    ('a switch that a learnt sentinel reports is believed',
     ('src/redis', 'if (!sentinel->discovered && lw__master_is_at(&set->master, &from) &&',
      'if (lw__master_is_at(&set->master, &from) &&')),
    ('a listed sentinel is asked once about what a learnt one reports',
     ('src/redis', 'if (sentinel->discovered) {\n        set_heartbeat(set, RESTLESS_US);',
      'if (false) {\n        set_heartbeat(set, RESTLESS_US);')),
    ('a listed sentinel that comes back is waited for at leisure',
     ('src/redis', 'if (any_useful(set) && !all_ready(set)) {',
      'if (any_useful(set) && find_best(set) != NULL && !all_ready(set)) {')),
    ('nobody is told that a listed sentinel has to confirm a master',
     ('src/redis', 'log_useless(one, &one->claim_logged, why);', '(void)why;')),
    ('a switch is a warning until the listed sentinels have heard of it',
     ('src/redis', '#define CONFIRM_US (5000 * (int64_t)LW__MS)', '#define CONFIRM_US 0')),
    ('a learnt sentinel replaces no listed one',
     ('src/redis', 'lw__master_is_at(&sentinel->set->master, &sentinel->answer.endpoint));',
      'false);')),
    ('a learnt sentinel outranks the listed ones by its epoch',
     ('src/redis', 'if (sentinel->discovered && lw__master_is_later(&answer, present)) {',
      'if (false && lw__master_is_later(&answer, present)) {')),
    ('the epoch of a learnt sentinel counts as reported',
     ('src/redis', 'best->discovered || answer.moving ? -1 : answer.epoch,',
      'answer.moving ? -1 : answer.epoch,')),
    ('whoever is at the address of a learnt sentinel is taken for it',
     ('src/redis',
      'if (strcmp(lw__reply_text(reply, NULL), s->config->sentinel_id) == 0) {',
      'if (lw__reply_text(reply, NULL) != NULL) {')),
    ('a learnt sentinel stays though no listed one names it',
     ('src/redis', '(*at)->named_by == 0', '(*at)->named_by == ~0U')),
    ('a busy learnt sentinel is taken for a stranger',
     ('src/redis', 'other_sentinel && !is_busy(error) ?', 'other_sentinel && is_busy != NULL ?')),
]
SESSION_UNIT_MUTATIONS = [
    ('what one connection was refused ends the next one for good',
     ('src/redis', "s->end = LW__END_FAULT;\n    s->failure.why[0] = '\\0';",
      "s->failure.why[0] = '\\0';"),
     ('src/redis', 's->end = LW__END_FAULT;\n    s->state = ', 's->state = ')),
]
CLAIMS_UNIT = 'test/unit/unit_cluster_claims'
CLAIMS_UNIT_MUTATIONS = [
    ('whose name it is already is not asked',
     ('src/hold', 'if (!claim->machine.maybe_in_redis ||\n            !send_command(',
      'if (&extend_type != NULL || !send_command(')),
    ('who does not listen at its node queues there',
     ('src/hold', 'return lw__node_is_bound(node, claim->name->slot);',
      'return true;')),
    ('a message of any node is believed',
     ('src/hold', "return lw__node_is_bound(name->node, name->slot) && *m->server &&\n"
      "           strcmp(m->server, lw__node_server(name->node)) == 0;", "return *m->server != 0;")),
    ('whose clock it was says where the name leads now',
     ('src/hold', 'struct lw__node *node = lw__node_of_command(&claim->command);\n\n    claim->asking',
      'struct lw__node *node = claim->name->node;\n\n    claim->asking')),
    # Each of the two checks covers for the other. A message that names our server was true there,
    # by that server's clock. And when the links are bound, all waiters have sent requests, so that
    # the clock pair is a new one.
    ('an unbound message is believed, by the clock pair of another server',
     ('src/hold', 'return lw__node_is_bound(name->node, name->slot) && *m->server &&',
      'return *m->server &&'),
     ('src/hold', 'last->connection == connection &&', '(void)connection,'),
     ('src/hold', 'claim->asking.connection == connection', 'true')),
    ('who waits does not hear that the channel of its slot is dropped',
     ('src/lock', 'lw__retry_slot(&client->holds, node, slot);',
      '(void)client, (void)node, (void)slot;')),
]

BREAKS = 'test/integration/inspect/inspect_break'
BREAKS_MUTATIONS = [
    ('a hint to verify is forgotten while an answer is due',
     ('src/hold', '    claim->verify = true;\n', '')),
]

RESTS = 'test/integration/redisson/redisson_rest'
RESTS_MUTATIONS = [
    ('a release of an RLock leaves no time to others',
     ('src/hold/redisson.c', 'return until > now ? until - now : 0;',
      'return until > now ? 0 : 0;')),
]

WATCHES = 'test/integration/inspect/inspect_watch'
WATCHES_MUTATIONS = [
    ('each_state*', ('watch: a change that the server reports is not looked at',
     ('src/look/watch.c', 'if (key == NULL || is_of(key, length, watch->call.name)) {',
      'if (false) {'))),
    ('a_lost_connection*', ('watch: changes are reported to the former connection',
     ('src/redis/node.c', 'if (node->tracked != lw__node_connection(node)) {',
      'if (node->tracked == 0) {'))),
    ('a_renewal*', ('watch: a passing time is a change',
     ('src/look/watch.c', '(a->remaining_ms < 0) == (b->remaining_ms < 0)',
      'a->remaining_ms == b->remaining_ms'))),
    ('an_outage*', ('watch: an outage is reported at each look',
     ('src/look/watch.c', 'return status != before || status == LW_OK;', 'return true;'))),
    ('an_outage*', ('watch: the end of an outage is reported only with another state',
     ('src/look/watch.c', 'if (status != LW_OK || before != LW_OK || !watch->seen) {',
      'if (status != LW_OK || !watch->seen) {'))),
    ('a_hot_lock*', ('watch: a lock that changes all the time is looked at ten times an interval',
     ('src/look/watch.c', 'watch->spacing_us *= 2;', ''))),
    ('a_hot_lock*', ('watch: each report of a change is looked at once',
     ('src/look/watch.c', '            watch->again = true;\n            plan(watch);',
      '            watch->again = watch->again_soon = true;\n            plan(watch);'))),
]

WATCHES_REFUSED_MUTATIONS = [
    ('watch: a tracked look that is refused is not repeated',
     ('src/look/inspect.c', 'if (retry_untracked(call, reply) || retry_one_key(call, reply) ||',
      'if (retry_one_key(call, reply) ||'),
     ('src/look/inspect.c', 'static bool retry_untracked(', '__attribute__((unused)) static bool retry_untracked(')),
]
WATCH_MESSAGES = 'test/unit/unit_watch_messages'
WATCH_MESSAGES_MUTATIONS = [
    ('watch: the queue of a name is not its own',
     ('src/look/watch.c', '(length > size && memcmp(key + length - size - 1, name, size) == 0);',
      'false;')),
    ('watch: the key of a longer name is that of the name',
     ('src/look/watch.c', 'memcmp(key + length - size, name, size) == 0) ||',
      'strstr(key, name) != NULL) ||')),
    ('watch: a flush wakes no watch',
     ('src/look/watch.c', 'if (key == NULL || is_of(', 'if (key != NULL && is_of(')),
    ('watch: a further report delays the look',
     ('src/look/watch.c', 'if (lw__timer_is_set(&watch->timer) &&', 'if (false &&')),
]

YIELDS = 'test/integration/inspect/inspect_yield'
YIELDS_MUTATIONS = [
    ('a_request_before*', ('yield: a request before the reply that grants is ignored',
     ('src/hold/claim_message.c', 'claim->yields = lw__machine_asks(claim->machine.phase);',
      'claim->yields = false;'))),
    ('each_reader*', ('yield: the first holder alone is asked',
     ('src/look/inspect.c', 'call->hinted++;\n    ask_next(call);',
      'call->hinted = call->look.found.holder_count;\n    ask_next(call);'))),
    ('all_of_many*', ('yield: so many holders are asked as an inspection reports',
     ('src/look/inspect.c', 'acts ? MOST_HOLDERS : LW__INSPECT_HOLDERS,',
      'call->broken != NULL ? MOST_HOLDERS : LW__INSPECT_HOLDERS,'))),
    ('a_client_that_is_gone*', ('yield: a holder whose client is gone counts as reached',
     ('src/look/inspect.c', 'call->reached += lw__reply_integer(reply) > 0;',
      'call->reached += lw__reply_integer(reply) >= 0;'))),
    ('odd_replies*', ('yield: a holder is reached once for each connection',
     ('src/look/inspect.c', 'call->reached += lw__reply_integer(reply) > 0;',
      'call->reached += (size_t)lw__reply_integer(reply);'))),
    ('another_library*', ('yield: a token of another library is asked',
     ('src/look/inspect.c', 'while (call->hinted < found->holder_count &&\n'
      '           !lw__format_is_token(call->look.entries[call->hinted].token)) {',
      'while (call->hinted < found->holder_count &&\n'
      '           strlen(call->look.entries[call->hinted].token) < 8) {'))),
    ('an_account_that_may_not_publish*', ('yield: a refused message is no error',
     ('src/look/inspect.c', 'if (end_on_error(call, reply, false)) {\n        return true;\n    }\n'
      '    if (lw__reply_type(reply) != LW__REPLY_INTEGER) {',
      'if (lw__reply_type(reply) != LW__REPLY_INTEGER &&\n'
      '        lw__reply_type(reply) != LW__REPLY_ERROR) {'))),
    ('a_lock_that_is_free*', ('yield: a free lock was asked for',
     ('src/look/inspect.c', '} else if (found->holder_total > 0) {', '} else if (call != NULL) {'))),
    ('requests_for_other*', ('yield: a request is for the name, whatever its token',
     ('src/hold/claim_message.c', 'DL_SEARCH_SCALAR(name->claims, claim, n, m->token.n);',
      'DL_SEARCH_SCALAR(name->claims, claim, n, m->token.n);\n'
      '        claim = claim == NULL && m->yield ? name->claims : claim;'))),
]
HOLDS_UNIT = 'test/unit/unit_holds'
HOLDS_UNIT_MUTATIONS = [
    ('yield: a waiter is asked',
     ('src/hold/claim_message.c', '    if (lw__machine_holds(claim->machine.phase)) {\n        claim->holds',
      '    if (claim != NULL) {\n        claim->holds')),
]
YIELD_ORDER = 'test/unit/unit_yield_order'
YIELD_ORDER_MUTATIONS = [
    ('yield: a warning drops the request',
     ('src/lock/handle.c', 'lock->yield_due = lock->yield_due || lock->notice.kind == LW__NOTICE_YIELD;\n', '')),
    ('yield: a warning that is canceled drops the request',
     ('src/lock/handle.c', 'lw__notify_cancel(lock->client, &lock->notice);\n    lw__handle_resume_yield(lock);',
      'lw__notify_cancel(lock->client, &lock->notice);')),
    ('yield: a request drops the warning',
     ('src/lock/handle.c', 'if (lock->yield_due && lock->notice.kind == LW__NOTICE_NONE) {',
      'if (lock->yield_due) {')),
    ('yield: a request is for the next grant, too',
     ('src/lock/handle.c', '    lock->yield_due = false;\n    lock->fence', '    lock->fence')),
    ('yield: a request before the grant is delivered is lost',
     ('src/lock/deliver.c', 'lw__handle_delivered(lock);\n            lw__handle_resume_yield(lock);',
      'lw__handle_delivered(lock);')),
    ('yield: a request after a warning is lost',
     ('src/lock/deliver.c', '    lw__handle_resume_yield(lock);\n    lock->in_callback', '    lock->in_callback')),
    ('yield: a request while one is due is another one',
     ('src/lock/handle.c', 'lock->yield_due = lock->notice.kind != LW__NOTICE_YIELD;',
      'lock->yield_due = true;')),
]
SHARDS_UNIT = 'test/unit/unit_cluster_shards'
SHARDS_UNIT_MUTATIONS = [
    ('a slot that is kept is left after a minute',
     ('src/redis/cluster.c', 'if (cluster->events->node.keep_slots != NULL) {', 'if (false) {')),
]
CLUSTER_YIELDS = 'test/integration/server/cluster_locks'
CLUSTER_YIELDS_MUTATIONS = [
    ('a_holder_that_never*', ('yield: a holder of a cluster is subscribed only if it waits',
     ('src/lock/turns.c', '    lw__renewal_plan(&handles->claim);\n    subscribe(lock);',
      '    lw__renewal_plan(&handles->claim);'))),
    ('a_holder_that_ignores*', ('yield: each holder of a cluster is subscribed',
     ('src/lock/turns.c', 'if (lock->client->options.asked_to_yield != NULL) {', 'if (true) {'))),
]

ERRORS = 'test/integration/server/server_errors'
ERRORS_MUTATIONS = [
    ('missing replicas are logged on each connection',
     ('src/redis', 'now - node->replicas_logged_us >= REPLICAS_LOG_US', 'now > 0')),
]

# A world's servers never refuse a single command of a script.
DENIED = 'test/integration/scripts/scripts_denied'
DENIED_MUTATIONS = [
    ('refused: a hand-over is announced before the name is set',
     ('scripts/lua/fragments/mutex_hand_over.lua', "            call('SET', name, following and "
      "head:sub(1, -2) .. '+' or head, 'PX', window)\n", ''),
     ('scripts/lua/fragments/mutex_hand_over.lua', "                call('ZREM', queue, head)\n",
      "                call('ZREM', queue, head)\n                call('SET', name, "
      "following and head:sub(1, -2) .. '+' or head, 'PX', window)\n")),
    ('refused: a head is told that may not leave the queue',
     ('scripts/lua/fragments/mutex_hand_over.lua', "call('ZREM', queue, '')", '')),
    ('refused: a reader is told that may not leave the queue',
     ('scripts/lua/fragments/rw.lua', "redis.call('ZREM', queue, '')", '')),
    ('refused: a hold is removed before its count',
     ('scripts/lua/fragments/rw.lua', "    write('HSET', set)\n    write('HDEL', removed)\n",
      "    write('HDEL', removed)\n    write('HSET', set)\n")),
    ('refused: a queue that has no TTL stays',
     ('scripts/lua/fragments/join.lua', 'if left == -2 then', 'if left == 0 then')),
    ("refused: a mutex' queue that has no TTL stays",
     ('scripts/lua/mutex_acquire.lua', "marked.ok and pcall('PEXPIRE', queue, '120000') == 0",
      'marked.ok')),
    ('refused: a read-write lock that has no TTL stays',
     ('scripts/lua/rw_acquire.lua', "call('SET', name, '', 'PX', lease)", '')),
    ('refused: a counter that has no TTL stays',
     ('scripts/lua/fragments/draw_fence.lua', 'if created then', 'if false then')),
    ("refused: a lock of Redisson's that has no TTL stays",
     ('scripts/lua/redisson_acquire.lua', "redis.call('SET', name, '', 'PX', ARGV[2])", '')),
]
LEASES = 'test/integration/scripts/scripts_rw_leases'
LEASES_MUTATIONS = [
    ('refused: a wrong count stays',
     ('scripts/lua/fragments/rw.lua', 'lock.rcount, lock.readers, lock.wcount = rcount, #owners, wcount',
      'lock.wcount = wcount')),
]

LOOP_UNIT = 'test/unit/unit_loop'
LOOP_UNIT_MUTATIONS = [
    ('a forked child reads what is its parent\'s',
     ('src/loop', '    if (!lw__process_is_child(&loop->process)) {\n        return false;',
      '    if (loop != NULL) {\n        return false;')),
    ('a forked child deletes its parent\'s events from the set that they share',
     ('src/loop', 'return !loop->own_set && lw__process_is_child(&loop->process);', 'return false;')),
    ('a child with an epoll set of its own leaves its parent\'s files in it',
     ('src/loop', '        loop->own_set = true;\n', '')),
    ('the time of an event is kept after it',
     ('src/loop/loop.c', '    loop->now_us = 0;\n    if (loop->freed) {', '    if (loop->freed) {')),
    ('the next reply of a read has the time from before the host\'s log function',
     ('src/loop/loop.c', 'loop->now_us = loop->entered_us = 0;', 'loop->now_us = 0;')),
    ('in a child that a deferred call made the rest of the turn goes on',
     ('src/loop', 'loop->freed || lw__process_is_child(&loop->process)', 'loop->freed')),
]
TURNS_MUTATIONS = [
    ('callbacks that take long hold up the host\'s other events',
     ('src/lock/deliver.c', ' || now_us - begun_us > PER_CALL_US', '')),
]
FORKED_UNIT = 'test/unit/unit_forked'
FORKED_UNIT_MUTATIONS = [
    ('an emulator that ignores advice is believed',
     ('src/base', 'madvise(page, size, -1) != 0 && ', '')),
]
# Reports of causes of failures, each with the only program that shows it.
ATTEMPTS_UNIT = 'test/unit/unit_attempts'
ATTEMPTS_UNIT_MUTATIONS = [
    ('of several addresses the last failure is told',
     ('src/redis', 'stage < f->stage ||', 'false ||')),
    ('one that refuses is told rather than one that may serve later',
     ('src/redis', 'f->status == LW_ECONN);', 'false);')),
    ('a proxy that closes the connection at a command is a server that closes it',
     ('src/redis', 's->state == LW__SESSION_HANDSHAKING && step != NULL &&\n               lw__link_has_ended(s->link)', 'false')),
    ('no more descriptors is no connection',
     ('src/redis', 'return is_exhausted(why) ? LW_ESYSTEM : LW_ECONN;',
      'return LW_ECONN;')),
]
CLASSIFY_UNIT = 'test/unit/unit_classify'
CLASSIFY_UNIT_MUTATIONS = [
    ('a script whose command met CLUSTERDOWN is refused for good',
     ('src/redis', 'strstr(error, IS_DOWN) != NULL;', 'false;')),
    ('what a script did before its error counts as undone',
     ('src/redis', 'strstr(error, "user_script") != NULL ? is_undone_script(error)',
      'strstr(error, "user_script") == error ? is_undone_script(error)')),
    ('a script whose first write was refused may have written',
     ('src/redis', 'begins_with(own_words, "NOREPLICAS") || ', '')),
    ('a server without memory refuses for good',
     ('src/redis', 'class == LW__ERR_LINK || class == LW__ERR_TRANSIENT ||',
      'class == LW__ERR_LINK ||')),
]
ESCAPE_UNIT = 'test/unit/unit_escape'
ESCAPE_UNIT_MUTATIONS = [
    ('a failure that repeats is logged each time',
     ('src/base', 'if (!fresh && now_us - cause->logged_us < MINUTE_US) {',
      'if (!fresh && now_us < 0) {')),
]
REPORT_UNIT = 'test/unit/unit_report'
REPORT_UNIT_MUTATIONS = [
    ('a wait that ends was busy, whatever the cause',
     ('src/tool', 'return code_of(by_cause ? cause : status, busy);',
      'return code_of(status, busy);')),
    ('a server that cannot do it now has no connection',
     ('src/tool', '    if (state != NULL) {\n        return state;\n    }\n', '')),
    ('a state is not found behind the step at which it was reported',
     ('src/tool', 'text += strncmp(text, ": ", 2) == 0 ? 2 : 0;',
      'text += strncmp(text, ": ", 2) == 0 ? 1 : 0;')),
]
WINDOW_UNIT = 'test/unit/unit_machine_window'
RELEASE_UNIT = 'test/unit/unit_machine_release'
RELEASE_UNIT_MUTATIONS = [
    ('a release whose attempts were all answered has an unknown outcome',
     ('src/hold', ': m->unconfirmed || in_flight ? LW_EUNKNOWN', ': m->ticket < 0 ? LW_EUNKNOWN')),
    ('a release without a reply counts as one that was answered',
     ('src/hold', ': m->unconfirmed || in_flight ? LW_EUNKNOWN', ': in_flight ? LW_EUNKNOWN')),
    ('a detach whose time has expired tells what else its owner holds',
     ('src/hold', 'in->released.holds_left > 0 && !m->detaches) {',
      'in->released.holds_left > 0) {')),
    ('what the guard does not allow now is refused for good',
     ('src/hold', ': in->unknown.for_now ? LW_ECONN', ': in->now_us < 0 ? LW_ECONN')),
]
WINDOW_UNIT_MUTATIONS = [
    ('who has no place in the queue looks every ten seconds',
     ('src/hold', 'position < 0 ? LONGEST_POLL : ', '')),
]
REFUSED = 'test/integration/server/server_denied'
REFUSED_MUTATIONS = [
    ('a release that is refused has an unknown outcome',
     ('src/hold', 'return finish_release(m, m->unconfirmed        ? LW_EUNKNOWN',
      'return finish_release(m, !m->detaches        ? LW_EUNKNOWN')),
    ('a mutex that may not be read is not ours',
     ('scripts/lua/mutex_release.lua',
      "if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ("Redisson's hash that may not be read is not ours",
     ('scripts/lua/redisson_release.lua',
      "if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ("Redisson's hash that may not be read is not renewed",
     ('scripts/lua/redisson_renew.lua',
      "if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ('a refused renewal is not told',
     ('src/hold', '        report_error(batch_of(command), error);\n', '')),
    ('nobody tells that publishing is not permitted',
     ('src/redis', '    try_to_publish(node);\n', '    (void)try_to_publish;\n')),
    ('nobody tells that messages do not come',
     ('src/redis', '!was_confirmed && !node->listener.forbidden', '!was_confirmed && why == NULL && !node->listener.forbidden')),
]
SCRIPT_FAULTS = 'test/integration/scripts/scripts_faults'
SCRIPT_FAULTS_MUTATIONS = [
    ('a mutex that may not be read is not ours, without a look at the queue',
     ('scripts/lua/mutex_release_fast.lua',
      "if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ('the first waiter of a mutex joins without memory, and without the queue mark',
     ('scripts/lua/mutex_acquire.lua', 'if marked and marked.ok', 'if marked')),
]
RELEASES = 'test/integration/mutex/releases'
RELEASES_MUTATIONS = [
    ('who waits behind a release of its own client loses its place',
     ('src/hold', 'input.not_granted.ticket = answer.ticket;', ';')),
]
UNDONE = 'test/integration/server/server_errors'
UNDONE_MUTATIONS = [
    ('what was turned down is given back',
     ('src/redis', 'lw__classify_undone(r->str);', 'false;')),
    ('what was never answered is busy',
     ('src/lock', '(lock->once || is_unanswered(lock->claim));',
      '(lock->once || (is_unanswered(lock->claim) && false));')),
]

MAP_UNIT = 'test/unit/unit_cluster_map'
MAP_UNIT_MUTATIONS = [
    ('map: that of a node that takes the cluster for down is good',
     ('src/redis', 'if (!foreign && !map->info.down && map->whole && ',
      'if (!foreign && map->whole && ')),
    ('map: one with gaps is good',
     ('src/redis', '!map->info.down && map->whole && ', '!map->info.down && ')),
    ('map: one of an earlier epoch is good',
     ('src/redis', ' && !is_older(survey, map)) {', ' && (is_older(survey, map) || true)) {')),
    ('map: the latest epoch is better than a node that serves',
     ('src/redis', 'if (a->info.down != b->info.down) {', 'if (false) {')),
    ("map: another cluster's is believed",
     ('src/redis', 'bool foreign = is_foreign(survey, map);',
      'bool foreign = is_foreign(survey, map) && false;')),
    ('map: any seed is believed',
     ('src/redis', 'if (2 * votes > count_seeds(survey) &&', 'if (votes > 0 &&')),
    ('map: seeds are not believed for ever',
     ('src/redis', 'map = agreed(survey);', '(void)agreed;')),
    ('map: the first node is asked first by all',
     ('src/redis', 'for (size_t i = *count; i > first + 1; i--) {',
      'for (size_t i = *count; i > first + 1 && false; i--) {')),
    ('map: the last place has no time',
     ('src/redis', '#define LAST_US (1000 * (int64_t)LW__MS)', '#define LAST_US 0')),
    ('map: any node at an address is the one that was there',
     ('src/redis', "*s->node_id == '\\0' || strcmp(expected, s->node_id) == 0",
      "s->node_id != NULL || strcmp(expected, s->node_id) == 0")),
    ('map: two ids at one place are insisted on',
     ('src/redis', '            entry->shared = true;\n', '')),
    ('map: doubt does not end',
     ('src/redis', 'node->deprioritized = false;', '(void)node;')),
    ('map: it is not refreshed',
     ('src/redis', 'ask_by(cluster, lw__now_us() + REFRESH_US);', '')),
    ('map: a cluster that stays down is asked each second',
     ('src/redis', '#define PAUSE_PART 8', '#define PAUSE_PART 1000000')),
    ('map: of the nodes that are asked last, the order is not that of the table',
     ('src/redis', 'return (*one > *other) - (*one < *other);',
      'return (*one < *other) - (*one > *other);')),
]

# MAP_UNIT again, and one more program; each mutation with the test that shows it.
MAP_TEST_MUTATIONS = [
    ('test_a_node_lost_during*', ('map: a second master that is lost is asked about late',
     ('src/redis', 'if (listed && was_up) {', 'if (listed && was_up && false) {'))),
    ('test_an_unsettled_node*', ('map: a second master without its slots is asked about late',
     ('src/redis', 'if (before_us == 0 || ', 'if (before_us < 0 && '))),
    ('test_a_node_lost_during*', ('map: each failed attempt is a new failure',
     ('src/redis', '    return was_up;', '    return was_up || true;'))),
    ('test_an_earlier_epoch_of_a*', ('map: an earlier one of a node that is down is believed',
     ('src/redis', 'if (best != NULL && is_outdated(survey, best)) {',
      'if (best != NULL && is_outdated(survey, best) && false) {'))),
    ('test_a_map_with_gaps_in_use_is_kept*', ('map: one with gaps needs a majority for ever',
     ('src/redis', '!lw__cluster_parse_share_node(&map->nodes, &survey->in_use_with_gaps)', 'true'))),
    ('test_seeds_that_do_not*', ('map: seeds that do not answer have no vote',
     ('src/redis', '2 * votes > count_seeds(survey)',
      '2 * votes > (count_seeds(survey), survey->foreign_count)'))),
    ('test_a_first_seed_that_stands*', ('map: that of one seed with gaps is the first one',
     ('src/redis', '} else if (is_doubtful(survey, map)) {',
      '} else if (is_doubtful(survey, map) && false) {'))),
    ('test_two_names_of_one_seed_are*', ('map: a seed that is listed twice counts twice',
     ('src/redis', 'count += before == i;', 'count += before <= i;'))),
    ('test_two_names_of_one_seed_have*', ('map: two names of one seed have two votes',
     ('src/redis', 'if (is_seed(survey, &map->by) && is_counted(survey, map)) {',
      'if (is_seed(survey, &map->by) && is_counted(survey, map) && false) {'))),
    ('test_a_node_that_stands*', ('map: one with gaps decides which cluster it is',
     ('src/redis', 'survey->in_use.count == 0 && !survey->good\n', 'false\n'))),
]
REDIRECT_UNIT = 'test/unit/unit_cluster_redirect'
REDIRECT_UNIT_MUTATIONS = [
    ('test_moved_without*', ('redirects without an end are not logged',
     ('src/redis', 'lw__log_cause(cluster->options.node.config.log, lw__now_us(), '
      'LOG_WARNING,\n                  "commands', 'lw__log_cause(&(struct lw__log){NULL}, '
      'lw__now_us(), LOG_WARNING,\n                  "commands'))),
    ('test_a_place_that*', ('a place that is not told is not logged',
     ('src/redis', 'lw__log_cause(cluster->options.node.config.log, lw__now_us(), '
      'LOG_WARNING,\n                      "a redirect', 'lw__log_cause(&(struct lw__log){NULL}, '
      'lw__now_us(), LOG_WARNING,\n                      "a redirect'))),
]

# Several names at once; each with the test that shows it.
ALL_TEST = 'test/integration/api/acquire_all'
ALL_MUTATIONS = [
    ('opposite_orders*', ('several names are acquired in the order of the caller',
     ('src/lock', 'if (order < 0) {', 'if (order != 0) {'))),
    ('a_waiting_call*', ('who waits for a name keeps the larger ones',
     ('src/lock', 'for (size_t i = first + 1; i < all->count; i++) {',
      'for (size_t i = all->count; i < all->count; i++) {'))),
    ('two_names_lost*', ('several names are lost twice',
     ('src/lock', 'all->stage = LOST;', ''))),
    ('a_name_lost_while*', ('a loss of several names comes before their grant',
     ('src/lock', 'all->stage == CLIMBING && left', 'all->stage == RELEASING && left'),
     ('src/lock', '} else if (all->stage == HELD) {', '} else {'))),
    ('starting_again*', ('several names lost while they are waited for may wait anew',
     ('src/lock', 'status = left_ms(all) != 0', 'all->give_up_us += 2500 * LW__MS;\n'
      '    status = left_ms(all) != 0'))),
    ('the_remaining_time*', ('several names are held until the latest deadline',
     ('src/lock', 'least = left < least ? left : least;',
      'least = i == 0 || left > least ? left : least;'))),
    ('a_release_reports*', ('several names are released when the first one is',
     ('src/lock', 'if (--all->pending > 0) {', 'if (--all->pending + 1 < all->count) {'))),
    ('wait_ms_also*', ('the first round of several names is not limited by wait_ms',
     ('src/lock', 'lw__handle_limit_try(member->lock, all->give_up_us);', ';'))),
    ('the_others_are_kept*', ('the other names are released before the margin has passed',
     ('src/lock', '(int64_t)all->options.margin_ms + 1', '1'))),
    ('a_warning_before*', ('a warning of one of several names is lost before their grant',
     ('src/lock', 'lw__handle_repeat_risk(all->members[i].lock);', ';'))),
    ('a_release_reports*', ('a release of several names does not show which one was lost',
     ('src/lock', 'lw__handle_set_error(lock, status, why);', ';'))),
]

ALL_SILENT_MUTATIONS = [
    ('a silent server holds up the other names beyond the margin',
     ('src/lock', 'if (claim == NULL || lock->later == LW__LATER_IN_TIME) {', 'if (claim == NULL) {')),
]
ALL_FORKED_MUTATIONS = [
    ('several names that wait are not known to be closed in a forked child',
     ('src/lock', '(lw_lock_client(lock) == NULL || lw_lock_error(lock) == LW_ECLOSED)) {',
      'lw_lock_client(lock) == NULL) {')),
]

# The guard at real servers: when a server is closed; each with the tests that show it.
GUARD = 'test/integration/server/guard'
GUARD_MUTATIONS = [
    ('a_promotion_closes*', ('guard: the identity does not show promotions',
     ('src/redis', 'session->former_replication_id, session->former_offset);\n'
      '    lw__encode_guard(',
      '"0000000000000000000000000000000000000000", "-1");\n    lw__encode_guard('))),
    ('a_lease_that_ends*', ('guard: a lease is extended that an old master sees end',
     ('src/redis', 'return (node->guard_goes_on && deadline_us >= node->old_master_until_us) ||',
      'return true ||'))),
    ('nor_by_a_detach', ('guard: a detach extends a lease that an old master sees end',
     ('src/hold', 'if (actions & LW__SEND_RELEASE && !may_detach(claim)) {',
      'if (actions & LW__SEND_RELEASE && !may_detach(claim) && node == NULL) {'))),
    ('nor_by_a_detach', ('guard: detached locks last as long as without it',
     ('src/lock', 'keep_ms < 0 || keep_ms > lw__options_lease_max(lock->client)', 'keep_ms < 0'))),
    ('a_lack_of_replicas*', ('guard: heartbeats alone repeat a question that was refused',
     ('src/redis', 'if (node->guard != LW__GUARD_CLOSED || left_us == 1) {',
      'if (node->guard == LW__GUARD_CLOSED && left_us == 1) {'))),
    ('a_promotion_closes*', ('guard: a new connection goes on as the former one',
     ('src/redis', '    node->guard_goes_on = node->guard_record_lost = false;\n', ''))),
    ('a_promotion_that*', ('guard: a connection never goes on',
     ('src/redis', '    node->guard_goes_on = true;\n', ''))),
    ('a_hold_is_renewed_when*', ('guard: holds are not renewed when the server is known',
     ('src/lock', '    lw__retry_all(&client->holds, node, true);\n}',
      '    lw__retry_all(&client->holds, node, false);\n}'))),
]
# The same while a server is closed.
GUARD_CLOSED = 'test/integration/server/guard_closed'
GUARD_CLOSED_MUTATIONS = [
    ('a_mutex_is_released*', ('guard: no gate',
     ('src/hold', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if ((fault = lw__node_guard_fault(node)) != NULL && claim == NULL) {'))),
    ('a_mutex_is_released*', ('guard: an open gate stays open on the next connection',
     ('src/redis', '    lw__timer_cancel(node->options.config.loop, &node->guard_timer);\n'
      '    if (is_asked(node)) {',
      '    lw__timer_cancel(node->options.config.loop, &node->guard_timer);\n'
      '    if (is_asked(node) && node->guard != LW__GUARD_OPEN) {'),
     ('src/redis', '    if (!is_asked(node)) {\n        return;\n    }\n'
      '    node->guard = LW__GUARD_ASKED;',
      '    if (!is_asked(node) || node->guard == LW__GUARD_OPEN) {\n        return;\n    }\n'
      '    node->guard = LW__GUARD_ASKED;'))),
    ('a_mutex_is_released*', ('guard: releases hand over while it is closed',
     ('src/redis', '!o->clustered && lw__node_guard_left_us(node) > 0',
      '!o->clustered && lw__node_guard_left_us(node) < 0'))),
    ('a_claim_that_repeats*', ('guard: a token that was sent before passes',
     ('src/hold', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if (!claim->token_sent && (fault = lw__node_guard_fault(node)) != NULL) {'))),
    # Each of the two checks covers for the other: the server that the clock pair belongs to was not
    # closed.
    ('a_hand_over_is_believed*', ('guard: a message is believed while it is closed',
     ('src/hold', 'lw__node_guard_left_us(claim->name->node) == 0',
      'lw__node_guard_left_us(claim->name->node) >= 0'),
     ('src/hold', 'claim->asking.connection == connection', 'true'))),
    ('a_try_waits*', ('guard: a connection is up before it is known',
     ('src/redis', 'if (node->up || !node->seeded || !lw__node_guard_is_known(node)) {',
      'if (node->up || !node->seeded) {'))),
    ('waiters_are_served*', ('guard: nobody is told of the opening',
     ('src/redis', '        node->events->guard_changed(node->arg, node);', '        ;'))),
    ('the_fence_counter*', ('guard: the fence counter is as it was at the connection',
     ('src/redis', '    if (node->guard == LW__GUARD_CLOSED) {\n        lw__node_seed_fence',
      '    if (node->guard == LW__GUARD_OFF) {\n        lw__node_seed_fence'))),
    ('heartbeats_keep*', ('guard: the record expires',
     ('src/redis', 'if (is_asked(node) && node->up) {', 'if (!is_asked(node)) {'))),
    ('a_token_is_adopted*', ('guard: an adoption passes a closed gate',
     ('src/hold', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if (claim->extras->adopts == NULL &&\n'
      '               (fault = lw__node_guard_fault(node)) != NULL) {'))),
    ('leases_are_bounded*', ('guard: leases are as long as without it',
     ('src/lock', '(int64_t)o->lease_ms > lease_max', '(o->lease_ms == 0)'))),
    ('leases_are_bounded*', ('guard: renewals are as long as without it',
     ('src/lock', 'lease_ms > lw__options_lease_max(lock->client) ||', 'lease_ms > INT32_MAX ||'))),
]
# The same when a server is exchanged, or its record.
GUARD_RECORD = 'test/integration/server/guard_record'
GUARD_RECORD_MUTATIONS = [
    ('a_wait_on_one*',
     ('guard: a reply shortens the wait of its connection',
      ('src/redis', 'if (waits && opens_us <= node->guard_opens_us) {', 'if (waits && false) {'))),
    ('an_empty_server*', ('guard: an empty server is open',
     ('scripts/lua/guard.lua', '    from = latest\n', '    from = now\n'))),
    ('a_longer_guard_time_replaces*', ('guard: a wait ends without a question',
     ('src/redis', '    ask_again(arg);', '    open_gate(arg);'))),
    ('a_deleted_record*', ('guard: a lost record is like a promotion for renewals',
     ('src/redis', '    if (!node->guard_goes_on) {\n        note_old_master',
      '    if (wait_ms > 0) {\n        note_old_master'))),
    ('an_open_gate*', ('guard: a heartbeat that is refused closes the gate',
     ('src/redis', '} else if (node->guard == LW__GUARD_OPEN) {', '} else if (why == NULL) {'))),
    ('a_client_without_a_guard_is_refused*', ('guard: a client without one is granted locks',
     ('src/redis', 'stay_closed(node, LOG_NOTICE, LW__ERR_REFUSED, why);',
      'set_state(node, LW__GUARD_OPEN);'))),
    ('a_client_without_a_guard_is_refused*', ('guard: the record of another process shows its wait',
     ('src/redis', 'if (!is_its_own || left_us > whole_us) {', 'if (left_us > whole_us) {'))),
    ('a_client_without_a_guard_learns*', ('guard: a client without one reads the record once',
     ('src/redis', 'if (is_asked(node) && node->up) {',
      'if (lw__node_uses_guard(node) && node->up) {'))),
    ('a_guard_is_ignored*', ('guard: it is used where the caller wants none',
     ('src/redis', 'return node->options.guard_ms != LW_GUARD_NONE && ', 'return '))),
    ('a_record_that_may_not*', ('guard: a record that may not be read refuses',
     ('src/redis', 'if (lw__classify(why) == LW__ERR_TRANSIENT) {',
      'if (lw__classify(why) != LW__ERR_LINK) {'))),
]
# max_waiting, at a real server; each with the tests that show it.
LIMIT = 'test/integration/api/max_waiting'
LIMIT_MUTATIONS = [
    ('refuses_beyond*', ('limit: one more may wait',
     ('scripts/lua/fragments/join.lua', "(pcall_type('ZCARD', queue) or 0) >= limit",
      "(pcall_type('ZCARD', queue) or 0) > limit"))),
    ('refuses_beyond*_mutex', ('limit: a mutex has none',
     ('scripts/lua/fragments/mutex.lua', 'local full = is_full(token, most)', 'local full = false'))),
    ('refuses_beyond*_shared', ('limit: a read-write lock has none',
     ('scripts/lua/rw_acquire.lua', 'full = not is_holder(owner) and is_full(member, limit)',
      'full = false'))),
    ('a_foreign_key*', ('limit: a read-write lock has none behind a foreign key',
     ('scripts/lua/rw_acquire.lua', '        full = is_full(member, limit)\n        if',
      '        full = false\n        if'))),
    ('refuses_beyond*_mutex', ('limit: a full queue counts as a refusal like any other',
     ('src/lock', 'claim->full && claim->machine.phase != LW__ACQUIRING',
      'claim->full && claim->machine.phase == LW__IDLE'))),
    ('local_waiters_count*', ('limit: waiters behind a hold of the client do not count',
     ('src/lock', 'count += waiters - (waiters > 0 && lw__machine_asks(claim->machine.phase));',
      'count += waiters > 0 && lw__machine_asks(claim->machine.phase) ? waiters - 1 : 0;'))),
    ('local_waiters_behind*', ('limit: one token counts for all',
     ('src/lock', 'lock->queue_limit -= tokenless;', '(void)tokenless;'))),
    ('a_limit_of_others*', ('limit: a handle with a limit shares a claim',
     ('src/lock', 'lock->mode->mutex && !lock->limited &&',
      'lock->mode->mutex &&'))),
    ('requests_before*', ('limit: it is sent only once',
     ('src/hold', '.max_waiting = terms.queue_limit,',
      '.max_waiting = claim->sent_limit ? 0 : terms.queue_limit,'))),
    ('a_waiter_that_rejoins*', ('limit: a waiter that had a place sends it again',
     ('src/lock', '    if (claim->asking.place > 0) {\n        lock->queue_limit = 0;\n    } else if',
      '    if'))),
    ('a_request_whose_reply*', ('limit: a member counts itself',
     ('scripts/lua/fragments/join.lua', "\n        and not pcall_type('ZSCORE', queue, member)", ''))),
    ('an_expired_lock*', ('limit: waiters are counted before they are served',
     ('scripts/lua/fragments/mutex.lua', 'if most and value == false then', 'if most and value == nil then'))),
]
RW_SCRIPT = 'test/integration/scripts/scripts_rw'
RW_SCRIPT_MUTATIONS = [
    ('an_owner_that_is_let_in*', ('limit: an owner that was let in meanwhile is refused',
     ('scripts/lua/rw_acquire.lua', 'full = not is_holder(owner) and is_full(member, limit)',
      'full = is_full(member, limit)'))),
]
GUARD_SCRIPT = 'test/integration/scripts/scripts_guard'
GUARD_SCRIPT_MUTATIONS = [
    ('guard: a record with a time that no client has is believed',
     ('scripts/lua/guard.lua', 'given < 1 or given > 2147483647', 'given < 0')),
    ('guard: half of the time',
     ('scripts/lua/guard.lua', 'now + guard * 1000', 'now + guard * 500')),
    ('guard: another identity does not begin a wait',
     ('scripts/lua/guard.lua', 'if not same_server or given', 'if not of or given')),
    ('guard: clients with another time wait and open it',
     ('scripts/lua/guard.lua', 'if of and given ~= guard and (given', 'if of and not guard and (given')),
    ('guard: a shorter time replaces a longer one',
     ('scripts/lua/guard.lua', '(given > guard or from <= now)', '(from <= now)')),
    ('guard: a longer time replaces one under which locks were granted',
     ('scripts/lua/guard.lua', '(given > guard or from <= now)', '(given > guard)')),
    ('guard: a longer time never replaces another',
     ('scripts/lua/guard.lua', ' and (given > guard or from <= now)', '')),
    ('guard: a longer time keeps the wait of the one that it replaces',
     ('scripts/lua/guard.lua', 'if not same_server or given ~= guard then', 'if not same_server then')),
    ('guard: other clients use an unknown time',
     ('scripts/lua/guard.lua', 'return -given', 'return -1')),
    ('guard: any process is the same server on a connection that goes on',
     ('scripts/lua/guard.lua', "if of and of:match('^[^:]*') == identity:match('^[^:]*') then",
      'if of then')),
    ('guard: a connection that goes on begins a wait',
     ('scripts/lua/guard.lua', 'same_server or goes_on or identity', 'same_server or identity')),
    ('guard: a promotion that is forgotten begins a wait',
     ('scripts/lua/guard.lua', "goes_on or identity:find('^[^:]*:0+:') ~= nil", 'goes_on')),
    ('guard: a promotion begins no wait',
     ('scripts/lua/guard.lua', "identity:find('^[^:]*:0+:') ~= nil", 'true')),
    ('guard: a clock that is set back prolongs the wait',
     ('scripts/lua/guard.lua', 'from = math.min(from, latest)\n', '')),
    ('guard: the record expires while it is used',
     ('scripts/lua/guard.lua', "'PX', 86400000)", "of and 'KEEPTTL' or 'PX', not of and 86400000 or nil)")),
    ('guard: each call begins a wait',
     ('scripts/lua/guard.lua', 'local same_server = of == identity', 'local same_server = false')),
    ('guard: a closed mutex is handed over',
     ('scripts/lua/mutex_release.lua', "if numbers == '- ' then", "if numbers == '' then"),
     ('scripts/lua/fragments/mutex_hand_over.lua', 'local outcome, behind, call, pcall =',
      "numbers = numbers == '- ' and '%d 5e12fe12' or numbers\nlocal outcome, behind, call, pcall =")),
    ('guard: a closed read-write lock lets in its waiters',
     ('scripts/lua/fragments/rw.lua', "    if numbers == '- ' then -- the guard: no lock is granted\n"
      "        return nil, 0\n", "    if numbers == '- ' then\n        numbers = '%d 5e12fe12'\n")),
]
# A master that is replaced without its last writes.
GUARD_FAULT = 'test/fault/fault_guard'
GUARD_FAULT_MUTATIONS = [
    ('guard: no gate at a new master',
     ('src/hold', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if ((fault = lw__node_guard_fault(node)) != NULL && claim == NULL) {')),
    ('guard: half of the time at a new master',
     ('scripts/lua/guard.lua', 'now + guard * 1000', 'now + guard * 500')),
]
RAISE_SCRIPT = 'test/integration/scripts/scripts_raise'
RAISE_SCRIPT_MUTATIONS = [
    ('a raised counter counts without the token',
     ('scripts/lua/fence_raise.lua', "return (value == token or value == token:sub(1, -2) .. '+') and 1 or 0",
      'return 1')),
    ('a counter is set back',
     ('scripts/lua/fence_raise.lua', 'math.max(math.floor(last), tonumber(ARGV[1]))', 'tonumber(ARGV[1])')),
    ('a raised counter does not know the queue mark',
     ('scripts/lua/fence_raise.lua', "(value == token or value == token:sub(1, -2) .. '+')",
      '(value == token)')),
]
MEMBERS = 'test/integration/quorum/quorum_members'
MEMBERS_MUTATIONS = [
    ('a_request_before*', ('yield: a request before the vote is known is ignored',
     ('src/quorum/ask.c', '    if (lw__claim_message_kept(claim)) {\n'
      '        lw__claim_message_yield(vote->votes->claim);\n    }\n', ''))),
    ('one_server*', ('one server has two votes',
     ('src/quorum', 'strcmp(lw__node_server(lw__member_node(other)), server) == 0', 'member == NULL'))),
    ('replicas*', ('a master with replicas has a vote',
     ('src/quorum', 'lw__node_replicas(node) > 0', 'lw__node_replicas(node) > 100'))),
    ('a_node*', ("a cluster's node has a vote",
     ('src/quorum', 'if (lw__node_is_clustered(node)) {\n        (void)snprintf(why',
      'if (member == NULL) {\n        (void)snprintf(why'))),
]
QUORUM_FAULTS = 'test/integration/quorum/quorum_faults'
QUORUM_FAULTS_MUTATIONS = [
    ('a_vote_that_is*', ('the release of a vote that is not known yet is not waited for',
     ('src/quorum', '    vote->released = LW__PENDING;\n    lw__quorum_fence_forget(vote);\n    leave(vote->claim);',
      '    vote->released = LW__PENDING;\n    if (vote->held) {\n        leave(vote->claim);\n    } else {\n'
      '        lw__quorum_ask_drop(vote);\n    }'))),
    ('a_vote_that_fails*', ('a vote that forgets its claim stays open in a release',
     ('src/quorum', '    if (vote->released == LW__PENDING) {\n        vote->released = LW_EUNKNOWN;\n    }\n', ''))),
    ('a_vote_that_was*', ('a server that was never asked may have a vote',
     ('src/quorum', 'claim->machine.maybe_in_redis ? LW_EUNKNOWN : LW_ENOTHELD', 'LW_EUNKNOWN'))),
    ('a_lock_that_is_broken*',
     ('a holder requests a vote that was broken again at once',
      ('src/quorum', 'lw__now_us() + vote->votes->wanted.lease_us / BREAK_PART;', 'lw__now_us();'))),
    ('a_release_that_a_majority*',
     ('votes whose release failed are called held',
      ('src/quorum', 'if (!lw__machine_releases(vote->votes->claim->machine.phase)) {', 'if (true) {'))),
    ('a_release_that_a_majority*',
     ('a release that no majority can execute has an unknown outcome',
      ('src/quorum', 'count->without + count->unknown >= majority', 'count->without <= majority'))),
]
RELEASED_MUTATIONS = [
    ('a_release_that_was*',
     ('an attempt in flight makes the outcome of a refused release unknown',
      ('src/lock', 'lw__claim_release_status(claim) == LW_ECONN &&',
       'lw__claim_release_status(claim) == LW_OK &&'))),
    ('NOREPLICAS_ends_a_renewal*',
     ('lw_renew is refused for good by a server without replicas',
      ('src/lock', 'lw__notify_renewed(call, lw__classify_status(error));',
       'lw__notify_renewed(call, LW_EREDIS);'))),
]
QUORUM_LOCKS = 'test/integration/quorum/quorum_locks'
QUORUM_LOCKS_MUTATIONS = [
    ('*overtaken', ('the last request tells the time, however slow it was',
     ('src/quorum', 'latest->server_us - latest->sent_us < best->server_us - best->sent_us', 'true'))),
    ('tokens_of*', ('claims with the same ticket are in any order',
     ('src/quorum', '    memcpy(holds->uuid, client->holds.uuid, sizeof(holds->uuid));', '    (void)lw__random_uuid(holds->uuid);'))),
]
EDGES = 'test/integration/quorum/quorum_edges'
EDGES_MUTATIONS = [
    ('a_shorter*', ("a shorter lease of the next handle ends the votes that it takes over",
     ('src/quorum', 'if (holds || before.lease_us == votes->wanted.lease_us) {', 'if (!holds && before.lease_us == 0) {'))),
    ('a_vote*', ('a vote that cannot be renewed counts as renewed',
     ('src/quorum', '            vote->renewed = LW_ECONN;', '            vote->renewed = LW_OK;'))),
    ('a_hold*', ('votes that were lost extend a hold without renewal',
     ('src/quorum', '    vote->lapsed = true;', '    vote->lapsed = false;'))),
    ('a_minority*', ('a minority waits for the polls of the other servers',
     ('src/quorum', 'vote->busy && votes->yields > 0', 'vote->busy && votes->yields > 1000'))),
    ('two_minorities*', ('a vote is always requested again at once',
     ('src/quorum', 'if (votes->yields < YIELDS_MOST) {', 'if (votes->yields < 1000 * YIELDS_MOST) {'))),
]
EXPLAIN_UNIT_MUTATIONS = [
    ('a missing command is reported in the words of the server',
     ('src/redis', '    if (length > 0) {\n        (void)snprintf(ret, LW_WHY_SIZE, "unknown',
      '    if (length > 1000) {\n        (void)snprintf(ret, LW_WHY_SIZE, "unknown')),
    ('the place in a script is shown to users',
     ('src/redis', '(size_t)(end - error) : strlen(error);', 'strlen(error) : strlen(error);')),
    ('the place in a script is shown to users of Redis 6.2',
     ('src/redis', 'const char *text = lw__classify_skip_place(error);', 'const char *text = error;')),
    ('a command is recognized by its beginning',
     ('src/redis', 'return length == strlen(command) && strncasecmp(name, command, length) == 0;',
      'return strncasecmp(name, command, strlen(command)) == 0;')),
]
STRANGERS = 'test/integration/mutex/waiting_strangers'
STRANGERS_MUTATIONS = [
    ('a key without a TTL is a lock like any other',
     ('src/hold', '} else if (answer->remaining_ms == -1) {',
      '} else if (answer->remaining_ms < -1000) {')),
]
LACKING = 'test/integration/server/lacking'
LACKING_MUTATIONS = [
    ('a command that the server does not know is missing silently',
     ('src/redis/session.c', '(!denied && !lw__classify_unknown(error))', '!denied')),
    ('a command that is missing is in no statistic',
     ('src/redis/session.c', '    session->degraded |= degraded;\n', '    (void)degraded;\n')),
    ('a refused step of the handshake is in no statistic',
     ('src/redis/session.c', '    s->degraded |= s->config->of_sentinel ? 0 : degraded_by[kind];\n',
      '    (void)degraded_by;\n')),
    ('a refused SUBSCRIBE is in no statistic',
     ('src/redis/session.c', ': LW_DEGRADED_SUBSCRIBE;', ': 0;')),
    ('what a connection lacked is counted forever',
     ('src/redis/session.c', '    s->degraded = 0;\n', '')),
    ('a price is logged for operators alone',
     ('src/redis', 'price != NULL ? LOG_WARNING : LOG_INFO,\n                  "%s%s%s", why, price != NULL ? "; " : "", price != NULL ? price : "");',
      'LOG_INFO, "%s", why);\n    (void)price;')),
]
CLUSTER_ACCOUNT = 'test/integration/server/cluster_account'
CLUSTER_ACCOUNT_MUTATIONS = [
    ('a refused CLUSTER INFO is in no statistic',
     ('src/redis/cluster.c', '    query->survey->degraded = query->session.degraded;\n', '')),
    ('the nodes of a cluster are left out of what is missing',
     ('src/redis/cluster.c', ' |\n           lw__node_table_degraded(&cluster->table);', ';')),
    ('PUBSUB SHARDNUMSUB is missing silently',
     ('src/redis', '    if (sharded) {\n        lw__session_request(&node->commands, &node->shard_count',
      '    if (!sharded) {\n        lw__session_request(&node->commands, &node->shard_count')),
]
SENTINEL_ACCOUNT_MUTATIONS = [
    ('what a sentinel denies is in no statistic',
     ('src/redis/node.c', '(node->sentinels != NULL ? lw__sentinel_degraded(node->sentinels) : 0)', '0')),
    ('SENTINEL REPLICAS is missing silently',
     ('src/redis/sentinel.c', '    lw__session_note_missing(&sentinel->session, reply, LW_DEGRADED_SENTINEL, LOG_WARNING,\n'
      '                             "SENTINEL REPLICAS",\n'
      '                             "a new master is used before sentinels have its run id");\n', '')),
]
PROMOTION_UNIT = 'test/unit/unit_cluster_promotion'
PROMOTION_UNIT_MUTATIONS = [
    ('promotion: a refused ROLE is in no statistic',
     ('src/redis/promotion.c', '    replica->watch->degraded = replica->session.degraded;\n', '')),
    ("promotion: replicas of a dead master are not watched",
     ('src/redis/cluster.c', '    lw__promotion_note_map(&cluster->promotion, map);\n', '')),
    ('promotion: a silent master is in service',
     ('src/redis/node_table.c', '(is_up(entry) ? lw__node_is_silent(entry->node)',
      '(is_up(entry) ? false')),
    ('promotion: nothing notices that a node is silent',
     ('src/redis/cluster.c', 'masters.config.silence = &cluster->silence;',
      'masters.config.silence = NULL;')),
    ('promotion: the map is asked for elsewhere',
     ('src/redis/cluster.c', '    cluster->better = *replica;\n', '    (void)replica;\n')),
    ('promotion: no survey follows, so that of two replicas the first one wins',
     ('src/redis/cluster.c', '    ask(cluster);\n    cluster->hurried = true;\n',
      '    ask(cluster);\n')),
    ("promotion: a node of another cluster is asked",
     ('src/redis/promotion.c', 'replica->config.node_id = replica->node.id;',
      'replica->config.node_id = "";')),
    ('promotion: a denied question is repeated',
     ('src/redis/promotion.c', 'replica->denied = lw__reply_type(reply) == LW__REPLY_ERROR;',
      '')),
    ('promotion: each promotion is heard immediately',
     ('src/redis/promotion.c', '} else if (!replica->reported && now_us - replica->reported_us >= MOST_US) {',
      '} else if (!replica->reported) {')),
    ('promotion: the watch does not end',
     ('src/redis/promotion.c', 'if (!all && lw__node_table_is_out(watch->table, &replica->master)) {',
      'if (!all) {')),
]
REASONS_UNIT_MUTATIONS = [
    ('the reason of one server takes all the room',
     ('src/base', 'reasons->left > 1 ? rest / reasons->left : rest;', 'rest;')),
    ('of many servers each has a byte', ('src/base', 'share > LEAST ? share : LEAST;', 'share > 1 ? share : 1;')),
    ('a server that was not asked has no reason', ('src/base', '*why ? why : "not asked yet");', 'why);')),
]
QUORUM_REASONS_MUTATIONS = [
    ('a server that is connected, but not up, has no reason',
     ('src/redis', 'return node->commands.state == LW__SESSION_READY\n',
      'return node->commands.state == LW__SESSION_STOPPED\n')),
]
VOTED_UNIT_MUTATIONS = [
    ('votes are believed for longer than the lease',
     ('src/hold', 'in->voted.deadline_us < deadline ? in->voted.deadline_us', 'deadline != 0 ? in->voted.deadline_us')),
    ("the caller's ticket is not sent",
     ('src/hold', 'if (in->start.ticket > 0) {', 'if (in->start.ticket < 0) {')),
]

URL_UNIT_MUTATIONS = [
    ('a URL may have two guards',
     ('src/base/url.c', 'begun && url->guard_ms == 0 && take_name', 'begun && take_name')),
    ('a path may have two databases',
     ('src/base/url.c', 'url->path != NULL && url->db < 0 && take_name',
      'url->path != NULL && take_name')),
    ('the guard of a URL has no limits',
     ('src/base/url.c', 'ms >= LW__GUARD_LEAST_MS && ms <= LW__GUARD_MOST_MS', 'ms >= 0')),
    ('"none" is no guard of a URL',
     ('src/base/url.c', 'strcmp(text, "none") == 0', 'strcmp(text, "None") == 0')),
]

MERGE_GUARD_MUTATIONS = [
    ('the guard of a URL is not used',
     ('src/lock/options.c', '        o->guard_ms = url_ms;\n', '')),
    ('guard_ms wins over the URL',
     ('src/lock/options.c', 'else if (url_ms != 0 && url_ms != o->guard_ms) {',
      'else if (url_ms != 0 && o->guard_ms == 0) {')),
]

STANDBY_MUTATIONS = [
    ('a wait without a limit is no standby',
     ('src/lock/lock.c', 'lock->standby = options->wait_ms == -1;', 'lock->standby = false;')),
    ('every wait is a standby',
     ('src/lock/lock.c', 'lock->standby = options->wait_ms == -1;', 'lock->standby = true;')),
]

MUTATIONS = [ # lists.py explains the groups
    (RESTS_MUTATIONS, RESTS, ('a_release_leaves*',)),
    *(([mutation], WATCHES, (test,)) for test, mutation in WATCHES_MUTATIONS),
    (WATCHES_REFUSED_MUTATIONS, WATCHES, ('a_look_that_is_refused*',)),
    (WATCH_MESSAGES_MUTATIONS, WATCH_MESSAGES, ()),
    *(([mutation], YIELDS, (test,)) for test, mutation in YIELDS_MUTATIONS),
    (HOLDS_UNIT_MUTATIONS, HOLDS_UNIT, ()),
    (YIELD_ORDER_MUTATIONS, YIELD_ORDER, ()),
    (SHARDS_UNIT_MUTATIONS, SHARDS_UNIT, ()),
    *(([mutation], CLUSTER_YIELDS, (test,)) for test, mutation in CLUSTER_YIELDS_MUTATIONS),
    (STANDBY_MUTATIONS, 'test/integration/api/statistics', ('waits_without*',)),
    (URL_UNIT_MUTATIONS, 'test/unit/unit_url', ()),
    (MERGE_GUARD_MUTATIONS, 'test/integration/api/bad_client', ('client_guard',)),
    (RAISE_SCRIPT_MUTATIONS, RAISE_SCRIPT, ()),
    (VOTED_UNIT_MUTATIONS, 'test/unit/unit_machine', ()),
    (EXPLAIN_UNIT_MUTATIONS, 'test/unit/unit_explain', ()),
    (STRANGERS_MUTATIONS, STRANGERS, ('foreign_holder_without*',)),
    (LACKING_MUTATIONS, LACKING, ()),
    (CLUSTER_ACCOUNT_MUTATIONS, CLUSTER_ACCOUNT, ('what_a_node*',)),
    ([('what a server of a quorum lacks is in no statistic',
       ('src/quorum/quorum.c', '            stats->degraded |= lw__route_degraded(route);\n', ''))],
     'test/integration/quorum/quorum_statistics', ('links_count*',)),
    (SENTINEL_ACCOUNT_MUTATIONS, 'test/integration/server/sentinel', ('what_a_sentinel*',)),
    (PROMOTION_UNIT_MUTATIONS, PROMOTION_UNIT, ()),
    (REASONS_UNIT_MUTATIONS, 'test/unit/unit_reasons', ()),
    (QUORUM_REASONS_MUTATIONS, QUORUM_FAULTS, ('a_server_that_is_connected*',)),
    *(([mutation], MEMBERS, (test,)) for test, mutation in MEMBERS_MUTATIONS),
    *(([mutation], QUORUM_LOCKS, (test,)) for test, mutation in QUORUM_LOCKS_MUTATIONS),
    *(([mutation], EDGES, (test,)) for test, mutation in EDGES_MUTATIONS),
    *(([mutation], QUORUM_FAULTS, (test,)) for test, mutation in QUORUM_FAULTS_MUTATIONS),
    *(([mutation], ERRORS, (test,)) for test, mutation in RELEASED_MUTATIONS),
    (SENTINEL_UNIT_MUTATIONS, SENTINEL_UNIT, ()),
    (MASTER_ID_MUTATIONS, MASTER_ID_UNIT, ()),
    (SESSION_UNIT_MUTATIONS, 'test/unit/unit_session', ()),
    (CLAIMS_UNIT_MUTATIONS, CLAIMS_UNIT, ()),
    (BREAKS_MUTATIONS, BREAKS, ()),
    (ERRORS_MUTATIONS, ERRORS, ()),
    (DENIED_MUTATIONS, DENIED, ()),
    (LEASES_MUTATIONS, LEASES, ()),
    (LOOP_UNIT_MUTATIONS, LOOP_UNIT, ()),
    (FORKED_UNIT_MUTATIONS, FORKED_UNIT, ()),
    (ATTEMPTS_UNIT_MUTATIONS, ATTEMPTS_UNIT, ()),
    (CLASSIFY_UNIT_MUTATIONS, CLASSIFY_UNIT, ()),
    (ESCAPE_UNIT_MUTATIONS, ESCAPE_UNIT, ()),
    (REPORT_UNIT_MUTATIONS, REPORT_UNIT, ()),
    (RELEASE_UNIT_MUTATIONS, RELEASE_UNIT, ()),
    (WINDOW_UNIT_MUTATIONS, WINDOW_UNIT, ()),
    (REFUSED_MUTATIONS, REFUSED, ()),
    (SCRIPT_FAULTS_MUTATIONS, SCRIPT_FAULTS, ()),
    (RELEASES_MUTATIONS, RELEASES, ('who_waits_behind*',)),
    (UNDONE_MUTATIONS, UNDONE, ()),
    (MAP_UNIT_MUTATIONS, MAP_UNIT, ()),
    *(([mutation], MAP_UNIT, (test,)) for test, mutation in MAP_TEST_MUTATIONS),
    *(([mutation], REDIRECT_UNIT, (test,)) for test, mutation in REDIRECT_UNIT_MUTATIONS),
    *(([mutation], ALL_TEST, (test,)) for test, mutation in ALL_MUTATIONS),
    *(([mutation], GUARD, (test,)) for test, mutation in GUARD_MUTATIONS),
    *(([mutation], GUARD_CLOSED, (test,)) for test, mutation in GUARD_CLOSED_MUTATIONS),
    *(([mutation], GUARD_RECORD, (test,)) for test, mutation in GUARD_RECORD_MUTATIONS),
    *(([mutation], LIMIT, (test,)) for test, mutation in LIMIT_MUTATIONS),
    *(([mutation], RW_SCRIPT, (test,)) for test, mutation in RW_SCRIPT_MUTATIONS),
    (GUARD_SCRIPT_MUTATIONS, GUARD_SCRIPT, ()),
    (GUARD_FAULT_MUTATIONS, GUARD_FAULT, ('parted_master__with_the_guard*',)),
    (TURNS_MUTATIONS, 'test/integration/api/stalls', ('callbacks_that*',)),
    (ALL_SILENT_MUTATIONS, 'test/integration/server/cluster_locks', ('a_silent_node*',)),
    (ALL_FORKED_MUTATIONS, 'test/integration/api/prefork', ('child_calls*',)),
]
