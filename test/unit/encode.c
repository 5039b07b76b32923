/* SPDX-License-Identifier: MIT */
/*
 * The encoding of commands, byte by byte.
 *
 * A command is written as its words, separated by spaces; `~` stands for a space within a
 * word, `%s` for a script's SHA-1. commands() encodes these words independently (by
 * snprintf), and the result is compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "redis/encode.h"
#include "redis/format.h"
#include "redis/resp.h"
#include "scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID "0189d0f0-1111-4222-8333-444455556666"
#define SHA(id) lw__scripts[LW__SCRIPT_##id].sha1

/* An impossible allocation must fail under the sanitizer too, not abort. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static const struct lw__token token = {UUID, 7, 2000};

static void append(char *bytes, size_t size, const char *word, size_t length)
{
    size_t at = strlen(bytes);

    assert_true(at + length + 32 < size);
    (void)snprintf(bytes + at, size - at, "$%zu\r\n%.*s\r\n", length, (int)length, word);
    for (char *space = bytes + at; (space = strchr(space, '~')) != NULL;) {
        *space = ' ';
    }
}

/* Appends the commands of `text`, encoded: one per line, words separated by spaces, `~`
 * for a space within a word. */
static void commands(char *bytes, size_t size, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n"), count = 1, at = strlen(bytes);

        for (size_t i = 0; i < length; i++) {
            count += text[i] == ' ';
        }
        (void)snprintf(bytes + at, size - at, "*%zu\r\n", count);
        while (count-- > 0) {
            size_t word = strcspn(text, " \n");

            append(bytes, size, text, word);
            text += word + (text[word] != '\0');
        }
    }
}

/* Checks that the buffer contains exactly these commands, and empties it. */
static void expect(struct lw__buffer *out, const char *format, ...)
{
    char text[4096], bytes[8192] = "";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    commands(bytes, sizeof(bytes), text);
    assert_false(out->failed);
    assert_int_equal(out->length, strlen(bytes));
    assert_memory_equal(out->data, bytes, out->length);
    lw__buffer_clear(out);
    assert_null(out->data);
    assert_int_equal(out->capacity, 0);
}

static const struct lw__script_env site = {LW__FENCE_KEY, "%d 5e1f", "", NULL};
/* With a prefix, and in a cluster; each script gets the parts of a channel then. */
static const struct lw__script_env team = {"team:lockwire:fence", "%d 5e1f",
                                           "team:", "team:lockwire:2: :{abc}"};
#define TEAM_CHANNEL " team:lockwire:2:~:{abc}"

static void put_release(struct lw__buffer *out, bool eval, const char *name,
                        const struct lw__rw *rw)
{
    lw__encode_release(out, eval,
                       &(struct lw__release_args){name, token, rw, site, false, false});
}

static void test_the_try_is_set_and_incr_in_one_write(void **state)
{
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_try(&out, "job", &token, 30000);
    lw__encode_fence_next(&out, "lockwire:fence");
    expect(&out, "SET job " UUID ":7:2000- NX PX 30000\nINCR lockwire:fence");
    lw__encode_try(&out, "job", &token, 100);
    expect(&out, "SET job " UUID ":7:2000- NX PX 100");
}

static void test_raw_bytes_of_one_command(void **state)
{
    static const char raw[] = "*6\r\n$3\r\nSET\r\n$1\r\nx\r\n$44\r\n" UUID
                              ":7:2000-\r\n$2\r\nNX\r\n$2\r\nPX\r\n$3\r\n100\r\n";
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_try(&out, "x", &token, 100);
    assert_int_equal(out.length, sizeof(raw) - 1);
    assert_memory_equal(out.data, raw, out.length);
    lw__buffer_clear(&out);
}

static void test_numbers_at_their_limits(void **state)
{
    static const struct {
        int64_t number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {9, "9"},
        {10, "10"},
        {-1, "-1"},
        {-10, "-10"},
        {4294967296, "4294967296"},
        {(int64_t)1 << 53, "9007199254740992"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct lw__buffer out = {0};

        lw__resp_command(&out, 1);
        lw__resp_number(&out, cases[i].number);
        expect(&out, "%s", cases[i].text);
    }
}

static void test_a_mutex_is_asked_for(void **state)
{
    struct lw__acquire_args args = {.name = "job",
                                    .token = token,
                                    .site = site,
                                    .lease_ms = 30000,
                                    .ticket = -1,
                                    .fence = true};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- nf~%%d~5e1f~30000",
           SHA(MUTEX_ACQUIRE));
    args.wait = true;
    args.fence = false;
    args.ticket = 1763690000000001;
    args.lease_ms = 2147483647;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- j-1763690000000001~%%d~5e1f~2147483647",
           SHA(MUTEX_ACQUIRE));
    args.keep = true;
    args.ticket = 0;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- k-0~%%d~5e1f~2147483647",
           SHA(MUTEX_ACQUIRE));
}

static void test_a_limit_of_waiters_follows_the_ticket_or_the_permits(void **state)
{
    struct lw__rw rw = {.permits = 7};
    struct lw__acquire_args args = {.name = "job",
                                    .token = token,
                                    .site = site,
                                    .lease_ms = 1000,
                                    .ticket = 5,
                                    .max_waiting = 3,
                                    .wait = true};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- j-5/3~%%d~5e1f~1000",
           SHA(MUTEX_ACQUIRE));
    args.ticket = -1;
    args.max_waiting = INT32_MAX;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- j-/2147483647~%%d~5e1f~1000",
           SHA(MUTEX_ACQUIRE));
    args.rw = &rw;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
           ":7:2000- 1000 r~ 1~-1~7/2147483647~%%d~5e1f",
           SHA(RW_ACQUIRE));
}

static void test_a_read_write_lock_is_asked_for(void **state)
{
    struct lw__rw rw = {.write = true, .owner = "o"};
    struct lw__acquire_args args = {.name = "job",
                                    .token = token,
                                    .rw = &rw,
                                    .site = site,
                                    .lease_ms = 1000,
                                    .ticket = 5,
                                    .wait = true};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
           ":7:2000- 1000 w~o 1~5~0~%%d~5e1f",
           SHA(RW_ACQUIRE));
    rw = (struct lw__rw){.permits = UINT32_MAX};
    args.wait = false;
    args.ticket = -1;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
           ":7:2000- 1000 r~ 0~-1~4294967295~%%d~5e1f",
           SHA(RW_ACQUIRE));
}

static void test_a_drop_is_a_script_or_the_server_s_own_command(void **state)
{
    struct lw__token token = {UUID, 7, 2000};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_fast_release(&out, false, LW__FAST_RELEASE_SCRIPT, "job", &token);
    expect(&out, "EVALSHA %s 1 job " UUID ":7:2000-", SHA(MUTEX_RELEASE_FAST));
    lw__encode_fast_release(&out, false, LW__FAST_RELEASE_DELIFEQ, "job", &token);
    expect(&out, "DELIFEQ job " UUID ":7:2000-");
    lw__encode_fast_release(&out, false, LW__FAST_RELEASE_DELEX, "job", &token);
    expect(&out, "DELEX job IFEQ " UUID ":7:2000-");
}

/* The commands that use only the name's own key, while its slot moves. */
static void test_what_is_said_while_a_slot_moves(void **state)
{
    struct lw__renew_args kept = {"job", {UUID, 7, 2000}, 1000};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_release_one_key(&out, false, "job", "theirs", false);
    expect(&out, "EVALSHA %s 1 job theirs anyway", SHA(MUTEX_RELEASE_FAST));
    lw__encode_release_one_key(&out, false, "job", "theirs", true);
    expect(&out, "EVALSHA %s 1 job theirs", SHA(RW_RELEASE_ONE_KEY));
    lw__encode_inspect(&out, false, "", "job", true, 100, 10);
    expect(&out, "EVALSHA %s 1 job 100 10", SHA(INSPECT));
    lw__encode_rw_keepalive(&out, false, &kept);
    expect(&out, "EVALSHA %s 1 job " UUID ":7:2000- 1000", SHA(RW_KEEPALIVE));
    lw__encode_get_identity(&out, "", UUID);
    expect(&out, "GET lockwire:client:" UUID);
}

static void test_detaching_and_adopting(void **state)
{
    struct lw__buffer out = {0};
    struct lw__rw any = {true, 0, ""}, anna = {false, 3, "anna"};
    struct lw__adopt_args args = {.name = "job",
                                  .previous = "old",
                                  .token = token,
                                  .site = {"lockwire:fence", "%d x", "", NULL},
                                  .lease_ms = 1000};
    struct lw__detach_args detached = {"job", token, false, site, true, 500, "5 x"};

    (void)state;
    lw__encode_detach(&out, false, &detached);
    expect(&out, "EVALSHA %s 1 job " UUID ":7:2000- 500", SHA(MUTEX_DETACH));
    detached = (struct lw__detach_args){"job", token, true, site, false, -30000, NULL};
    lw__encode_detach(&out, false, &detached);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
           ":7:2000- -30000",
           SHA(RW_DETACH));
    lw__encode_adopt(&out, false, &args);
    expect(&out, "EVALSHA %s 2 job lockwire:fence old " UUID ":7:2000- 1000 -",
           SHA(MUTEX_ADOPT));
    args.fence = true;
    lw__encode_adopt(&out, false, &args);
    expect(&out, "EVALSHA %s 2 job lockwire:fence old " UUID ":7:2000- 1000 f",
           SHA(MUTEX_ADOPT));
    args.rw = &any;
    lw__encode_adopt(&out, false, &args);
    expect(&out, "EVALSHA %s 2 job lockwire:fence old " UUID ":7:2000- 1000 w~",
           SHA(RW_ADOPT));
    args.rw = &anna;
    lw__encode_adopt(&out, false, &args);
    expect(&out, "EVALSHA %s 2 job lockwire:fence old " UUID ":7:2000- 1000 r~anna",
           SHA(RW_ADOPT));
}

static void test_a_description_is_in_a_key_of_its_own_or_in_the_hash(void **state)
{
    static const char about[] = "5 app host 7 root deploy";
    struct lw__buffer out = {0};
    struct lw__rw rw = {.write = true, .owner = "bob"};
    struct lw__detach_args detached = {"job", token, false, site, false, 500, about};
    struct lw__adopt_args adopted = {.name = "job",
                                     .previous = "old",
                                     .token = token,
                                     .site = {"lockwire:fence", "%d x", "", NULL},
                                     .lease_ms = 1000,
                                     .about = about};

    (void)state;
    lw__encode_describe(&out, false, "", "job", &token, about);
    expect(&out,
           "EVALSHA %s 2 job lockwire:2:holder:{job} " UUID
           ":7:2000- 5~app~host~7~root~deploy",
           SHA(DESCRIBE));
    lw__encode_detach(&out, false, &detached);
    expect(&out,
           "EVALSHA %s 4 job lockwire:2:queue:{job} lockwire:fence "
           "lockwire:2:holder:{job} " UUID ":7:2000- 500 5~app~host~7~root~deploy",
           SHA(MUTEX_DETACH));
    lw__encode_adopt(&out, false, &adopted);
    expect(&out,
           "EVALSHA %s 3 job lockwire:fence lockwire:2:holder:{job} old " UUID
           ":7:2000- 1000 - 5~app~host~7~root~deploy",
           SHA(MUTEX_ADOPT));
    lw__encode_release(
        &out, false,
        &(struct lw__release_args){"job{t}", token, NULL, site, false, true});
    expect(&out,
           "EVALSHA %s 4 job{t} lockwire:2:queue::job{t} lockwire:fence "
           "lockwire:2:holder::job{t} " UUID ":7:2000- %%d~5e1f",
           SHA(MUTEX_RELEASE));
    detached.rw = true;
    lw__encode_detach(&out, false, &detached);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
           ":7:2000- 500 5~app~host~7~root~deploy",
           SHA(RW_DETACH));
    adopted.rw = &rw;
    lw__encode_adopt(&out, false, &adopted);
    expect(&out,
           "EVALSHA %s 2 job lockwire:fence old " UUID
           ":7:2000- 1000 w~bob 5~app~host~7~root~deploy",
           SHA(RW_ADOPT));
}

static void test_messages_to_a_holder(void **state)
{
    static const char token[] = UUID ":7:2000-",
                      plain[] = "*3\r\n$7\r\nPUBLISH\r\n$47\r\nlockwire:2:" UUID
                                "\r\n$50\r\nv " UUID ":7:2000- job\r\n",
                      sharded[] = "*3\r\n$8\r\nSPUBLISH\r\n",
                      asked[] = "\r\n$50\r\ny " UUID ":7:2000- job\r\n";
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_message(&out, 'v', "", LW__NO_SLOT, "job", token);
    assert_int_equal(out.length, sizeof(plain) - 1);
    assert_memory_equal(out.data, plain, sizeof(plain) - 1);
    lw__buffer_clear(&out);
    lw__encode_message(&out, 'y', "", 5, "job", token);
    assert_memory_equal(out.data, sharded, sizeof(sharded) - 1);
    assert_non_null(memmem(out.data, out.length, UUID ":{", strlen(UUID ":{")));
    assert_non_null(memmem(out.data, out.length, asked, strlen(asked)));
    lw__buffer_clear(&out);
}

static void test_a_step_through_all_keys(void **state)
{
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_list(&out, false, "", "0", 250, NULL);
    expect(&out, "EVALSHA %s 0 0 250", SHA(LIST));
    lw__encode_list(&out, false, "", "18446744073709551615", 250, "job:*");
    expect(&out, "EVALSHA %s 0 18446744073709551615 250 job:*", SHA(LIST));
}

static void test_each_key_begins_with_the_prefix(void **state)
{
    struct lw__rw rw = {.write = true, .owner = "bob"};
    struct lw__acquire_args asks = {
        .name = "team:job", .token = token, .site = team, .lease_ms = 1000, .ticket = -1};
    struct lw__detach_args detached = {"team:job", token, false, team, false, 500, NULL};
    struct lw__adopt_args adopted = {.name = "team:job",
                                     .previous = "old",
                                     .token = token,
                                     .rw = &rw,
                                     .site = team,
                                     .lease_ms = 1000};
    struct lw__renew_args renewed[] = {{"team:a", token, 500}, {"team:b", token, 500}};
    const char *uuids[] = {UUID};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_acquire(&out, false, &asks);
    expect(
        &out,
        "EVALSHA %s 3 team:job team:lockwire:2:queue:{team:job} team:lockwire:fence " UUID
        ":7:2000- n-~%%d~5e1f~1000" TEAM_CHANNEL,
        SHA(MUTEX_ACQUIRE));
    lw__encode_release(&out, false,
                       &(struct lw__release_args){"{team}:job",
                                                  token,
                                                  NULL,
                                                  {"{team}:lockwire:fence", "%d 5e1f",
                                                   "{team}:", "{team}:lockwire:2: "},
                                                  false,
                                                  true});
    expect(&out,
           "EVALSHA %s 4 {team}:job {team}:lockwire:2:queue::{team}:job "
           "{team}:lockwire:fence {team}:lockwire:2:holder::{team}:job " UUID
           ":7:2000- %%d~5e1f {team}:lockwire:2:~",
           SHA(MUTEX_RELEASE));
    lw__encode_detach(&out, false, &detached);
    expect(
        &out,
        "EVALSHA %s 3 team:job team:lockwire:2:queue:{team:job} team:lockwire:fence " UUID
        ":7:2000- 500 %s" TEAM_CHANNEL,
        SHA(MUTEX_DETACH), "");
    lw__encode_adopt(&out, false, &adopted);
    expect(&out,
           "EVALSHA %s 2 team:job team:lockwire:fence old " UUID
           ":7:2000- 1000 w~bob %s" TEAM_CHANNEL,
           SHA(RW_ADOPT), "");
    lw__encode_rw_renew(&out, false, 2, renewed, &team);
    expect(&out,
           "EVALSHA %s 5 team:lockwire:fence team:a team:lockwire:2:rwqueue:{team:a} "
           "team:b team:lockwire:2:rwqueue:{team:b} %%d~5e1f " UUID ":7:2000- " UUID
           ":7:2000- 500 500" TEAM_CHANNEL,
           SHA(RW_RENEW));
    lw__encode_get_identities(&out, "team:", 1, uuids);
    expect(&out, "MGET team:lockwire:client:" UUID);
    lw__encode_get_guard(&out, "team:");
    expect(&out, "GET team:lockwire:guard");
    lw__encode_list(&out, false, "team:", "0", 250, NULL);
    expect(&out, "EVALSHA %s 0 0 250 team:*", SHA(LIST));
}

static void test_a_release_of_each_kind(void **state)
{
    static const char *const leavers[] = {"%d~5e1f~w0~bob", "%d~5e1f~r3~", "%d~5e1f"};
    struct lw__rw rw = {.write = true, .owner = "bob"};
    struct lw__buffer out = {0};

    (void)state;
    put_release(&out, false, "job", NULL);
    expect(&out,
           "EVALSHA %s 3 job lockwire:2:queue:{job} lockwire:fence " UUID
           ":7:2000- %%d~5e1f",
           SHA(MUTEX_RELEASE));
    for (int i = 0; i < 3; i++) {
        if (i == 2) {
            lw__encode_break(&out, false, "job", UUID ":7:2000-", true, &site);
        } else {
            put_release(&out, false, "job", &rw);
        }
        expect(&out,
               "EVALSHA %s 3 job lockwire:2:rwqueue:{job} lockwire:fence " UUID
               ":7:2000- %s",
               SHA(RW_RELEASE), leavers[i]);
        rw = (struct lw__rw){.permits = 3};
    }
}

static void test_a_short_release_passes_only_the_hold(void **state)
{
    struct lw__rw rw = {.write = true, .owner = "bob"};
    struct lw__release_args args = {"job", {UUID, 7, 2000}, &rw, site, true, true};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_release(&out, false, &args);
    expect(&out, "EVALSHA %s 2 job lockwire:2:rwqueue:{job} h:" UUID ":7:2000-",
           SHA(RW_RELEASE));
}

static void test_renewals_go_out_in_batches(void **state)
{
    const struct lw__renew_args args[] = {
        {"a", {UUID, 1, 100}, 1000},
        {"b{t}", {UUID, 2, 200}, 1},
    };
    const struct lw__renew_args alike[] = {args[0], {"c", {UUID, 3, 100}, 1000}};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_renew(&out, false, 2, args, NULL);
    expect(&out, "EVALSHA %s 2 a b{t} " UUID ":1:100- " UUID ":2:200- 1000 1",
           SHA(MUTEX_RENEW));
    lw__encode_rw_renew(&out, false, 2, args, &site);
    expect(&out,
           "EVALSHA %s 5 lockwire:fence a lockwire:2:rwqueue:{a} b{t} "
           "lockwire:2:rwqueue::b{t} %%d~5e1f " UUID ":1:100- " UUID ":2:200- 1000 1",
           SHA(RW_RENEW));
    lw__encode_redisson_renew(&out, false, 2, args, NULL);
    expect(&out, "EVALSHA %s 2 a b{t} " UUID ":1 " UUID ":2 1000 1", SHA(REDISSON_RENEW));
    lw__encode_renew(&out, false, 2, alike, NULL);
    expect(&out, "EVALSHA %s 2 a c " UUID ":1:100- " UUID ":3:100- 1000",
           SHA(MUTEX_RENEW));
    lw__encode_renew(&out, false, 0, args, NULL);
    expect(&out, "EVALSHA %s 0", SHA(MUTEX_RENEW));
}

static void test_the_fence_counter_is_seeded_and_kept(void **state)
{
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_fence_seed(&out, false, site.fence);
    expect(&out, "EVALSHA %s 1 lockwire:fence", SHA(FENCE_SEED));
    lw__encode_fence_extend(&out, site.fence);
    expect(&out, "PEXPIRE lockwire:fence 86400000");
}

static void test_the_fence_counter_is_raised_for_a_holder(void **state)
{
    struct lw__token token = {UUID, 7, 2000};
    struct lw__buffer out = {0};

    (void)state;
    lw__encode_fence_raise(&out, false, site.fence, UINT64_C(9007199254740976), "job",
                           &token);
    expect(&out, "EVALSHA %s 2 lockwire:fence job 9007199254740976 " UUID ":7:2000-",
           SHA(FENCE_RAISE));
}

static void test_eval_carries_the_text(void **state)
{
    const struct lw__script *script = &lw__scripts[LW__SCRIPT_MUTEX_RELEASE];
    struct lw__buffer out = {0};
    char head[64], tail[256];
    size_t before;

    (void)state;
    put_release(&out, true, "job", NULL);
    (void)snprintf(head, sizeof(head), "*8\r\n$4\r\nEVAL\r\n$%zu\r\n", script->length);
    (void)snprintf(tail, sizeof(tail),
                   "\r\n$1\r\n3\r\n$3\r\njob\r\n$22\r\nlockwire:2:queue:{job}\r\n"
                   "$14\r\nlockwire:fence\r\n$44\r\n" UUID
                   ":7:2000-\r\n$7\r\n%%d 5e1f\r\n");
    before = strlen(head);
    assert_int_equal(out.length, before + script->length + strlen(tail));
    assert_memory_equal(out.data, head, before);
    assert_memory_equal(out.data + before, script->text, script->length);
    assert_memory_equal(out.data + before + script->length, tail, strlen(tail));
    lw__buffer_clear(&out);
}

/* Each queue is in the cluster slot of its name, and the queues of `x` and `{x}`
 * differ. */
static void test_names_with_and_without_tags(void **state)
{
    static const struct {
        const char *name, *queue;
    } cases[] = {
        {"x", "lockwire:2:queue:{x}"},
        {"{x}", "lockwire:2:queue::{x}"},
        {"user:{42}:gift", "lockwire:2:queue::user:{42}:gift"},
        {"a{b", "lockwire:2:queue:{a{b}"},
        {"\xc3\xa4", "lockwire:2:queue:{\xc3\xa4}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct lw__buffer out = {0};

        put_release(&out, false, cases[i].name, NULL);
        expect(&out, "EVALSHA %s 3 %s %s lockwire:fence " UUID ":7:2000- %%d~5e1f",
               SHA(MUTEX_RELEASE), cases[i].name, cases[i].queue);
    }
}

static void test_the_longest_name_and_owner(void **state)
{
    struct lw__rw rw = {.write = true};
    struct lw__acquire_args args = {
        .name = NULL, .token = token, .rw = &rw, .site = site, .ticket = -1};
    struct lw__buffer out = {0};
    char name[513], owner[129];

    (void)state;
    memset(name, 'n', 512);
    memset(owner, 'o', 128);
    name[512] = owner[128] = '\0';
    args.name = name;
    rw.owner = owner;
    lw__encode_acquire(&out, false, &args);
    expect(&out,
           "EVALSHA %s 3 %s lockwire:2:rwqueue:{%s} lockwire:fence " UUID
           ":7:2000- 0 w~%s 0~-1~0~%%d~5e1f",
           SHA(RW_ACQUIRE), name, name, owner);
}

static void test_commands_pile_up_in_one_buffer(void **state)
{
    struct lw__buffer out = {0};
    char *expected = NULL;
    size_t one, count = 1000;

    (void)state;
    lw__encode_fence_extend(&out, site.fence);
    one = out.length;
    expected = malloc(one);
    assert_non_null(expected);
    memcpy(expected, out.data, one);
    for (size_t i = 1; i < count; i++) {
        lw__encode_fence_extend(&out, site.fence);
    }
    assert_int_equal(out.length, count * one);
    assert_true(out.capacity >= out.length);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(out.data + i * one, expected, one);
    }
    free(expected);
    lw__buffer_clear(&out);
}

/* No address space has that much: 2^48 bytes. */
static void test_memory_that_is_not_there_sticks(void **state)
{
    size_t full = sizeof(size_t) == 8 ? SIZE_MAX >> 17 : SIZE_MAX / 4 + 1;
    struct lw__buffer out = {.data = NULL, .length = full, .capacity = full};

    (void)state;
    lw__encode_try(&out, "job", &token, 30000);
    assert_true(out.failed);
    assert_null(out.data);
    out.length = out.capacity = 0; /* enough memory again: the buffer stays void */
    lw__encode_fence_extend(&out, site.fence);
    assert_true(out.failed);
    assert_null(out.data);
    assert_int_equal(out.length, 0);
    lw__buffer_clear(&out);
    assert_false(out.failed);
    lw__encode_fence_extend(&out, site.fence);
    expect(&out, "PEXPIRE lockwire:fence 86400000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_try_is_set_and_incr_in_one_write),
        cmocka_unit_test(test_raw_bytes_of_one_command),
        cmocka_unit_test(test_numbers_at_their_limits),
        cmocka_unit_test(test_a_mutex_is_asked_for),
        cmocka_unit_test(test_a_limit_of_waiters_follows_the_ticket_or_the_permits),
        cmocka_unit_test(test_a_read_write_lock_is_asked_for),
        cmocka_unit_test(test_a_drop_is_a_script_or_the_server_s_own_command),
        cmocka_unit_test(test_what_is_said_while_a_slot_moves),
        cmocka_unit_test(test_detaching_and_adopting),
        cmocka_unit_test(test_a_description_is_in_a_key_of_its_own_or_in_the_hash),
        cmocka_unit_test(test_messages_to_a_holder),
        cmocka_unit_test(test_a_step_through_all_keys),
        cmocka_unit_test(test_each_key_begins_with_the_prefix),
        cmocka_unit_test(test_a_release_of_each_kind),
        cmocka_unit_test(test_a_short_release_passes_only_the_hold),
        cmocka_unit_test(test_renewals_go_out_in_batches),
        cmocka_unit_test(test_the_fence_counter_is_seeded_and_kept),
        cmocka_unit_test(test_the_fence_counter_is_raised_for_a_holder),
        cmocka_unit_test(test_eval_carries_the_text),
        cmocka_unit_test(test_names_with_and_without_tags),
        cmocka_unit_test(test_the_longest_name_and_owner),
        cmocka_unit_test(test_commands_pile_up_in_one_buffer),
        cmocka_unit_test(test_memory_that_is_not_there_sticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
