/* SPDX-License-Identifier: MIT */
/* lives.h's lives, and the checks after each. */
#include "lives.h"

#include "allocator.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_WAIT_MS 100 /* longer than a hand-over takes; most waits time out */

void lives_check_keys(void)
{
    static const char left[] =
        "for _, k in ipairs(redis.call('KEYS', '*')) do "
        "if redis.call('PTTL', k) == -1 then return k end end return ''";

    if (*redis_text("EVAL %s 0", left)) {
        stage_fail("%s stays for ever", redis_text("EVAL %s 0", left));
    }
}

static long one_life(life_function *live, const char *url, long at, bool always)
{
    static char test[32];
    long open = allocator_open(), asked;

    redis_ok("FLUSHALL");
    alarm(STAGE_TEST_S);
    (void)snprintf(test, sizeof(test), "%s %ld", always ? "always" : "once", at);
    stage.test = test;
    allocator_arm(at, always);
    int good = live(url, at == 0 && live != life_in_vain ? STAGE_WAIT_MS : SHORT_WAIT_MS);
    asked = allocator_disarm();
    if (allocator_open() != open) {
        stage_fail("%ld allocations were not freed", allocator_open() - open);
    }
    lives_check_keys();
    if (at == 0 && good != life_calls) {
        stage_fail("only %d of %d calls went well in an undisturbed life", good,
                   life_calls);
    }
    return asked;
}

void lives(life_function *live, const char *url, bool always, long step)
{
    const char *only = getenv("LOCKWIRE_MEMORY");
    long at = 1 - step, asked;

    if (only != NULL) {
        if ((strncmp(only, "always ", 7) == 0) == always) {
            one_life(live, url, atol(strchr(only, ' ')), always);
        }
        return;
    }
    one_life(live, url, 0, false);
    do {
        asked = one_life(live, url, at += step, always);
    } while (asked >= at);
    assert_true(at / step > 20); /* so many allocations have failed at least */
}
