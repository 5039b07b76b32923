/* SPDX-License-Identifier: MIT */
/* life.h's lives, made of steps. */
#include "life_steps.h"
#include "stage.h"

#include <string.h>

#define MUTEX(wait)                                                                      \
    ((struct lw_acquire_options){.size = sizeof(struct lw_acquire_options),              \
                                 .wait_ms = (wait)})
#define UNRENEWED                                                                        \
    ((struct lw_acquire_options){.size = sizeof(struct lw_acquire_options),              \
                                 .wait_ms = step_wait_ms,                                \
                                 .flags = LW_NO_RENEW})
#define OWNED(how, who)                                                                  \
    ((struct lw_acquire_options){.size = sizeof(struct lw_acquire_options),              \
                                 .wait_ms = step_wait_ms,                                \
                                 .mode = (how),                                          \
                                 .owner = (who)})
#define SEMAPHORE                                                                        \
    ((struct lw_acquire_options){.size = sizeof(struct lw_acquire_options),              \
                                 .wait_ms = step_wait_ms,                                \
                                 .mode = LW_SHARED,                                      \
                                 .permits = 1})

#define AT_LEAST                                                                         \
    ((struct lw_acquire_options){.size = sizeof(struct lw_acquire_options),              \
                                 .wait_ms = step_wait_ms,                                \
                                 .at_least_ms = 100,                                     \
                                 .note = "a note"})

static void wait_hold_and_lose(void)
{
    struct player *first = step_ask(0, "m", MUTEX(step_wait_ms)), *second;

    step_await_result(first);
    second = step_ask(1, "m", MUTEX(step_wait_ms));
    step_await_queued(second, "lockwire:2:queue:{m}");
    step_meanwhile("m", LIFE_WANTED);
    step_renew(first);
    if (first->lock != NULL && strlen(lw_lock_owner(first->lock)) == 1) {
        stage_fail("an owner's text that is none");
    }
    step_release(first);
    step_await_result(second); /* of a mutex even while its slot moves */
    step_meanwhile("m", LIFE_LEFT);
    step_meanwhile("m", LIFE_PASSED);
    step_lose(second, "m");
    step_release(second);
    step_drop(first);
    step_drop(second);
}

/* The lease is not renewed until `at_risk` is called. */
static void be_warned(void)
{
    struct player *player = step_ask(0, "w", UNRENEWED);

    step_await_result(player);
    step_await_risk(player);
    step_renew(player);
    step_release(player);
    step_drop(player);
}

static void try_in_vain(void)
{
    struct player *first = step_ask(0, "t", MUTEX(step_wait_ms)), *second;

    step_await_result(first);
    second = step_ask(1, "t", MUTEX(0));
    step_await_result(second);
    step_counts(second->result == LW_EBUSY);
    if (second->lock != NULL && lw_lock_errstr(second->lock) == NULL) {
        stage_fail("no errstr");
    }
    step_drop(second);
    step_drop(first); /* while it is held */
}

static void use_mutex(void)
{
    wait_hold_and_lose();
    be_warned();
    try_in_vain();
}

static void pass_in_turn(void)
{
    struct player *turns[3];

    for (int i = 0; i < 3; i++) {
        turns[i] = step_ask(0, "turn", MUTEX(step_wait_ms));
    }
    for (int i = 0; i < 3; i++) {
        step_await_result(turns[i]);
        step_release(turns[i]);
    }
    for (int i = 0; i < 3; i++) {
        step_drop(turns[i]);
    }
}

static void share(void)
{
    struct player *reader = step_ask(0, "rw", OWNED(LW_SHARED, "one"));
    struct player *again = step_ask(0, "rw", OWNED(LW_SHARED, "one")), *writer;

    step_await_result(reader);
    step_await_result(again);
    writer = step_ask(1, "rw", OWNED(LW_EXCLUSIVE, "two"));
    step_await_queued(writer, "lockwire:2:rwqueue:{rw}");
    step_meanwhile("rw", LIFE_WANTED);
    step_renew(reader);
    step_release(again);
    step_release(reader);
    step_meanwhile("rw", LIFE_LEFT);
    step_await_result(writer);
    step_meanwhile("rw", LIFE_PASSED);
    step_lose(writer, "rw");
    step_release(writer);
    step_drop(reader);
    step_drop(again);
    step_drop(writer);
}

/* The only reader becomes the writer, and a reader again: then others may read. */
static void upgrade(void)
{
    struct player *reader = step_ask(0, "up", OWNED(LW_SHARED, "one")), *writer, *other;

    step_await_result(reader);
    writer = step_ask(0, "up", OWNED(LW_EXCLUSIVE, "one"));
    step_await_result(writer);
    other = step_ask(1, "up", OWNED(LW_SHARED, "two"));
    step_await_queued(other, "lockwire:2:rwqueue:{up}");
    step_release(writer);
    step_await_result(other);
    step_release(reader);
    step_release(other);
    step_drop(reader);
    step_drop(writer);
    step_drop(other);
}

static void use_permits(void)
{
    struct player *first = step_ask(0, "s", SEMAPHORE), *second;

    step_await_result(first);
    second = step_ask(1, "s", SEMAPHORE);
    step_await_queued(second, "lockwire:2:rwqueue:{s}");
    step_meanwhile("s", LIFE_WANTED);
    step_renew(first);
    step_release(first);
    step_meanwhile("s", LIFE_LEFT);
    step_await_result(second);
    step_meanwhile("s", LIFE_PASSED);
    step_lose(second, "s");
    step_release(second);
    step_drop(first);
    step_drop(second);
}

static void pass_by_token(const char *name, const char *queue,
                          struct lw_acquire_options options,
                          struct lw_acquire_options waiter)
{
    struct player *first = step_ask(0, name, options), *second, *third;

    step_await_result(first);
    second = step_ask(1, name, waiter);
    step_await_queued(second, queue);
    options.wait_ms = step_wait_ms;
    options.note = "by the adopter";
    third = step_detach_and_adopt(first, 1, options);
    if (third != NULL) {
        step_await_result(third);
        step_renew(third);
        step_release(third);
        step_drop(third);
    }
    step_await_result(second);
    step_release(second);
    step_drop(first);
    step_drop(second);
}

static void pass_by_tokens(void)
{
    struct player *least;

    pass_by_token("d", "lockwire:2:queue:{d}", MUTEX(step_wait_ms), MUTEX(step_wait_ms));
    pass_by_token("e", "lockwire:2:rwqueue:{e}", OWNED(LW_SHARED, "one"),
                  OWNED(LW_EXCLUSIVE, "two"));
    pass_by_token("f", "lockwire:2:rwqueue:{f}", OWNED(LW_EXCLUSIVE, NULL),
                  OWNED(LW_SHARED, "two"));
    least = step_ask(0, "g", AT_LEAST);
    step_await_result(least);
    step_release(least);
    step_drop(least);
    step_await_end("g");
}

static void be_redisson(void)
{
    struct player *first = step_ask(0, "j", OWNED(LW_REDISSON, NULL)), *other;

    step_await_result(first);
    other = step_ask(1, "j", OWNED(LW_REDISSON, NULL));
    step_await_listener(other, "redisson_lock__channel:{j}");
    step_renew(first);
    step_release(first);
    step_await_result(other);
    step_lose(other, "j");
    step_release(other);
    step_drop(first);
    step_drop(other);
}

static void inquire(void)
{
    struct player *held;

    step_watch(1, "i");
    held = step_ask(0, "i", MUTEX(step_wait_ms));
    step_await_result(held);
    step_meanwhile("i", LIFE_WANTED);
    step_end_watch();
    step_look_and_break(1, "i");
    step_meanwhile("i", LIFE_LEFT);
    step_await_loss(held, "i");
    step_meanwhile("i", LIFE_PASSED);
    step_drop(held);
}

/* Keeps a lock, which is lost and gained again. */
static void keep_it(void)
{
    step_keep(0, "k", OWNED(LW_EXCLUSIVE, "one"));
}

static void keep_mutex(void)
{
    step_keep(0, "k", MUTEX(-1));
}

static void acquire_several(void)
{
    struct player *holder = step_ask(1, "n2", MUTEX(step_wait_ms));

    step_await_result(holder);
    step_several(0, holder);
    step_drop(holder);
}

static int live(const char *url, int64_t wait_ms, void (*part)(void))
{
    step_begin(wait_ms);
    step_connect(url);
    part();
    step_close();
    return step_end();
}

int life_mutex(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, use_mutex);
}

int life_turns(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, pass_in_turn);
}

int life_readwrite(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, share);
}

int life_upgrade(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, upgrade);
}

int life_semaphore(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, use_permits);
}

int life_detached(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, pass_by_tokens);
}

int life_redisson(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, be_redisson);
}

int life_inquiries(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, inquire);
}

int life_keep(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, keep_it);
}

int life_kept_mutex(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, keep_mutex);
}

static void hold_minority(void)
{
    struct player *first, *second;

    step_delete("y");
    first = step_ask(0, "y", MUTEX(step_wait_ms));
    step_await_result(first);
    step_release(first);
    second = step_ask(1, "y", MUTEX(step_wait_ms));
    step_await_result(second);
    step_release(second);
    step_drop(first);
    step_drop(second);
}

int life_minority(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, hold_minority);
}

int life_several(const char *url, int64_t wait_ms)
{
    return live(url, wait_ms, acquire_several);
}

int life_small(const char *url, int64_t wait_ms)
{
    struct player *player;

    step_begin(wait_ms);
    step_connect_client(1, url);
    player = step_ask(1, "m", MUTEX(step_wait_ms));
    step_await_result(player);
    step_release(player);
    step_drop(player);
    step_close();
    return step_end();
}

int life_moved(const char *url, int64_t wait_ms)
{
    struct player *player;

    step_begin(wait_ms);
    step_connect_client(0, url);
    player = step_ask(0, "m", MUTEX(step_wait_ms));
    step_await_result(player);
    step_meanwhile("m", LIFE_PASSED);
    step_renew(player);
    step_await_settled(player);
    step_release(player);
    step_drop(player);
    step_close();
    return step_end();
}

int life_in_vain(const char *url, int64_t wait_ms)
{
    struct player *player;

    step_begin(wait_ms);
    step_connect(url);
    player = step_ask(0, "m", MUTEX(wait_ms));
    step_await_result(player);
    step_counts(player->result == LW_ETIMEOUT);
    step_drop(player);
    step_close();
    return step_end();
}
