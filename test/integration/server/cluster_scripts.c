/* SPDX-License-Identifier: MIT */
/*
 * Every script, as it is embedded, on a cluster: it accesses no key that it did not
 * declare, and all the keys that it declares are in one slot. The scripts are called by
 * an account that may access only the keys of the call. So the server itself logs every
 * access to another key, even if the script ignores the error (ACL LOG), and it refuses
 * keys of two slots. Independent of the scripts' replies.
 *
 * Usual course: each script is called on its main paths, then thousands of times at
 * random.
 */
#include "cluster_scene.h"
#include "scripts.h"

#include <stdio.h>
#include <string.h>

#define LOCK "lock"
#define LOCK_QUEUE "lockwire:2:queue:{lock}"
#define LOCK_FENCE "lockwire:fence:{lock}"
#define LOCK_CHANNEL "lockwire:2: :{lock}"
#define LOCK_KEYS LOCK, LOCK_QUEUE, LOCK_FENCE
#define LOCK_HOLDER "lockwire:2:holder:{lock}"
#define ABOUT "5 app host 7 root"
#define GUARD "lockwire:guard"
#define BESIDE "beside:{lock}"
#define BOOK "book"
#define BOOK_QUEUE "lockwire:2:rwqueue:{book}"
#define BOOK_FENCE "lockwire:fence:{book}"
#define BOOK_CHANNEL "lockwire:2: :{book}"
#define BOOK_KEYS BOOK, BOOK_QUEUE, BOOK_FENCE
#define BOOK_HOLDER "lockwire:2:holder:{book}"
#define SHELF "shelf:{book}"
#define SHELF_QUEUE "lockwire:2:rwqueue::shelf:{book}"
#define NUMBERS "%d 5e12fe12"
#define CLOSED "- " /* in place of NUMBERS while the guard is closed */
#define LEASE "60000"
#define JOINS "jf " NUMBERS     /* a request that joins the queue (mutex_acquire.lua) */
#define ASKS_ONLY "n- " NUMBERS /* it does not join, and needs no fencing token */
#define CLIENTS 3
#define CALLS 4000
#define WORDS 16

static struct {
    int node; /* the node that owns the names of the present calls */
    redisContext *narrow, *heard[CLIENTS];
    bool shards; /* this version has sharded channels, by which a lock is handed over */
    bool called[LW__SCRIPT_COUNT];
} scene;

/* ---- the account, and its refusals ---- */

static void grant(size_t count, const char *const *keys)
{
    const char *words[8 + WORDS] = {"ACL",    "SETUSER", "narrow",      "on",
                                    "nopass", "+@all",   "allchannels", "resetkeys"};
    char patterns[WORDS][64];
    redisReply *reply;

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(patterns[i], sizeof(*patterns), "~%s", keys[i]);
        words[8 + i] = patterns[i];
    }
    reply =
        redisCommandArgv(cluster_server(scene.node)->admin, 8 + (int)count, words, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        stage_fail("ACL SETUSER: %s", reply != NULL ? reply->str : "no answer");
    }
    freeReplyObject(reply);
}

/* Returns how many forbidden keys were accessed since the last call. */
static size_t refusals(char *ret, size_t size)
{
    redisReply *log = server_command(cluster_server(scene.node), "ACL LOG");
    size_t count = log->elements;

    ret[0] = '\0';
    for (size_t i = 0; count > 0 && i + 1 < log->element[0]->elements; i += 2) {
        if (strcmp(log->element[0]->element[i]->str, "object") == 0) {
            (void)snprintf(ret, size, "%s", log->element[0]->element[i + 1]->str);
        }
    }
    freeReplyObject(log);
    freeReplyObject(server_command(cluster_server(scene.node), "ACL LOG RESET"));
    return count;
}

static redisReply *eval(const char *text, size_t keys, size_t count, const char **words)
{
    const char *all[3 + WORDS] = {"EVAL", text};
    char number[8];
    redisReply *reply;

    (void)snprintf(number, sizeof(number), "%zu", keys);
    all[2] = number;
    memcpy(all + 3, words, count * sizeof(*words));
    grant(keys, words);
    reply = redisCommandArgv(scene.narrow, 3 + (int)count, all, NULL);
    if (reply == NULL) {
        stage_fail("no answer: %s", scene.narrow->errstr);
    }
    return reply;
}

/* Takes keys and arguments; the last one is NULL. */
static void run(enum lw__script_id script, size_t keys, ...)
{
    const char *words[WORDS], *name = lw__scripts[script].name;
    char touched[256];
    redisReply *reply;
    size_t count = 0;
    va_list list;

    va_start(list, keys);
    for (const char *word;
         count < WORDS && (word = va_arg(list, const char *)) != NULL;) {
        words[count++] = word;
    }
    va_end(list);
    reply = eval(lw__scripts[script].text, keys, count, words);
    if (reply->type == REDIS_REPLY_ERROR) {
        stage_fail("%s: %s", name, reply->str);
    }
    freeReplyObject(reply);
    if (refusals(touched, sizeof(touched)) > 0) {
        stage_fail("%s touched what it did not declare: %s", name, touched);
    }
    scene.called[script] = true;
}

/* ---- clients with subscribers, which scripts count and send messages to ---- */

static const char *uuid(int client)
{
    static char texts[4][40];
    static int next;
    char *text = texts[next++ % 4];

    (void)snprintf(text, sizeof(texts[0]), "%08d-0000-4000-8000-00000000c0de", client);
    return text;
}

/* Returns a token; valid until the eighth call after it. */
static const char *token(int client, int n)
{
    static char texts[8][80];
    static int next;
    char *text = texts[next++ % 8];

    (void)snprintf(text, sizeof(texts[0]), "%s:%d:20000-", uuid(client), n);
    return text;
}

static void leave(bool in_good_order)
{
    (void)in_good_order;
    redisFree(scene.narrow);
    for (int i = 0; i < CLIENTS; i++) {
        redisFree(scene.heard[i]);
    }
    memset(&scene, 0, sizeof(scene));
}

static redisContext *connect_to(int node)
{
    redisContext *link = redisConnectUnix(cluster_server(node)->path);

    if (link == NULL || link->err != 0) {
        stage_fail("no connection to node %d", node);
    }
    return link;
}

/* Subscribes to the client's channel in the slot, as a waiter does. */
static void listen_to(int client, const char *tag)
{
    redisReply *reply;

    scene.heard[client] = connect_to(scene.node);
    reply = redisCommand(scene.heard[client], "SSUBSCRIBE lockwire:2:%s:%s", uuid(client),
                         tag);
    assert_non_null(reply);
    scene.shards = reply->type != REDIS_REPLY_ERROR; /* Redis 7 and later */
    freeReplyObject(reply);
}

static void assert_told(int client)
{
    struct timeval limit = {.tv_sec = 30};
    void *reply = NULL;

    if (scene.shards) {
        redisSetTimeout(scene.heard[client], limit);
        assert_int_equal(redisGetReply(scene.heard[client], &reply), REDIS_OK);
        assert_string_equal(((redisReply *)reply)->element[0]->str, "smessage");
        freeReplyObject(reply);
    }
}

/* Prepares calls for this name, at the node that owns its slot. */
static void stand_at(const char *name, const char *tag)
{
    char touched[256];

    leave(true);
    scene.node = cluster_owner(cluster_slot(name));
    grant(0, NULL);
    (void)refusals(touched, sizeof(touched));
    scene.narrow = connect_to(scene.node);
    freeReplyObject(redisCommand(scene.narrow, "AUTH narrow none"));
    for (int i = 0; i < CLIENTS; i++) {
        listen_to(i, tag);
    }
}

static void start(void)
{
    stage_at_exit(leave);
    cluster_set(3, 0, "");
}

/* ---- the test can fail ---- */

static void another_key_is_seen(void **state)
{
    static const char *const bad[] = {
        "return redis.pcall('GET', 'other:{lock}') and 1",
        "return redis.pcall('GET', 'elsewhere') and 1",
        "redis.pcall('SET', KEYS[1] .. 's', 1) return 1",
    };
    const char *words[] = {LOCK};
    char touched[256];

    (void)state;
    start();
    stand_at(LOCK, "{lock}");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        freeReplyObject(eval(bad[i], 1, 1, words));
        assert_int_equal(refusals(touched, sizeof(touched)), 1);
    }
}

static void another_slot_is_refused(void **state)
{
    const char *words[] = {LOCK, BOOK, LOCK_FENCE};
    redisReply *reply;

    (void)state;
    start();
    stand_at(LOCK, "{lock}");
    reply = eval(lw__scripts[LW__SCRIPT_MUTEX_RELEASE].text, 3, 3, words);
    assert_begins(reply->str, "CROSSSLOT ");
    freeReplyObject(reply);
}

/* ---- each script on its main paths ---- */

static void seed(const char *fence)
{
    run(LW__SCRIPT_FENCE_SEED, 1, fence, NULL);
}

static void raise_fence(const char *mine)
{
    run(LW__SCRIPT_FENCE_RAISE, 2, LOCK_FENCE, LOCK, "2000000000000000", mine, NULL);
}

static void acquire(const char *mine, const char *how)
{
    char how_long[160];

    (void)snprintf(how_long, sizeof(how_long), "%s " LEASE, how);
    run(LW__SCRIPT_MUTEX_ACQUIRE, 3, LOCK_KEYS, mine, how_long, LOCK_CHANNEL, NULL);
}

static void release(const char *mine)
{
    run(LW__SCRIPT_MUTEX_RELEASE, 4, LOCK_KEYS, LOCK_HOLDER, mine, NUMBERS, LOCK_CHANNEL,
        NULL);
}

static void take_turn(const char *old, const char *next, const char *how)
{
    release(old);
    acquire(next, how);
}

static void drop(const char *mine)
{
    run(LW__SCRIPT_MUTEX_RELEASE_FAST, 1, LOCK, mine, NULL);
}

static void detach(const char *mine)
{
    run(LW__SCRIPT_MUTEX_DETACH, 4, LOCK_KEYS, LOCK_HOLDER, mine, LEASE, ABOUT,
        LOCK_CHANNEL, NULL);
}

static void adopt(const char *old, const char *mine)
{
    run(LW__SCRIPT_MUTEX_ADOPT, 3, LOCK, LOCK_FENCE, LOCK_HOLDER, old, mine, LEASE, "f",
        ABOUT, LOCK_CHANNEL, NULL);
}

static void describe(const char *mine)
{
    run(LW__SCRIPT_DESCRIBE, 2, LOCK, LOCK_HOLDER, mine, ABOUT, NULL);
}

static void renew(const char *mine, const char *other)
{
    run(LW__SCRIPT_MUTEX_RENEW, 2, LOCK, BESIDE, mine, other, LEASE, NULL);
}

static void inspect_lock(const char *most_waiters)
{
    run(LW__SCRIPT_INSPECT, 4, LOCK, LOCK_QUEUE, "lockwire:2:rwqueue:{lock}", LOCK_HOLDER,
        "100", most_waiters, NULL);
}

/* Sends a command as the administrator: to expire a lease, or to write a foreign key. */
static void order(const char *command)
{
    freeReplyObject(server_command(cluster_server(scene.node), command));
}

/* The guard is for servers outside a cluster. Here its key has a slot of its own. */
static void a_guard_lives(void)
{
    stand_at(GUARD, "");
    run(LW__SCRIPT_GUARD, 1, GUARD, "one", "15000", "0", NULL);
    run(LW__SCRIPT_GUARD, 1, GUARD, "one", "15000", "0", NULL);
    run(LW__SCRIPT_GUARD, 1, GUARD, "another", "15000", "20000", NULL);
    run(LW__SCRIPT_GUARD, 1, GUARD, "another", "20000", "0", NULL);
}

static void a_mutex_lives(void)
{
    stand_at(LOCK, "{lock}");
    seed(LOCK_FENCE);
    acquire(token(0, 1), JOINS); /* free */
    raise_fence(token(0, 1));    /* as for a quorum */
    describe(token(0, 1));
    describe(token(1, 1));           /* it does not hold */
    acquire(token(1, 1), ASKS_ONLY); /* refused */
    acquire(token(1, 2), JOINS);     /* the first to queue: it marks the name */
    acquire(token(2, 1), JOINS);     /* behind it */
    acquire(token(9, 1), JOINS);     /* without a subscriber */
    renew(token(0, 1), token(1, 9)); /* one is held */
    inspect_lock("100");             /* with its queue */
    drop(token(0, 1));               /* no effect on a marked name */
    detach(token(0, 1));             /* the first waiter becomes the standby */
    assert_told(1);
    release(token(0, 1)); /* handed over; the next waiter becomes the standby */
    assert_told(1);
    assert_told(2);
    take_turn(token(1, 2), token(1, 3), JOINS); /* handed over; joins the queue */
    release(token(2, 1));                       /* the dead waiter is skipped */
    take_turn(token(1, 3), token(1, 4), JOINS); /* without waiters */
    take_turn(token(1, 3), token(1, 4), JOINS); /* repeated */
    take_turn(token(2, 3), token(2, 4), JOINS); /* neither is in Redis */
    release(token(2, 9));                       /* not held */
    detach(token(1, 4));
    detach(token(2, 9));             /* not held */
    adopt(token(1, 4), token(2, 5)); /* a new holder */
    adopt(token(1, 4), token(2, 5)); /* repeated */
    adopt(token(1, 4), token(2, 6)); /* the token is gone */
    drop(token(2, 5));
    inspect_lock("0"); /* as before a break */
}

static void a_mutex_ends(void)
{
    stand_at(LOCK, "{lock}");
    order("DEL " LOCK_FENCE); /* the fence counter starts again */
    acquire(token(0, 5), JOINS);
    acquire(token(1, 5), JOINS);
    order("DEL " LOCK);                   /* its lease expires */
    acquire(token(2, 5), "jf1 " NUMBERS); /* with a ticket, but another waiter is first */
    acquire(token(1, 5), JOINS);
    run(LW__SCRIPT_MUTEX_RELEASE, 3, LOCK_KEYS, token(1, 5), CLOSED, NULL);
    release(token(1, 5));
    order("DEL " LOCK " " LOCK_QUEUE);
    order("HSET " LOCK " a 1"); /* foreign keys */
    order("SET " LOCK_QUEUE " 1");
    acquire(token(0, 6), JOINS);
    take_turn(token(0, 6), token(0, 7), JOINS);
    release(token(0, 6));
    renew(token(0, 6), token(0, 6));
    drop(token(0, 6));
    detach(token(0, 6));
    adopt(token(0, 6), token(0, 7));
    inspect_lock("100");
    order("DEL " LOCK " " LOCK_QUEUE);
}

static void book_acquire(const char *mine, const char *asker, const char *wait)
{
    run(LW__SCRIPT_RW_ACQUIRE, 3, BOOK_KEYS, mine, LEASE, asker, wait, BOOK_CHANNEL,
        NULL);
}

static void book_release(const char *mine, const char *leaver)
{
    run(LW__SCRIPT_RW_RELEASE, 3, BOOK_KEYS, mine, leaver, BOOK_CHANNEL, NULL);
}

static void book_renew(const char *mine, const char *other)
{
    run(LW__SCRIPT_RW_RENEW, 5, BOOK_FENCE, BOOK, BOOK_QUEUE, SHELF, SHELF_QUEUE, NUMBERS,
        mine, other, LEASE, LEASE, BOOK_CHANNEL, NULL);
}

/* Renews by the key of the name alone, as while its slot moves. */
static void book_keep(const char *mine)
{
    run(LW__SCRIPT_RW_KEEPALIVE, 1, BOOK, mine, LEASE, NULL);
}

static void book_drop(const char *mine)
{
    run(LW__SCRIPT_RW_RELEASE_ONE_KEY, 1, BOOK, mine, NULL);
}

static void book_detach(const char *mine)
{
    run(LW__SCRIPT_RW_DETACH, 3, BOOK_KEYS, mine, LEASE, ABOUT, BOOK_CHANNEL, NULL);
}

static void book_adopt(const char *old, const char *mine, const char *asker)
{
    run(LW__SCRIPT_RW_ADOPT, 2, BOOK, BOOK_FENCE, old, mine, LEASE, asker, ABOUT,
        BOOK_CHANNEL, NULL);
}

#define WAITS "1 -1 0 " NUMBERS
#define ONCE "0 -1 0 " NUMBERS

static void a_readwrite_lock_lives(void)
{
    stand_at(BOOK, "{book}");
    seed(BOOK_FENCE);
    book_acquire(token(0, 1), "r ann", WAITS); /* free */
    book_acquire(token(1, 1), "r bob", WAITS); /* shared */
    book_acquire(token(0, 2), "r ann", WAITS); /* re-entered */
    book_acquire(token(2, 1), "w cat", ONCE);  /* refused */
    book_acquire(token(2, 2), "w cat", WAITS); /* waits */
    book_acquire(token(9, 1), "r dan", WAITS); /* behind it */
    book_acquire(token(0, 3), "w ann", WAITS); /* an upgrade, which comes first */
    book_acquire(token(1, 3), "w bob", WAITS); /* a deadlock: neither could be granted */
    book_renew(token(0, 1), token(1, 1));
    run(LW__SCRIPT_DESCRIBE, 2, BOOK, BOOK_HOLDER, token(0, 1), ABOUT, NULL);
    run(LW__SCRIPT_DESCRIBE, 2, BOOK, BOOK_HOLDER, token(9, 1), ABOUT, NULL); /* waits */
    run(LW__SCRIPT_INSPECT, 4, BOOK, "lockwire:2:queue:{book}", BOOK_QUEUE, BOOK_HOLDER,
        "100", "100", NULL);
    book_release(token(1, 1), NUMBERS " r0 bob"); /* the upgrade is granted */
    book_release(token(0, 3), NUMBERS " w0 ann");
    book_release(token(0, 2), NUMBERS " r0 ann");
    book_detach(token(0, 1)); /* the writer becomes the standby */
    assert_told(2);
    book_release(token(0, 1), NUMBERS " r0 ann"); /* handed to the writer */
    assert_told(2);
    book_renew(token(2, 2), token(2, 2));
    book_keep(token(2, 2));
    book_drop(token(1, 9));                       /* not held */
    book_release(token(2, 2), NUMBERS " w0 cat"); /* the dead reader is skipped */
    book_release(token(2, 2), NUMBERS " w0 cat");
}

static void a_readwrite_lock_ends(void)
{
    stand_at(BOOK, "{book}");
    order("DEL " BOOK_FENCE);
    book_acquire(token(0, 4), "r ann", WAITS);
    book_acquire(token(1, 4), "r bob", WAITS);
    book_keep(token(0, 4));
    book_detach(token(0, 4));
    book_adopt(token(0, 4), token(2, 4), "r ");
    book_adopt(token(0, 4), token(2, 4), "r "); /* repeated */
    book_adopt(token(0, 4), token(2, 5), "r "); /* the token is gone */
    book_adopt(token(1, 4), token(2, 5), "w "); /* of another kind */
    book_drop(token(2, 4));
    book_detach(token(1, 4)); /* the only hold */
    book_drop(token(1, 4));
    book_keep(token(1, 4));
    book_acquire(token(0, 5), "w ", "1 -1 0 " NUMBERS);
    book_acquire(token(1, 5), "r ", "1 -1 3 " NUMBERS);
    order("DEL " BOOK);
    book_renew(token(0, 5), token(1, 5)); /* gone: hands over */
    book_release("", CLOSED);
    run(LW__SCRIPT_RW_RENEW, 3, BOOK_FENCE, BOOK, BOOK_QUEUE, CLOSED, token(0, 5), LEASE,
        NULL);
    book_release("", NUMBERS); /* by an operator */
    order("DEL " BOOK " " BOOK_QUEUE);
    order("SET " BOOK " 1"); /* foreign keys */
    book_keep(token(0, 6));
    book_drop(token(0, 6));
    book_detach(token(0, 6));
    book_adopt(token(0, 6), token(1, 6), "r ");
    order("SET " BOOK_QUEUE " 1");
    book_acquire(token(0, 6), "r ann", WAITS);
    book_release(token(0, 6), NUMBERS " r0 ann");
    book_renew(token(0, 6), token(1, 6));
    order("DEL " BOOK " " BOOK_QUEUE);
}

static void a_redisson_lock_lives(void)
{
    stand_at(LOCK, "{lock}");
    run(LW__SCRIPT_REDISSON_ACQUIRE, 1, LOCK, "x:1", LEASE, NULL);
    run(LW__SCRIPT_REDISSON_ACQUIRE, 1, LOCK, "x:2", LEASE, NULL);
    run(LW__SCRIPT_REDISSON_RENEW, 2, LOCK, BESIDE, "x:1", "x:2", LEASE, NULL);
    run(LW__SCRIPT_REDISSON_RELEASE, 1, LOCK, "x:1", "redisson_lock__channel:{lock}",
        NULL);
}

/* Fails for a new script that is not called here. */
static void all_declare_their_keys(void **state)
{
    bool called[LW__SCRIPT_COUNT] = {false};
    void (*const lives[])(void) = {a_mutex_lives,          a_mutex_ends,
                                   a_readwrite_lock_lives, a_readwrite_lock_ends,
                                   a_redisson_lock_lives,  a_guard_lives};

    (void)state;
    start();
    for (size_t life = 0; life < sizeof(lives) / sizeof(*lives); life++) {
        lives[life]();
        for (int i = 0; i < LW__SCRIPT_COUNT; i++) {
            called[i] = called[i] || scene.called[i];
        }
    }
    for (int i = 0; i < LW__SCRIPT_COUNT; i++) {
        if (!called[i] && i != LW__SCRIPT_LIST) { /* it cannot declare its keys */
            stage_fail("%s was not called", lw__scripts[i].name);
        }
    }
}

/* ---- at random ---- */

static unsigned draw(unsigned below)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* Returns one of few tokens, of three clients with a subscriber and one without. */
static const char *some_token(void)
{
    return token((int)draw(CLIENTS + 1), (int)draw(3));
}

static void call_a_mutex(void)
{
    static const char *const hows[] = {JOINS, ASKS_ONLY, "kf " NUMBERS, "j-1 " NUMBERS};
    const char *how = hows[draw(4)], *mine = some_token();

    switch (draw(10)) {
    case 8:
        detach(mine);
        break;
    case 9:
        adopt(mine, some_token());
        break;
    case 0:
        order("DEL " LOCK);
        break;
    case 1:
        take_turn(mine, some_token(), how);
        break;
    case 2:
    case 3:
        release(mine);
        break;
    case 4:
        drop(mine);
        break;
    case 5:
        renew(mine, some_token());
        break;
    default:
        acquire(mine, how);
    }
}

static void call_a_readwrite_lock(void)
{
    static const char *const askers[] = {"r ann", "r bob", "w ann", "w ", "r "};
    static const char *const leavers[] = {" r0 ann", " r0 bob", " w0 ann", " w0 ",
                                          " r2 "};
    const char *mine = some_token();
    char leaver[64];

    (void)snprintf(leaver, sizeof(leaver), "%s%s", NUMBERS, leavers[draw(5)]);
    switch (draw(12)) {
    case 10:
        book_detach(mine);
        break;
    case 11:
        book_adopt(mine, some_token(), draw(2) == 0 ? "r " : "w ann");
        break;
    case 8:
        book_keep(mine);
        break;
    case 9:
        book_drop(mine);
        break;
    case 0:
        if (draw(8) == 0) {
            order("DEL " BOOK);
        }
        break;
    case 1:
    case 2:
    case 3:
        book_release(mine, leaver);
        break;
    case 4:
        book_renew(mine, some_token());
        break;
    default:
        book_acquire(mine, askers[draw(5)], draw(2) == 0 ? WAITS : "1 -1 2 " NUMBERS);
    }
}

static void all_do_at_random(void **state)
{
    (void)state;
    start();
    stand_at(LOCK, "{lock}");
    for (int i = 0; i < CALLS; i++) {
        call_a_mutex();
    }
    stand_at(BOOK, "{book}");
    for (int i = 0; i < CALLS; i++) {
        call_a_readwrite_lock();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(another_key_is_seen),
        STAGE_TEST(another_slot_is_refused),
        STAGE_TEST(all_declare_their_keys),
        STAGE_TEST(all_do_at_random),
    };

    return STAGE_RUN(tests);
}
