/* SPDX-License-Identifier: MIT */
/* Implements modes/scene.h. holds_of runs one script, which reads the hash, checks it and
 * returns it in words. */
#include "modes/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE "lockwire:2:rwqueue:{x}"

static const char look[] =
    "local f = redis.call('HGETALL', KEYS[1]) "
    "if #f == 0 then return '' end "
    "local has, reads, writes, longest, soonest = {}, {}, {}, 0, math.huge "
    /* TIME is called after PTTL, so that a pause of the server in between is no
     * failure. */
    "local left, now = redis.call('PTTL', KEYS[1]), redis.call('TIME') "
    "now = now[1] * 1000 + math.floor(now[2] / 1000) "
    "local key_ends = now + left "
    "for i = 1, #f, 2 do has[f[i]] = f[i + 1] end "
    "for field, value in pairs(has) do "
    "  local token = field:match('^h:(.+)$') "
    "  if token then "
    "    local ending, kind, owner = value:match('^(%d+) ([rw]) (.+)$') "
    "    local counts = kind == 'r' and reads or writes "
    "    counts[owner] = (counts[owner] or 0) + 1 "
    "    ending = ending == '0' and key_ends or tonumber(ending) "
    "    longest = math.max(longest, ending) "
    "    soonest = math.min(soonest, ending) "
    "  end "
    "end "
    "local words, sum, readers, writer, wcount, bad = {}, 0, 0, '', 0, {} "
    "local said, least, number, named = (has.mode or ''):match( "
    "  '^2 (%d+ %d+ %d+) (%d+) (%d+) (.*)$') "
    "for owner, count in pairs(reads) do "
    "  words[#words + 1] = owner .. '=' .. count "
    "  sum, readers = sum + count, readers + 1 "
    "  local its_count, its_number = (has['r:' .. owner] or ''):match('^(%d+) (%d+)$') "
    "  if tonumber(its_count) ~= count then bad[#bad + 1] = 'r:' .. owner end "
    "  if writes[owner] and its_number ~= number then bad[#bad + 1] = 'two numbers' end "
    "end "
    "for owner, count in pairs(writes) do "
    "  words[#words + 1] = owner .. '*' .. count "
    "  if writer ~= '' then bad[#bad + 1] = 'two writers' end "
    "  writer, wcount = owner, count "
    "end "
    "if said ~= sum + wcount .. ' ' .. readers .. ' ' .. wcount or named ~= writer "
    "  or (number == '0') ~= (wcount == 0) then "
    "  bad[#bad + 1] = 'state ' .. tostring(has.mode) "
    "end "
    "for field in pairs(has) do "
    "  local owner = field:match('^r:(.+)$') "
    "  if owner and not reads[owner] then bad[#bad + 1] = 'left: ' .. field end "
    "  if not field:find('^[ahr]:') and field ~= 'mode' then bad[#bad + 1] = field end "
    "end "
    "if tonumber(least) > soonest then bad[#bad + 1] = 'soonest' end "
    "if key_ends + 2 < longest then bad[#bad + 1] = 'TTL' end "
    "table.sort(words) "
    "if #bad > 0 then words[#words + 1] = 'BUT ' .. table.concat(bad, ', ') end "
    "return (wcount > 0 and 'write ' or 'read ') .. table.concat(words, ' ')";

const char *holds_of(const char *name)
{
    static char words[4096];

    (void)snprintf(words, sizeof(words), "%s", redis_text("EVAL %s 1 %s", look, name));
    return words;
}

struct peer *a, *b;

void two_clients(void)
{
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
}

struct hold *enter_with(struct peer *peer, const char *label, const char *kind,
                        const char *owner, struct lw_acquire_options *options)
{
    options->mode = kind[0] == 'w' ? LW_EXCLUSIVE : LW_SHARED;
    options->permits = (uint32_t)atoi(kind + 1);
    options->owner = owner;
    return acquire_hold_with(peer, label, "x", options);
}

struct hold *enter(struct peer *peer, const char *label, const char *kind,
                   const char *owner, int64_t wait_ms)
{
    return enter_with(peer, label, kind, owner, asking(.wait_ms = wait_ms));
}

struct hold *get_in(struct peer *peer, const char *label, const char *kind,
                    const char *owner)
{
    struct hold *hold = enter(peer, label, kind, owner, STAGE_WAIT_MS);
    char event[32];

    (void)snprintf(event, sizeof(event), "%s granted", label);
    EXPECT(event);
    assert_entered(hold);
    return hold;
}

void get_out(struct hold *hold, int status)
{
    char event[64];

    release_hold(hold);
    (void)snprintf(event, sizeof(event), "%s released %s", hold->label,
                   status_name(status));
    EXPECT(event);
}

long long rw_queue_length(void)
{
    return redis_int("ZCARD " QUEUE);
}

void wait_rw_queued(long long members)
{
    UNTIL(rw_queue_length() == members);
}

void assert_entered(const struct hold *hold)
{
    long long left = redis_int("PTTL x") + 1;
    int64_t remaining = lw_lock_remaining_ms(hold->lock); /* read later than the TTL */

    assert_int_equal(lw_lock_state(hold->lock), LW_HELD);
    if (remaining <= 0 || remaining > left) {
        stage_fail("I1: %s believes in %lld ms, Redis in %lld", hold->label,
                   (long long)remaining, left);
    }
}
