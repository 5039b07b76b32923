#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the tests find bugs: breaks a copy of the sources in one place at a time, and counts
the simulator's seeds until a run fails. The count is 0 if another test fails.

    mutations.py [--seeds N] [--jobs N] [--only WORD] SOURCE-TREE
    mutations.py --check SOURCE-TREE     only checks that each edit's text is there

Independent of the simulator's checks. The text of an edit must occur in its folder or file exactly
once; otherwise the sources have changed, which is a failure, too. Each worker copies the tree and
builds it once. For each mutation it builds again, runs the seeds from 1 until one fails, and
restores the sources. Tests with real clocks, which mostly wait, run in the background, on copies of
the built programs. On a machine that is too slow they may miss a mutation, which is tried again
after all others.
"""

import argparse
import concurrent.futures
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading

SIM = 'test/sim/sim'
LIBRARY = ('src/liblockwire.so.0',) # which programs find next to them
WAITING = 6 # concurrent tests with real clocks, per job
MUTATIONS = [ # the name, and its edits: a folder or a file, a text in it, the replacement
    ('the deadline is counted from the reply',
     ('src/lock', 'int64_t deadline = deadline_of(in->sent_us, m->lease_us);',
      'int64_t deadline = deadline_of(in->now_us, m->lease_us);')),
    ('a renewal is counted from its reply',
     ('src/lock',
      'deadline = deadline_of(in->sent_us, asked < wanted ? asked : wanted);',
      'deadline = deadline_of(in->now_us, asked < wanted ? asked : wanted);')),
    ('no look at the clock after waiting',
     ('src/lock', '        lw__timer_catch_up(client->loop);\n', '')),
    ('a late grant is kept',
     ('src/lock',
      'if (deadline - in->now_us <= least) {\n        return acquire_to_keep(m);',
      'if (deadline - in->now_us <= least - in->margin_us) {\n'
      '        deadline = in->now_us + m->lease_us;')),
    ('what a claim has while it asks is read as a renewal in flight',
     ('src/lock',
      'if (lw__machine_asks(claim->machine.phase) || claim->held.batch == NULL) {',
      'if (claim->held.batch == NULL) {')),
    ('a late grant that nobody wants is not given back',
     ('src/lock', 'if (m->unwanted) {\n        return release(m, in->now_us);',
      'if (m->unwanted) {\n        return end(m, 0);')),
    ('a message is believed for a whole window',
     ('src/lock', 'deadline = deadline_of(pair_sent_us, passed + m->window_us);',
      'deadline = deadline_of(in->now_us, m->window_us);')),
    ('held by message, since a request was sent lately',
     ('src/lock', 'pair_server_us == 0 || passed < 0 ||\n        passed >',
      'pair_server_us == 0 ||\n        (passed = passed < 0 ? 0 : passed) >'),
     ('src/lock', ' && last->server_us <= handed_us', '')),
    ('a keep asks no more after a loss',
     ('src/lock',
      '(void)lw__lock_call_later(lock, lw_lock_remaining_ms(lock) + 1, LW__LATER_WHEN_GONE,\n'
      '                              reacquire, keep);', '')),
    ('a keep asks no more after a refusal',
     ('src/lock', 'if (lw__lock_call_later(keep->lock, keep->pause_ms, LW__LATER_WHEN_GONE, reacquire,\n'
      '                            keep)) {',
      'if (keep != NULL) {')),
    ('a keep tells of a loss before it was told',
     ('src/lock', 'keep->gained(keep, LW_OK, keep->arg);',
      'keep->lost(keep, LW_ELOST, keep->arg);')),
    ('all turns of a grant have one number',
     ('src/lock', 'lock->fence = first ? first + claim->passed_count : 0;',
      'lock->fence = first;')),
    ('a release asks for no owner',
     ('scripts/mutex_release.lua', 'local held = value == token', 'local held = value')),
    ('a hand-over to the dead',
     ('scripts/mutex_hand_over.lua', 'if subscribers == 0 then',
      'if subscribers == -1 then')),
    ('a read-write lock is handed to the dead',
     ('scripts/rw.lua', 'elseif count > 0 then', 'elseif client then')),
    ('published before it is counted',
     ('scripts/mutex_hand_over.lua', 'if subscribers == 0 then',
      "if subscribers == 0 then\n        local at = time or redis.call('TIME')\n"
      "        pcall('PUBLISH', channel, 't ' .. head .. ' '\n"
      "              .. numbers:format(redis.call('INCRBY', fence, '16') - 15) .. ' '\n"
      "              .. at[1] .. ' ' .. at[2] .. ' ' .. name)")),
    ('one number for all heads',
     ('scripts/rw.lua', 'local mine, window_given\n    if',
      'local mine, window_given, common\n    if'),
     ('scripts/rw.lua', 'local number = fence_for(kind, owner)\n            local new',
      'common = common or fence_for(kind, owner)\n            local number = common\n'
      '            local new')),
    # Without the comparison of the server's name the message passes every other check: the links
    # were bound at the last request, and have not reconnected.
    ('a message of another server is believed',
     ('src/lock', "lw__node_is_bound(name->node, name->slot) && *m->server &&\n"
      "           strcmp(m->server, lw__node_server(name->node)) == 0;",
      "lw__node_is_bound(name->node, name->slot) && *m->server;")),
    ('links at different servers stay there',
     ('src/redis',
      'lw__session_fail(&node->listener.session,\n                     '
      '"connected to a different server than the command connection");\n'
      '    if (node->mismatches >= node->reconnect_both_at)', 'if (false)')),
    ('who hears another server queues',
     ('src/lock', 'return lw__node_is_bound(node, claim->name->slot);',
      'return true;'),
     ('src/redis',
      'lw__session_fail(&node->listener.session,\n                     '
      '"connected to a different server than the command connection");\n'
      '    if (node->mismatches >= node->reconnect_both_at)', 'if (false)')),
    ('a wake-up by plain DEL',
     ('scripts/mutex_release.lua', '-- inline: mutex_hand_over.lua\nif held',
      "local outcome = 'free'\nif held")),
    ('a writer that leaves lets nobody in',
     ('scripts/rw_release.lua', 'local _, again = serve()', 'local again = 0')),
    ('a short release lets in no waiter, and says that it has',
     ('scripts/rw_release.lua', 'if not KEYS[3] then\n    return 2',
      'if not KEYS[3] then\n    return 1')),
    ('a count without its h: field',
     ('scripts/rw_acquire.lua', 'if record then', 'if false then'),
     ('scripts/rw.lua', "local new = redis.call('HEXISTS', name, 'h:' .. token) == 0",
      'local new = true')),
    ('a hold outlives its own lease',
     ('scripts/rw.lua', 'if ending and ending <= now then',
      'if ending and ending <= now - 600000 then')),
    ('the fence follows the time alone',
     ('scripts/fence_seed.lua', 'math.max(math.floor(last) + 1, us)', 'us')),
    ('a renewal shortens the lease',
     ('scripts/mutex_renew.lua',
      "not knows_gt or call('PEXPIREAT', name, ends, 'GT') == 0", 'true'),
     ('scripts/mutex_renew.lua', 'left > tonumber(lease) and left or lease', 'lease')),
    ('an only hold ends when another comes',
     ('scripts/rw.lua', '(ttl < 0 and lease or math.max(ttl, 1))', '1')),
    ('any hold is renewed as if it were the only one',
     ('scripts/rw_renew.lua', " and record:find('^0 [rw] ') then", ' then')),
    ('a read-write lock lives as long as the last lease',
     ('scripts/rw.lua', "math.max(redis.call('PTTL', name), ms)", 'ms'),
     ('scripts/rw.lua', 'math.max(ttl, lease)', 'lease')),
    ('any number of readers gets a permit',
     ('scripts/rw.lua', 'return permits == 0 or lock.readers', 'return true or lock.readers')),
    ('a turn is handed over for longer than its claim',
     ('scripts/mutex_hand_over.lua', "or head, 'PX', window)", "or head, 'PX', 60000)")),
    ('who joins does not mark',
     ('scripts/mutex.lua',
      'mark_queued(value) -- first: a mark without a queue does no harm\n', '')),
    ('a hand-over with others behind is unmarked',
     ('scripts/mutex_hand_over.lua', "following and head:sub(1, -2) .. '+' or head, ", 'head, ')),
    ('who takes a free name with others behind does not mark',
     ('scripts/mutex.lua', 'behind and marked(token) or token', 'token')),
    ('a release compares one form alone',
     ('scripts/mutex_release.lua', "    held = value == token:sub(1, -2) .. '+'\n", '')),
    ('a renewal compares one form alone',
     ('scripts/mutex_renew.lua', " or value == token:sub(1, -2) .. '+'", '')),
    ('a hold of a while is released without a look',
     ('src/lock', 'now_us - sent_us_of(claim) <= FAST_RELEASE_US', 'true')),
    ("a stranger's value is marked",
     ('scripts/mutex_mark_queued.lua', 'value:byte(-1) == 45\n    and value:find(', 'string.len(')),
    ('a hold by message is not extended',
     ('src/lock', 'return claim->machine.phase == LW__HELD_BY_MESSAGE ||',
      'return')),
    ('a lost counter goes on from one',
     ('src/redis', 'number >= LW__FENCE_MIN &&\n                   number',
      'number')),
    ('a loss is told after what else there is',
     ('src/lock',
      'client->notify.urgent != NULL ? client->notify.urgent : client->notify.normal;',
      'client->notify.normal != NULL ? client->notify.normal : client->notify.urgent;')),
    ('a margin is forgotten',
     ('src/lock', 'lw__handle_deadline_us(lock) - lw__handle_least_us(lock);',
      'lw__handle_deadline_us(lock);')),
    ('a hand-over is warned of',
     ('src/lock', '(span < half ? span : half)', '(half < 0 ? half : span)')),
    ('a warning is told twice',
     ('src/lock', '    lock->warned = at_risk;\n', '')),
    ('a hold has no end',
     ('src/lock', 'if (lock->extras->max_hold_us > 0) {', 'if (false) {')),
    ('a lease is trusted to the last millisecond',
     ('src/lock', 'return span_us / 100 + 2 * MS;', '(void)span_us;\n    return 0;')),
    ('a release sent twice is told that nothing was held',
     ('src/lock', 'return m->unconfirmed && m->first_sent_us < m->held_until_us && !m->detaches;',
      '(void)m;\n    return false;')),
    ('who comes to write keeps the number it read with',
     ('scripts/rw.lua', "if is_holder(owner) and not (kind == 'w' and lock.wcount == 0) then",
      'if is_holder(owner) then')),
    ('of two sentinels the one of the lower epoch is believed',
     ('src/redis', 'a->epoch != b->epoch ? a->epoch > b->epoch :',
      'a->epoch != b->epoch ? a->epoch < b->epoch :')),
    ('one link alone follows a switch that a sentinel tells',
     ('src/redis',
      'for (struct lw__session *session = set->sessions; session != NULL;\n'
      '         session = session->next_resolved) {\n        lw__session_retarget(session, why);',
      'struct lw__session *session = set->sessions;\n\n    if (session != NULL) {\n'
      '        lw__session_retarget(session, why);')),
    ('a switch that a sentinel tells waits for the next heartbeat',
     ('src/redis', 'follow(set, &next, -1, lw__now_us());\n        restart(set);',
      '(void)&next;')),
    ('holds are not verified where sentinels lead to',
     ('src/lock', 'lw__turns_retry_all(client, node, true);\n    lw__identity',
      'lw__turns_retry_all(client, node, false);\n    lw__identity')),
    ('a queue without a TTL',
     ('scripts/join.lua', 'if (score or added) and left < 90000', 'if false')),
]

CLUSTER_MUTATIONS = [ # the same, in worlds that have a cluster
    ('a redirection is not followed',
     ('src/redis', 'if (!r->first_reply_seen && is_redirect(', 'if (false && is_redirect(')),
    ('the map is not asked for again',
     ('src/redis', 'if (cluster->survey.open) {',
      'if (cluster->known) {\n        return;\n    }\n    if (cluster->survey.open) {')),
    ('names stay where they led first',
     ('src/lock', 'lw__turns_remap_all(arg);', '(void)arg;')),
    ('who waits stays in the queue of the old node',
     ('src/lock', "else this happens when it comes up */\n        retry_name(name, true);",
      "else this happens when it comes up */\n        (void)name;")),
    ('what keeps a hold or lets it go is sent to the old node alone',
     ('src/redis', 'if (command->type->node_bound) {',
      'if (command->type->node_bound || command->type->priority == LW__PRIORITY_RENEW) {')),
    ('ASK is followed without ASKING',
     ('src/redis', 'if (command->request.asking) {', 'if (false) {')),
    ('numbers are those of another slot',
     ('src/redis', '(void)lw__format_fence(slot, node->fence);',
      '(void)lw__format_fence(node->options.slot, node->fence);')),
    ('a number is drawn by the counter alone',
     ('src/redis', 'seeds_fence = node->options.clustered && !is_trusted(node, slot);',
      'seeds_fence = false;')),
    ('a number is drawn before its SET was done',
     ('src/lock', '        report_set_error(claim, outcome',
      '        extern uint64_t lw__early;\n        lw__early = fence;\n'
      '        report_set_error(claim, outcome'),
     ('src/lock', 'static void name_acquired(struct',
      'uint64_t lw__early;\nstatic void name_acquired(struct'),
     ('src/lock', 'if (!lw__handles_want_fence(claim)) {',
      'if (lw__early > 0) {\n        claim->fences_drawn = 1;\n'
      '        lw__claim_granted(claim, lw__early, sent_us);\n'
      '    } else if (!lw__handles_want_fence(claim)) {')),
    ('nobody listens to the channels of slots',
     ('src/redis', 'if (lw__listener_add(&node->listener, slot, channel, "") != NULL) {',
      'if (*channel == 0) {')),
    ('who begins to hear the channel of a slot is not asked to queue',
     ('src/lock', 'lw__turns_retry_all(arg, node, false);', '(void)arg, (void)node;')),
    ('a script uses a key that it was not given',
     ('scripts/mutex_release_fast.lua', "return redis.call('DEL', KEYS[1])",
      "return redis.call('DEL', KEYS[1], KEYS[1] .. '{' .. KEYS[1] .. '}')")),
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
    ('what was no replica of the master is followed',
     ('src/redis', "return *known != '\\0' && (strcmp(known, server->replication_id) == 0 ||",
      "return *known != '\\0' && (strcmp(known, server->replication_id) != 2 ||")),
    ('whoever is at the address of a learnt sentinel is taken for it',
     ('src/redis',
      'if (strcmp(lw__reply_text(reply, NULL), s->config->sentinel_id) == 0) {',
      'if (lw__reply_text(reply, NULL) != NULL) {')),
    ('a learnt sentinel stays though no listed one names it',
     ('src/redis', '(*at)->named_by == 0', '(*at)->named_by == ~0U')),
    ('nobody waits for what a learnt sentinel says to be proved',
     ('src/redis', 'if (is_probing(set) && (best', 'if (false && is_probing(set) && (best')),
    ('what was proved is given up while its sentinel is asked again',
     ('src/redis', 'if (!set->asking && !any_pending(set) && first_resolving(set) != NULL) {',
      'if (!set->asking && first_resolving(set) != NULL) {')),
    ('what was no replica of one master is none of the next',
     ('src/redis', "*one->refuted.endpoint.host = '\\0';", '(void)one->refuted;')),
    ('a probe goes on when another master is followed',
     ('src/redis', 'probe_stop(&one->probe);            /* it was', '/* it was')),
    ('a busy learnt sentinel is taken for a stranger',
     ('src/redis', 'other_sentinel && !is_busy(error) ?', 'other_sentinel && is_busy != NULL ?')),
]
SENTINEL_REAL = 'test/integration/server/sentinel'
SENTINEL_REAL_MUTATIONS = [
    ('the replication id is asked for at the connection alone',
     ('src/redis', '    ask_for_replication_id(node);\n}', '    (void)ask_for_replication_id;\n}')),
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
     ('src/lock', 'if (!claim->machine.maybe_in_redis || !send_command(claim, &extend_type)) {',
      'if (&extend_type != NULL) {')),
    ('who does not listen at its node queues there',
     ('src/lock', 'return lw__node_is_bound(node, claim->name->slot);',
      'return true;')),
    ('a message of any node is believed',
     ('src/lock', "return lw__node_is_bound(name->node, name->slot) && *m->server &&\n"
      "           strcmp(m->server, lw__node_server(name->node)) == 0;", "return *m->server != 0;")),
    ('whose clock it was says where the name leads now',
     ('src/lock', 'struct lw__node *node = lw__node_of_command(&claim->command);\n\n    claim->asking',
      'struct lw__node *node = claim->name->node;\n\n    claim->asking')),
    # Each of the two checks covers for the other. A message that names our server was true there,
    # by that server's clock. And when the links are bound, all waiters have sent requests, so that
    # the clock pair is a new one.
    ('an unbound message is believed, by the clock pair of another server',
     ('src/lock', 'return lw__node_is_bound(name->node, name->slot) && *m->server &&',
      'return *m->server &&'),
     ('src/lock', 'last->connection == connection &&', '(void)connection,'),
     ('src/lock', 'claim->asking.connection == connection', 'true')),
    ('who waits does not hear that the channel of its slot is dropped',
     ('src/lock', 'lw__turns_retry_slot(arg, node, slot);',
      '(void)arg, (void)node, (void)slot;')),
]

BREAKS = 'test/integration/inspect/inspect_break'
BREAKS_MUTATIONS = [
    ('a hint to verify is forgotten while an answer is due',
     ('src/lock', '    claim->verify = true;\n', '')),
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
     ('scripts/mutex_hand_over.lua', "            call('SET', name, following and "
      "head:sub(1, -2) .. '+' or head, 'PX', window)\n", ''),
     ('scripts/mutex_hand_over.lua', "                call('ZREM', queue, head)\n",
      "                call('ZREM', queue, head)\n                call('SET', name, "
      "following and head:sub(1, -2) .. '+' or head, 'PX', window)\n")),
    ('refused: a head is told that may not leave the queue',
     ('scripts/mutex_hand_over.lua', "call('ZREM', queue, '')", '')),
    ('refused: a reader is told that may not leave the queue',
     ('scripts/rw.lua', "redis.call('ZREM', queue, '')", '')),
    ('refused: a hold is removed before its count',
     ('scripts/rw.lua', "    write('HSET', set)\n    write('HDEL', removed)\n",
      "    write('HDEL', removed)\n    write('HSET', set)\n")),
    ('refused: a queue that has no TTL stays',
     ('scripts/join.lua', 'if left == -2 then', 'if left == 0 then')),
    ('refused: a read-write lock that has no TTL stays',
     ('scripts/rw_acquire.lua', "call('SET', name, '', 'PX', lease)", '')),
    ('refused: a counter that has no TTL stays',
     ('scripts/draw_fence.lua', 'if created then', 'if false then')),
    ("refused: a lock of Redisson's that has no TTL stays",
     ('scripts/redisson_acquire.lua', "redis.call('SET', name, '', 'PX', ARGV[2])", '')),
]
LEASES = 'test/integration/scripts/scripts_rw_leases'
LEASES_MUTATIONS = [
    ('refused: a wrong count stays',
     ('scripts/rw.lua', 'lock.rcount, lock.readers, lock.wcount = rcount, #owners, wcount',
      'lock.wcount = wcount')),
]

LOOP_UNIT = 'test/unit/unit_loop'
LOOP_UNIT_MUTATIONS = [
    ('a forked child reads what is its parent\'s',
     ('src/loop', '    if (!lw__process_is_child(&loop->process)) {\n        return false;',
      '    if (loop != NULL) {\n        return false;')),
    ('a forked child deletes its parent\'s events from the set that they share',
     ('src/loop', 'return !loop->own_set && lw__loop_is_child(loop);', 'return false;')),
    ('a child with an epoll set of its own leaves its parent\'s files in it',
     ('src/loop', '        loop->own_set = true;\n', '')),
    ('in a child that a deferred call made the rest of the turn goes on',
     ('src/loop', 'loop->freed || lw__process_is_child(&loop->process)', 'loop->freed')),
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
     ('src/redis', 'if (strstr(error, "user_script") != NULL) {', 'if (false) {')),
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
     ('src/tool', 'return code_of_cause(cause, busy);', 'return busy;')),
]
WINDOW_UNIT = 'test/unit/unit_machine_window'
WINDOW_UNIT_MUTATIONS = [
    ('who has no place in the queue looks every ten seconds',
     ('src/lock', 'position < 0 ? LONGEST_POLL : ', '')),
]
REFUSED = 'test/integration/server/server_denied'
REFUSED_MUTATIONS = [
    ('a release that is refused has an unknown outcome',
     ('src/lock', 'return finish_release(m, m->unconfirmed ? LW_EUNKNOWN : LW_EREDIS);',
      'return finish_release(m, LW_EUNKNOWN);')),
    ('a mutex that may not be read is not ours',
     ('scripts/mutex_release.lua',
      "if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ("Redisson's hash that may not be read is not ours",
     ('scripts/redisson_release.lua',
      "if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ("Redisson's hash that may not be read is not renewed",
     ('scripts/redisson_renew.lua',
      "if type(has) == 'table' and not has.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
    ('a refused renewal is not told',
     ('src/lock', '        report_error(batch_of(command), error);\n', '')),
    ('nobody tells that publishing is not permitted',
     ('src/redis', '    try_to_publish(node);\n', '    (void)try_to_publish;\n')),
    ('nobody tells that messages do not come',
     ('src/redis', '!was_confirmed && !lw__listener_is_forbidden', '!was_confirmed && why == NULL && !lw__listener_is_forbidden')),
]
SCRIPT_FAULTS = 'test/integration/scripts/scripts_faults'
SCRIPT_FAULTS_MUTATIONS = [
    ('a mutex that may not be read is not ours, without a look at the queue',
     ('scripts/mutex_release_fast.lua',
      "if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then",
      'if false then')),
]
RELEASES = 'test/integration/mutex/releases'
RELEASES_MUTATIONS = [
    ('who waits behind a release of its own client loses its place',
     ('src/lock', 'input.not_granted.ticket = answer.ticket;', ';')),
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
     ('src/lock', 'lw__handle_set_error(lock, status, lw_strerror(status));', ';'))),
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

# The command; each with the file and the test that show it.
COMMAND = 'src/tool/lockwire'
COMMAND_MUTATIONS = [
    ('causes.py', 'Later.test_status_says_why_waiting_is_slow',
     ('status does not say why no messages arrive',
      ('src/tool', 'if (stats.subscription_up || ', 'if (request->code >= 0 || '))),
    ('causes.py', 'Away.test_a_single_try_at_a_silent_server_has_one_limit',
     ('a single try that was not answered is followed by a second limit',
      ('src/tool', 'once ? session->nowait_deadline_ms', 'false ? session->nowait_deadline_ms'))),
    ('causes.py', 'Later.test_the_release_is_not_answered',
     ('a release that is not answered is waited for twice',
      ('src/tool', '    released(arg, status);\n}\n\nstatic void on_all_released',
       '    released(arg, status);\n    session_end(arg, ((struct session *)arg)->code);\n}\n\n'
       'static void on_all_released'),
      ('src/tool', '    session_end(session, session->code); /* at once: one limit',
       '    /* at once: one limit'))),
    ('waiting.py', 'InPipe.test_another_kind_of_lock_is_called_so',
     ('a holder of another kind is one like any other',
      ('src/tool', 'return reads_a ? reads_b : a == b;',
       'return reads_a == reads_b || true;'))),
    ('take.py', 'AtLeast.test_two_hosts_run_a_short_job_once',
     ('tool: --at-least is forgotten when the command ends',
      ('src/tool', '    acquire.at_least_ms = (uint32_t)options->at_least_ms;\n', ''))),
    ('take.py', 'Servers.test_a_lease_that_the_server_refuses_to_set',
     ('tool: take prints the token before the detach is confirmed',
      ('src/tool', 'take->detached_ms = system_now_ms();',
       'take->detached_ms = system_now_ms();\n    (void)print_token(take);'),
      ('src/tool', 'if (status == LW_OK && print_token(take)) {', 'if (status == LW_OK) {'))),
    ('take.py', 'Interop.test_what_another_library_has_taken_is_released',
     ('tool: release reports success for a token that does not hold',
      ('src/tool/release.c', 'if (status == LW_OK) {',
       'if (status == LW_OK || status == LW_ENOTHELD) {'))),
    ('take.py', 'Life.test_a_token_that_does_not_hold_runs_nothing',
     ('tool: run --token acquires the lock in place of adopting it',
      ('src/tool/lock_session.c', 'if (options->token != NULL) {',
       'if (options->token != NULL && options->subcommand == TAKE) {'))),
    ('take.py', 'Life.test_a_token_that_does_not_hold_runs_nothing',
     ('tool: run --token goes on although the token was not adopted',
      ('src/tool', '    if (status == LW_OK) {\n        begin_hold(session);',
       '    if (status == LW_OK || status == LW_ENOTHELD) {\n        begin_hold(session);'))),
    ('take.py', 'Life.test_the_command_gets_the_token_that_holds',
     ('tool: the command gets no LOCKWIRE_TOKEN',
      ('src/tool', 'setenv("LOCKWIRE_TOKEN", plan->token, 1)', 'unsetenv("LOCKWIRE_TOKEN")'))),
    ('lost.py', 'OnLost.test_a_silent_server_puts_it_at_risk_first',
     ('tool: --on-lost is not run when the lock is at risk',
      ('src/tool',
       '        run_hook(session, LOST_HOOK_AT_RISK, lw_lock_name(lock),\n'
       '                 *errstr ? errstr : "the lease was not renewed yet");\n', ''))),
    ('lost.py', 'OnLost.test_its_output_is_an_error_output',
     ('tool: --on-lost is not run when the lock is lost',
      ('src/tool', '    run_hook(session, LOST_HOOK_LOST, name, text);\n', ''))),
    ('lost.py', 'KeepRunning.test_the_command_goes_on_and_another_holder_works',
     ('tool: --keep-running ends the command after a loss',
      ('src/tool', 'if (session->options->keep_running) {',
       'if (session->options->keep_running && session->arg == NULL) {'))),
    ('lost.py', 'KeepRunning.test_an_outage_beyond_the_lease',
     ('tool: the watchdog ends a command of --keep-running',
      ('src/tool', 'if (run->session.options->keep_running) {',
       'if (run->session.options->keep_running && arg == NULL) {'))),
]

# Several names at once, in worlds where many calls acquire them.
SETS_MUTATIONS = [
    ('sets of names that are acquired in the order of the caller deadlock',
     ('src/lock', 'if (order < 0) {', 'if (order != 0) {')),
    ('a set times out before a loss that was due is told',
     ('src/lock', 'all->stage == CLIMBING && left_ms(all) != 0) {',
      'all->stage == CLIMBING) {')),
]

# Locks that are detached and adopted, in worlds in which that is frequent.
DETACH_MUTATIONS = [
    ('an adopter keeps the old token',
     ('scripts/mutex_adopt.lua',
      "redis.call('SET', name, token:sub(1, -2) .. mark, 'PX', math.max(left, lease))",
      "redis.call('PEXPIRE', name, math.max(left, lease))")),
    ('an adopter of a hold keeps its token',
     ('scripts/rw_adopt.lua', 'change(old, false)', '')),
    ('an adopter believes whatever is answered',
     ('src/lock', 'if (answer.kind != LW__ADOPTED) {',
      'if (answer.kind == LW__ADOPTED_OTHER_KIND) {')),
    ('an adopter has the number of the old holder',
     ('scripts/rw_adopt.lua', 'local number, count = draw_fence(1), read_holds(owner)',
      'local number, count = fence_of(owner) or draw_fence(1), read_holds(owner)')),
    ('a detach that came too late is reported as done',
     ('src/lock', 'm->first_sent_us < m->held_until_us && !m->detaches;',
      'm->first_sent_us < m->held_until_us;')),
    ('renewals go on after a detach',
     ('src/lock', '    lw__renewal_forget(claim);\n    claim->releasing = silent ? NULL : lock;',
      '    if (!stays) {\n        lw__renewal_forget(claim);\n    }\n'
      '    claim->releasing = silent ? NULL : lock;')),
    ('the minimum time is forgotten',
     ('src/lock', 'if (lock->claim != NULL && at_least_ms > 0) {',
      'if (lock->claim == NULL && at_least_ms > 0) {')),
    ('a late message releases a lock that was detached',
     ('src/lock', 'if (lw__claim_linger(claim)) {', 'if (claim == NULL) {')),
    ('a detached lock is passed on within the client',
     ('src/lock', 'if (!stays && claim->waiting != NULL &&', 'if (claim->waiting != NULL &&')),
]

# The guard at real servers: when a server is closed; each with the tests that show it.
GUARD = 'test/integration/server/guard'
GUARD_MUTATIONS = [
    ('a_promotion_closes*', ('guard: the identity does not show promotions',
     ('src/redis', 'session->former_replication_id, session->former_offset);\n'
      '    lw__encode_guard(',
      '"0000000000000000000000000000000000000000", "-1");\n    lw__encode_guard('))),
    ('a_promotion_closes*', ('guard: the uptime counts after a promotion',
     ('src/redis', 'was_promoted(node) ? 0 : session->uptime_ms',
      'was_promoted(node) ? session->uptime_ms : session->uptime_ms'))),
    ('a_lease_that_ends*', ('guard: a lease is extended that an old master sees end',
     ('src/redis', 'return deadline_us >= node->old_master_until_us ||', 'return true ||'))),
    ('nor_by_a_detach', ('guard: a detach extends a lease that an old master sees end',
     ('src/lock', 'if (actions & LW__SEND_RELEASE && !may_detach(claim)) {',
      'if (actions & LW__SEND_RELEASE && !may_detach(claim) && node == NULL) {'))),
    ('nor_by_a_detach', ('guard: detached locks last as long as without it',
     ('src/lock', 'keep_ms < 0 || keep_ms > lw__options_lease_max(lock->client)', 'keep_ms < 0'))),
    ('the_uptime_counts*', ('guard: the uptime counts to the second',
     ('src/redis', 'uptime_s > 0 ? (uptime_s - 1) * 1000 : uptime_s;',
      'uptime_s >= 0 ? uptime_s * 1000 : -1;'))),
    ('a_lack_of_replicas*', ('guard: heartbeats alone repeat a question that was refused',
     ('src/redis', '    if (node->guard == LW__GUARD_REFUSED) {\n        ask_again(node);\n'
      '    } else if (node->guard == LW__GUARD_CLOSED) {',
      '    if (node->guard == LW__GUARD_CLOSED) {'))),
    ('a_hold_is_renewed_when*', ('guard: holds are not renewed when the server is known',
     ('src/lock', '{\n    lw__turns_retry_all(arg, node, true);\n}',
      '{\n    lw__turns_retry_all(arg, node, false);\n}'))),
]
# The same while a server is closed.
GUARD_CLOSED = 'test/integration/server/guard_closed'
GUARD_CLOSED_MUTATIONS = [
    ('a_mutex_is_released*', ('guard: no gate',
     ('src/lock', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if ((fault = lw__node_guard_fault(node)) != NULL && claim == NULL) {'))),
    ('a_mutex_is_released*', ('guard: an open gate stays open on the next connection',
     ('src/redis', '    lw__timer_cancel(node->options.config.loop, &node->guard_timer);\n'
      '    if (is_used(node)) {',
      '    lw__timer_cancel(node->options.config.loop, &node->guard_timer);\n'
      '    if (is_used(node) && node->guard != LW__GUARD_OPEN) {'),
     ('src/redis', '    if (!is_used(node)) {\n        return;\n    }\n'
      '    node->guard = LW__GUARD_ASKED;',
      '    if (!is_used(node) || node->guard == LW__GUARD_OPEN) {\n        return;\n    }\n'
      '    node->guard = LW__GUARD_ASKED;'))),
    ('a_mutex_is_released*', ('guard: releases hand over while it is closed',
     ('src/redis', '!node->options.clustered && lw__node_guard_left_us(node) > 0',
      '!node->options.clustered && lw__node_guard_left_us(node) < 0'))),
    ('grants_wait*', ('guard: the wait is counted from when the server was asked',
     ('src/redis', 'node->guard_opens_us = lw__now_us() +',
      'node->guard_opens_us = node->question.request.sent_us +'))),
    ('a_claim_that_repeats*', ('guard: a token that was sent before passes',
     ('src/lock', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if (!claim->token_sent && (fault = lw__node_guard_fault(node)) != NULL) {'))),
    # Each of the two checks covers for the other: the server that the clock pair belongs to was not
    # closed.
    ('a_hand_over_is_believed*', ('guard: a message is believed while it is closed',
     ('src/lock', 'lw__node_guard_left_us(claim->name->node) == 0',
      'lw__node_guard_left_us(claim->name->node) >= 0'),
     ('src/lock', 'claim->asking.connection == connection', 'true'))),
    ('a_try_waits*', ('guard: a connection is up before it is known',
     ('src/redis', 'if (node->up || !node->seeded || !lw__node_guard_is_known(node)) {',
      'if (node->up || !node->seeded) {'))),
    ('waiters_are_served*', ('guard: nobody is told of the opening',
     ('src/redis', '        node->events->guard_changed(node->arg, node);', '        ;'))),
    ('the_fence_counter*', ('guard: the fence counter is as it was at the connection',
     ('src/redis', '    if (node->guard == LW__GUARD_CLOSED) {\n        lw__node_seed_fence',
      '    if (node->guard == LW__GUARD_OFF) {\n        lw__node_seed_fence'))),
    ('heartbeats_keep*', ('guard: the record expires',
     ('src/redis', '        lw__node_submit(node, &node->guard_extend, &extend_type);',
      '        (void)extend_type;'))),
    ('a_token_is_adopted*', ('guard: an adoption passes a closed gate',
     ('src/lock', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if (claim->extras->adopts == NULL &&\n'
      '               (fault = lw__node_guard_fault(node)) != NULL) {'))),
    ('leases_are_bounded*', ('guard: leases are as long as without it',
     ('src/lock', '(int64_t)o->lease_ms > lease_max', '(o->lease_ms == 0)'))),
    ('leases_are_bounded*', ('guard: renewals are as long as without it',
     ('src/lock', 'lease_ms > lw__options_lease_max(lock->client) ||', 'lease_ms > INT32_MAX ||'))),
]
# max_waiting, at a real server; each with the tests that show it.
LIMIT = 'test/integration/api/max_waiting'
LIMIT_MUTATIONS = [
    ('refuses_beyond*', ('limit: one more may wait',
     ('scripts/join.lua', "(pcall_type('ZCARD', queue) or 0) >= limit",
      "(pcall_type('ZCARD', queue) or 0) > limit"))),
    ('refuses_beyond*_mutex', ('limit: a mutex has none',
     ('scripts/mutex.lua', 'local full = is_full(token, limit)', 'local full = false'))),
    ('refuses_beyond*_shared', ('limit: a read-write lock has none',
     ('scripts/rw_acquire.lua', 'full = not is_holder(owner) and is_full(member, limit)',
      'full = false'))),
    ('a_foreign_key*', ('limit: a read-write lock has none behind a foreign key',
     ('scripts/rw_acquire.lua', '        full = is_full(member, limit)\n        if',
      '        full = false\n        if'))),
    ('refuses_beyond*_mutex', ('limit: a full queue counts as a refusal like any other',
     ('src/lock', 'claim->full && !lw__machine_is_acquiring(claim->machine.phase)',
      'claim->full && claim->machine.phase == LW__IDLE'))),
    ('local_waiters_count*', ('limit: waiters behind a hold of the client do not count',
     ('src/lock', 'count += waiters - (waiters > 0 && lw__machine_asks(claim->machine.phase));',
      'count += waiters > 0 && lw__machine_asks(claim->machine.phase) ? waiters - 1 : 0;'))),
    ('local_waiters_behind*', ('limit: one token counts for all',
     ('src/lock', 'lock->queue_limit -= tokenless;', '(void)tokenless;'))),
    ('a_limit_of_others*', ('limit: a handle with a limit shares a claim',
     ('src/lock', 'lock->mode->shares_claims && !lock->limited &&',
      'lock->mode->shares_claims &&'))),
    ('requests_before*', ('limit: it is sent only once',
     ('src/lock', '    claim->sent_limit = args.max_waiting != 0;\n',
      '    claim->sent_limit = args.max_waiting != 0;\n'
      '    if (claim->sent_limit) {\n        claim->waiting->queue_limit = 0;\n    }\n'))),
    ('a_waiter_that_rejoins*', ('limit: a waiter that had a place sends it again',
     ('src/lock', '    if (claim->asking.place > 0) {\n        lock->queue_limit = 0;\n    } else if',
      '    if'))),
    ('a_request_whose_reply*', ('limit: a member counts itself',
     ('scripts/join.lua', "\n        and not pcall_type('ZSCORE', queue, member)", ''))),
    ('an_expired_lock*', ('limit: waiters are counted before they are served',
     ('scripts/mutex.lua', 'if limit and value == false then', 'if limit and value == nil then'))),
]
RW_SCRIPT = 'test/integration/scripts/scripts_rw'
RW_SCRIPT_MUTATIONS = [
    ('an_owner_that_is_let_in*', ('limit: an owner that was let in meanwhile is refused',
     ('scripts/rw_acquire.lua', 'full = not is_holder(owner) and is_full(member, limit)',
      'full = is_full(member, limit)'))),
]
GUARD_SCRIPT = 'test/integration/scripts/scripts_guard'
GUARD_SCRIPT_MUTATIONS = [
    ('guard: half of the time',
     ('scripts/guard.lua', 'guard - ARGV[3]', 'guard / 2 - ARGV[3]')),
    ('guard: another identity shortens a wait',
     ('scripts/guard.lua', 'same_process and math.max(begun, from) or begun', 'begun')),
    ('guard: clients with another time open it',
     ('scripts/guard.lua', 'if given and given ~= guard then', 'if not guard then')),
    ('guard: each call begins a wait', ('scripts/guard.lua', 'if of ~= identity then',
                                        'if of ~= identity or given then')),
    ('guard: a closed mutex is handed over',
     ('scripts/mutex_release.lua', "if numbers == '- ' then", "if numbers == '' then"),
     ('scripts/mutex_hand_over.lua', 'local outcome, behind, call, pcall =',
      "numbers = numbers == '- ' and '%d 5e12fe12' or numbers\nlocal outcome, behind, call, pcall =")),
    ('guard: a closed read-write lock lets in its waiters',
     ('scripts/rw.lua', "    if numbers == '- ' then -- the guard: no lock is granted\n"
      "        return nil, 0\n", "    if numbers == '- ' then\n        numbers = '%d 5e12fe12'\n")),
]
# A master that is replaced without its last writes.
GUARD_FAULT = 'test/fault/fault_guard'
GUARD_FAULT_MUTATIONS = [
    ('guard: no gate at a new master',
     ('src/lock', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if ((fault = lw__node_guard_fault(node)) != NULL && claim == NULL) {')),
    ('guard: half of the time at a new master',
     ('scripts/guard.lua', 'guard - ARGV[3]', 'guard / 2 - ARGV[3]')),
]
# The guard, in worlds that lose writes.
GUARD_WORLD_MUTATIONS = [
    ('the guard is off',
     ('test/sim/host.c', 'options.guard_ms = world.plan.guard_ms;', '')),
    ('the gate is always open',
     ('src/redis', 'if (node->guard == LW__GUARD_OFF || node->guard == LW__GUARD_OPEN) {',
      'if (node != NULL) {')),
    ('the guard time is halved',
     ('src/redis', 'lw__command_evals(command), identity, node->options.guard_ms,',
      'lw__command_evals(command), identity, node->options.guard_ms / 2,')),
    ('a second connection finds the gate open',
     ('scripts/guard.lua', 'return math.max(0, math.ceil((from - now) / 1000))',
      'return of == identity and 0 or math.max(0, math.ceil((from - now) / 1000))')),
    ('the gate of the connection before is kept',
     ('src/redis', '    if (is_used(node)) {\n        node->guard = LW__GUARD_ASKED;\n    }\n', ''),
     ('src/redis', '    node->guard = LW__GUARD_ASKED;\n    node->guard_fault.why', '    node->guard_fault.why')),
    ('a promotion is no other identity',
     ('src/redis', '"%s:%s:%s", session->run_id,\n                   session->former_replication_id, session->former_offset);',
      '"%s", session->run_id);')),
    ('the wait is counted from the question',
     ('src/redis', 'node->guard_opens_us = lw__now_us() +',
      'node->guard_opens_us = node->question.request.sent_us +')),
    ("a token's own repeat passes the gate",
     ('src/lock', '} else if ((fault = lw__node_guard_fault(node)) != NULL) {',
      '} else if (!claim->machine.maybe_in_redis &&\n'
      '               (fault = lw__node_guard_fault(node)) != NULL) {')),
    ("up and open before the guard's answer",
     ('src/redis', '!node->seeded || !lw__node_guard_is_known(node)) {', '!node->seeded) {'),
     ('src/redis', 'if (node->guard == LW__GUARD_OFF || node->guard == LW__GUARD_OPEN) {',
      'if (node->guard == LW__GUARD_OFF || node->guard == LW__GUARD_OPEN ||\n'
      '        node->guard == LW__GUARD_ASKED) {')),
    ('a lease is extended that an old master sees end',
     ('src/redis', 'return deadline_us >= node->old_master_until_us ||', 'return true ||')),
    ('the gate never opens',
     ('src/redis',
      'lw__timer_set(node->options.config.loop, &node->guard_timer, node->guard_opens_us);',
      '')),
]

# A quorum, in worlds whose servers restart, freeze and lose writes.
QUORUM_WORLD_MUTATIONS = [
    ("the servers of a quorum have no guard",
     ('src/lock', '    ret->local_turns = 1;', '    ret->guard_ms = 0;\n    ret->local_turns = 1;')),
    ('half of the servers are a majority',
     ('src/lock', 'quorum->count / 2 + 1', 'quorum->count / 2')),
    ('one vote less than a majority has the deadline',
     ('src/lock', '(int64_t)deadlines[live - majority]', '(int64_t)deadlines[live - majority + 1]')),
    ('no fence counter is raised',
     ('src/lock', 'if (vote->last < number) {', 'if (vote->last < number && vote->last == 0) {')),
    ('a vote that was lost is released within its margin',
     ('src/lock', '        vote->lost = true;\n', '        lw__quorum_ask_drop(vote);\n        return;\n')),
    ('a minority is kept from others that cannot be more',
     ('src/lock', '        if (now >= limit) {\n            step_back(votes);',
      '        if (limit == 0) {\n            step_back(votes);')),
    ('a minority is kept from others that have the other servers',
     ('src/lock', '        if (now >= limit) {\n            yield_or_retreat(votes);',
      '        if (limit == 0) {\n            yield_or_retreat(votes);')),
    ('votes are believed without drift',
     ('src/lock', 'return span_us / 100 + 2 * MS;', 'return 0 * span_us;')),
]
RAISE_SCRIPT = 'test/integration/scripts/scripts_raise'
RAISE_SCRIPT_MUTATIONS = [
    ('a raised counter counts without the token',
     ('scripts/fence_raise.lua', "return (value == token or value == token:sub(1, -2) .. '+') and 1 or 0",
      'return 1')),
    ('a counter is set back',
     ('scripts/fence_raise.lua', 'math.max(math.floor(last), tonumber(ARGV[1]))', 'tonumber(ARGV[1])')),
    ('a raised counter does not know the queue mark',
     ('scripts/fence_raise.lua', "(value == token or value == token:sub(1, -2) .. '+')",
      '(value == token)')),
]
MEMBERS = 'test/integration/quorum/quorum_members'
MEMBERS_MUTATIONS = [
    ('one_server*', ('one server has two votes',
     ('src/lock', 'strcmp(lw__node_server(node_of(other)), server) == 0', 'member == NULL'))),
    ('replicas*', ('a master with replicas has a vote',
     ('src/lock', 'lw__node_replicas(node) > 0', 'lw__node_replicas(node) > 100'))),
    ('a_node*', ("a cluster's node has a vote",
     ('src/lock', 'if (lw__node_is_clustered(node)) {\n        (void)snprintf(why',
      'if (member == NULL) {\n        (void)snprintf(why'))),
]
QUORUM_LOCKS = 'test/integration/quorum/quorum_locks'
QUORUM_LOCKS_MUTATIONS = [
    ('*overtaken', ('the last request tells the time, however slow it was',
     ('src/lock', 'latest->server_us - latest->sent_us < best->server_us - best->sent_us', 'true'))),
    ('tokens_of*', ('claims with the same ticket are in any order',
     ('src/lock', '&ret[LW__UUID_SIZE - 2]', '&ret[0]'))),
]
EDGES = 'test/integration/quorum/quorum_edges'
EDGES_MUTATIONS = [
    ('a_shorter*', ("a shorter lease of the next handle ends the votes that it takes over",
     ('src/lock', 'if (holds && lock->lease_ms != first->lease_ms) {', 'if (holds && first->lease_ms == 0) {'))),
    ('a_lost_vote*', ('a vote that cannot be renewed counts as renewed',
     ('src/lock', '            vote->renewed = LW_ECONN;', '            vote->renewed = LW_OK;'))),
    ('a_hold*', ('votes that were lost extend a hold without renewal',
     ('src/lock', '    vote->lapsed = true;', '    vote->lapsed = false;'))),
    ('two_minorities*', ('a vote is always requested again at once',
     ('src/lock', 'if (votes->yields_in_vain > YIELDS_IN_VAIN) {', 'if (votes->yields_in_vain > YIELDS_IN_VAIN && votes->yields == 0) {'))),
]
VOTED_UNIT_MUTATIONS = [
    ('votes are believed for longer than the lease',
     ('src/lock', 'in->voted.deadline_us < deadline ? in->voted.deadline_us', 'deadline != 0 ? in->voted.deadline_us')),
    ("the caller's ticket is not sent",
     ('src/lock', 'if (in->start.ticket > 0) {', 'if (in->start.ticket < 0) {')),
]

GROUPS = [ # mutations, the program that catches them, and its arguments
    (MUTATIONS, SIM, ()),
    (CLUSTER_MUTATIONS, SIM, ('--cluster',)),
    (SETS_MUTATIONS, SIM, ('--sets',)),
    (DETACH_MUTATIONS, SIM, ('--detach',)),
    (GUARD_WORLD_MUTATIONS, SIM, ('--guard',)),
    (QUORUM_WORLD_MUTATIONS, SIM, ('--quorum',)),
    (RAISE_SCRIPT_MUTATIONS, RAISE_SCRIPT, ()),
    (VOTED_UNIT_MUTATIONS, 'test/unit/unit_machine', ()),
    *(([mutation], MEMBERS, (test,)) for test, mutation in MEMBERS_MUTATIONS),
    *(([mutation], QUORUM_LOCKS, (test,)) for test, mutation in QUORUM_LOCKS_MUTATIONS),
    *(([mutation], EDGES, (test,)) for test, mutation in EDGES_MUTATIONS),
    (SENTINEL_UNIT_MUTATIONS, SENTINEL_UNIT, ()),
    (SENTINEL_REAL_MUTATIONS, SENTINEL_REAL, ('the_id_of_a_master*',)),
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
    *(([mutation], LIMIT, (test,)) for test, mutation in LIMIT_MUTATIONS),
    *(([mutation], RW_SCRIPT, (test,)) for test, mutation in RW_SCRIPT_MUTATIONS),
    (GUARD_SCRIPT_MUTATIONS, GUARD_SCRIPT, ()),
    (GUARD_FAULT_MUTATIONS, GUARD_FAULT, ('parted_master__with_the_guard*',)),
    (ALL_SILENT_MUTATIONS, 'test/integration/server/cluster_locks', ('a_silent_node*',)),
    (ALL_FORKED_MUTATIONS, 'test/integration/api/prefork', ('child_calls*',)),
    *(([mutation], COMMAND, words) for *words, mutation in COMMAND_MUTATIONS),
]


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f'{command[0]} failed:\n{done.stdout[-2000:]}')


def first_failure(sim, seeds, words=()):
    """Returns the first seed that fails and why, or None."""
    process = subprocess.Popen([sim, '--seeds', f'1..{seeds}', *words], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = None
    for line in process.stderr:
        found = re.match(r'seed (\d+)(?: at [\d.]+ ms)?: (.*)', line)
        if found:
            break
    process.kill()
    process.communicate()
    return found and (int(found[1]), found[2])


def failed_test(unit, words=()):
    """Returns the first test that fails, of those that match the first word. cmocka reports an
    error if the tear-down fails as well, as after an assertion in a callback of the event loop."""
    done = subprocess.run([unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, **({'LOCKWIRE_TEST': words[0]} if words else {})))
    found = re.search(r'FAILED  \] (\w+)', done.stdout)
    if not found and 'Test teardown failed' in done.stdout:
        found = re.search(r'ERROR   \] (\w+)', done.stdout)
    return found and (0, found[1])


def failed_command_test(command, tree, file, test):
    """The same for a test of the command."""
    done = subprocess.run([sys.executable, '-B', tree / 'test/integration/command' / file, test],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, LOCKWIRE_COMMAND=str(command),
                                   PYTHONPATH=str(tree / 'test/lib')))
    found = re.search(r'^FAIL: (\w+)', done.stdout, re.M)
    return found and (0, found[1])


def find(tree, place, old):
    """Returns the path and the content of the file in `place`, a file or a folder, that has `old`.
    It must occur there exactly once."""
    paths = [place] if (tree / place).is_file() else sorted(
        path.relative_to(tree) for path in (tree / place).glob('*.[ch]'))
    contents = [(path, (tree / path).read_text()) for path in paths]
    count = sum(text.count(old) for _, text in contents)
    if count != 1:
        raise RuntimeError(f'{place} has its text {count} times: {old.splitlines()[0]}')
    return next((path, text) for path, text in contents if old in text)


def check(tree):
    bad = 0
    for mutations, _, _ in GROUPS:
        for what, *edits in mutations:
            for place, old, _ in edits:
                try:
                    find(tree, place, old)
                except (RuntimeError, OSError) as error:
                    print(f'{what}: {error}')
                    bad += 1
    sys.exit(bad > 0)


class Worker:
    """A copy of the tree with a build of its own."""

    def __init__(self, source, place):
        self.tree, self.build = place / 'tree', place / 'build'
        shutil.copytree(source, self.tree,
                        ignore=shutil.ignore_patterns('.git', 'build', '__pycache__'))
        run(['meson', 'setup', self.build, self.tree, '-Dbench=false', '-Dtests=enabled',
             '-Doptimization=1', '-Ddebug=false', '-Dwerror=false'])
        self.compile(SIM)

    def compile(self, program):
        run(['ninja', '-C', self.build, '-j1', program])

    def edit(self, place, old, new):
        """Returns the path and the former content of the file."""
        path, text = find(self.tree, place, old)
        (self.tree / path).write_text(text.replace(old, new))
        return path, text

    def compile_mutant(self, edits, program, folder):
        """Leaves a copy of the program in `folder`, with the library in its place next to it."""
        kept = []
        try:
            for edit in edits:
                kept.append(self.edit(*edit))
            self.compile(program)
        finally:
            for path, text in reversed(kept):
                (self.tree / path).write_text(text)
        for name in (program, *LIBRARY):
            if (self.build / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.build / name, folder / name)


def report(what, seeds, why):
    print(f'{seeds:>6}  {what:<50} {why}', flush=True)


def seeds_to_catch(options, folder, program, words):
    """Returns the seed that shows the mutation, or 0 and the test that does, or None."""
    if program == SIM:
        return first_failure(folder / SIM, options.seeds, words)
    found, tries = None, 3 # tests with real clocks pass on a machine that is too slow
    while not found and tries > 0:
        found = (failed_command_test(folder / program, options.source, *words)
                 if program == COMMAND else failed_test(folder / program, words))
        tries -= 1
    return found


class Run:
    """The mutations to be tried, and the results."""

    def __init__(self, options, place):
        self.options, self.place = options, place
        self.todo, self.caught, self.failures = queue.Queue(), [], []
        self.missed = [] # by tests with real clocks: these are tried again at the end
        self.waiting = concurrent.futures.ThreadPoolExecutor(WAITING * options.jobs)

    def fail(self, what, error):
        report(what, '-', f'FAILED: {error}')
        self.failures.append(what)

    def judge(self, what, folder, program, words, again=False):
        try:
            found = seeds_to_catch(self.options, folder, program, words)
            if found:
                report(what, *found)
                self.caught.append(what)
            elif program == SIM:
                self.fail(what, f'not seen in {self.options.seeds} seeds')
            elif again:
                self.fail(what, 'no test fails')
            else:
                self.missed.append((what, folder, program, words))
                return
        except (RuntimeError, OSError, ValueError) as error:
            self.fail(what, error)
        shutil.rmtree(folder, ignore_errors=True)

    def work(self, number):
        try:
            worker = Worker(self.options.source, self.place / str(number))
            for words in sorted({words for _, program, words in GROUPS if program == SIM}):
                if found := first_failure(worker.build / SIM, 10, words):
                    raise RuntimeError(f'seed {found[0]} fails without any mutation: {found[1]}')
        except (RuntimeError, OSError) as error:
            self.failures.append(str(error))
            return
        while True:
            try:
                (what, *edits), program, words = self.todo.get_nowait()
            except queue.Empty:
                return
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.place))
            try:
                worker.compile_mutant(edits, program, folder)
            except (RuntimeError, OSError) as error:
                self.fail(what, error)
                continue
            if program == SIM:
                self.judge(what, folder, program, words)
            else:
                self.waiting.submit(self.judge, what, folder, program, words)

    def play(self):
        """Returns true if all were caught."""
        count = self.todo.qsize()
        threads = [threading.Thread(target=self.work, args=(i,))
                   for i in range(min(self.options.jobs, count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.waiting.shutdown()
        for missed in self.missed:
            self.judge(*missed, again=True)
        for failure in self.failures:
            print(f'FAILED: {failure}')
        print(f'{len(self.caught)} of {count} mutations were caught')
        return len(self.caught) == count and not self.failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, default=4000)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--only', default='')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('source', type=lambda path: pathlib.Path(path).resolve())
    options = parser.parse_args()
    if options.check:
        check(options.source)
    print(' seeds  mutation', flush=True)
    with tempfile.TemporaryDirectory(prefix='lockwire-mutations-') as place:
        mutants = Run(options, pathlib.Path(place))
        for mutations, program, words in sorted(GROUPS, key=lambda group: group[1] == SIM):
            for mutation in mutations: # the simulator's come last, while other tests wait
                if options.only in mutation[0]:
                    mutants.todo.put((mutation, program, words))
        sys.exit(0 if mutants.play() else 1)


main()
