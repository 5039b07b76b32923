/* SPDX-License-Identifier: MIT */
/*
 * stage.h's stage. Independent of lockwire.
 *
 * Usual course: stage_set makes the base; stage_play runs the test, makes the players
 * leave, checks what they left behind and frees the base; stage_strike finds nothing to
 * do.
 */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 10
#define FIRST_PAUSE_MS 4 /* between two looks at a server */
#define LAST_PAUSE_MS 30 /* leases in tests are several times as long */
#define MAX_EXITS 8
#define MAX_LATE 8
#define MAX_TEXT 4096
#define LATE_MS 200       /* leases in tests are several times as long */
#define MAX_FAILED_LATE 2 /* after so many it fails even on a slow machine */

struct stage stage;
static stage_exit_function *exits[MAX_EXITS];
static size_t exit_count;
static jmp_buf once_more;
static bool playing;
static int failed_late;
static int64_t waited_before_ms; /* for a CPU, until stage_forget_lag() */

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void stage_fail(const char *format, ...)
{
    char text[MAX_TEXT];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "%s: %s\n    so far: %s\n",
                  stage.test != NULL ? stage.test : "stage", text, stage.history);
    if (playing && !stage.broken) {
        stage_skip_if(stage.relied_until_ms != 0 && now_ms() >= stage.relied_until_ms);
    }
    if (playing && !stage.broken && !stage.stalled && stage.worst_lag_ms > LATE_MS &&
        failed_late++ < MAX_FAILED_LATE) {
        (void)fprintf(stderr, "    the loop stood still for %lld ms in the meantime\n",
                      (long long)stage.worst_lag_ms);
        longjmp(once_more, 1);
    }
    stage.broken = true;
    _fail(__FILE__, __LINE__);
    abort();
}

void stage_fail_at(const char *file, int line, const char *format, ...)
{
    char text[MAX_TEXT];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    stage_fail("%s:%d: %s", file, line, text);
}

void stage_assert_numbers(intmax_t a, intmax_t b, bool equal, const char *text,
                          const char *file, int line)
{
    if ((a == b) != equal) {
        stage_fail_at(file, line, "%s: %jd %s %jd", text, a, equal ? "!=" : "==", b);
    }
}

void stage_assert_strings(const char *a, const char *b, bool equal, const char *text,
                          const char *file, int line)
{
    if ((strcmp(a, b) == 0) != equal) {
        stage_fail_at(file, line, "%s: \"%s\" %s \"%s\"", text, a,
                      equal ? "!=" : "==", b);
    }
}

void stage_assert_range(intmax_t value, intmax_t least, intmax_t most, const char *text,
                        const char *file, int line)
{
    if (value < least || value > most) {
        stage_fail_at(file, line, "%s: %jd is not in %jd..%jd", text, value, least, most);
    }
}

void stage_complain(const char *format, ...)
{
    va_list arguments;

    if (stage.broken) {
        return; /* the first one is the cause */
    }
    stage.broken = true;
    va_start(arguments, format);
    (void)vsnprintf(stage.complaint, sizeof(stage.complaint), format, arguments);
    va_end(arguments);
}

static void on_alarm(int signal)
{
    static const char text[] = ": over its time limit\n";

    (void)signal;
    if (stage.test != NULL && write(2, stage.test, strlen(stage.test)) < 0) {
        _exit(98);
    }
    if (write(2, text, sizeof(text) - 1) < 0) {
        _exit(98);
    }
    _exit(99);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    int64_t now = now_ms(), lag = now - stage.ticked_ms - TICK_MS;

    (void)fd, (void)what, (void)arg;
    if (stage.ticked_ms && lag > stage.worst_lag_ms) {
        stage.worst_lag_ms = lag;
    }
    stage.ticked_ms = now;
}

static void on_pause_end(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg; /* the loop returns, which is all */
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = -1; /* the directory's own */

    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/* ---- around an executable and around each test ---- */

int stage_open(void **state)
{
    (void)state;
    (void)signal(SIGALRM, on_alarm);
    server_start(&stage.server, NULL);
    return 0;
}

int stage_close(void **state)
{
    (void)state;
    server_stop(&stage.server);
    return 0;
}

int stage_set(void **state)
{
    struct server server = stage.server;

    server_resume(&server);
    if (!server.running) {
        server_restart(&server);
    }
    stage = (struct stage){.server = server};
    stage.test = ((struct stage_test *)*state)->name;
    alarm(STAGE_TEST_S);
    server_clear(&stage.server);
    exit_count = 0;
    stage.descriptors = count_descriptors();
    stage.base = event_base_new();
    stage.tick = event_new(stage.base, -1, EV_PERSIST, on_tick, NULL);
    stage.pause = evtimer_new(stage.base, on_pause_end, NULL);
    if (stage.tick == NULL || stage.pause == NULL) {
        stage_fail("event_new");
    }
    return event_add(stage.tick, &(struct timeval){.tv_usec = TICK_MS * 1000});
}

/* Keys that a test itself writes begin with "stranger". */
static void check_keys(void)
{
    static const char look[] =
        "local bad = {} "
        "local function is(key, start) return key:sub(1, #start) == start end "
        "local prefix = ARGV[3] "
        "for _, key in ipairs(redis.call('KEYS', '*')) do "
        "  local left = redis.call('PTTL', key) "
        "  if is(key, 'stranger') or key:find('queue:{stranger', 1, true) then "
        "  elseif left == -1 then bad[#bad + 1] = key .. ' has no TTL' "
        "  elseif is(key, prefix .. 'lockwire:fence') or "
        "      key == prefix .. 'lockwire:guard' then "
        "  elseif is(key, prefix .. 'lockwire:client:') then "
        "    if ARGV[2] == '0' then bad[#bad + 1] = key .. ' was left behind' end "
        "  elseif ARGV[1] == '0' then bad[#bad + 1] = key .. ' was left behind' end "
        "end "
        "return table.concat(bad, ', ')";

    const char *bad = redis_text("EVAL %s 0 %d %d %s", look, stage.keys_may_stay,
                                 stage.keys_may_stay || stage.notes_may_stay,
                                 stage.prefix != NULL ? stage.prefix : "");
    if (bad[0]) {
        stage_complain("%s", bad);
    }
}

void stage_at_exit(stage_exit_function *function)
{
    for (size_t i = 0; i < exit_count; i++) {
        if (exits[i] == function) {
            return;
        }
    }
    exits[exit_count++] = function;
}

static void leave(bool in_good_order)
{
    while (exit_count > 0) {
        exits[--exit_count](in_good_order);
    }
}

static void free_base(void)
{
    if (stage.tick != NULL) {
        event_free(stage.tick);
    }
    if (stage.pause != NULL) {
        event_free(stage.pause);
    }
    stage.tick = stage.pause = NULL;
    if (stage.base != NULL &&
        event_base_get_num_events(stage.base, EVENT_BASE_COUNT_ADDED) != 0) {
        stage_complain("%d events were left in the base",
                       event_base_get_num_events(stage.base, EVENT_BASE_COUNT_ADDED));
    }
    if (stage.base != NULL) {
        event_base_free(stage.base);
    }
    stage.base = NULL;
}

static void play(void **state)
{
    ((struct stage_test *)*state)->function(state);
    leave(true);
    if (stage.server.running && !stage.server.paused) {
        check_keys();
    }
    free_base();
    if (count_descriptors() != stage.descriptors) {
        stage_complain("%d descriptors are open, %d were before the test",
                       count_descriptors(), stage.descriptors);
    }
    if (stage.broken) {
        stage_fail("%s", stage.complaint);
    }
}

/* Cleans up after a test that did not reach its end; no check is made. */
int stage_strike(void **state)
{
    (void)state;
    playing = false;
    stage.broken = true;
    leave(false);
    free_base();
    alarm(0);
    return 0;
}

/* LeakSanitizer calls this at the end of the program. A test that was left in the middle
 * has freed nothing. */
static bool was_left;
int __lsan_is_turned_off(void); /* NOLINT: its name */
int __lsan_is_turned_off(void)  /* NOLINT */
{
    return was_left;
}

void stage_play(void **state)
{
    static int late;

    failed_late = 0;
    for (late = 0; setjmp(once_more) != 0; late++) {
        was_left = true;
        if (late == MAX_LATE) {
            (void)fprintf(stderr, "slow: %s\n", stage.test);
            skip();
        }
        (void)fprintf(stderr, "repeated: %s\n", stage.test);
        stage_strike(state);
        stage_set(state);
    }
    playing = true;
    play(state);
    playing = false;
}

/* ---- the loop ---- */

static void turn(void)
{
    if (event_base_loop(stage.base, EVLOOP_ONCE) < 0) {
        stage_fail("event_base_loop");
    }
    if (stage.broken) {
        stage_fail("%s", stage.complaint);
    }
}

struct stage_wait stage_wait_for(int64_t ms)
{
    stage.asked = false;
    return (struct stage_wait){now_ms() + ms, ms, FIRST_PAUSE_MS};
}

void stage_turn(struct stage_wait *wait, const char *awaited, const char *file, int line)
{
    if (now_ms() > wait->limit_ms) {
        stage.relied_until_ms = 0; /* of what never comes nothing says that it is late */
        stage_fail("%s:%d: waited %d s for: %s", file, line, (int)(wait->most_ms / 1000),
                   awaited);
    }
    if (!stage.asked) {
        turn();
        return;
    }
    stage_run_for(wait->pause_ms);
    wait->pause_ms += wait->pause_ms / 4;
    if (wait->pause_ms > LAST_PAUSE_MS) {
        wait->pause_ms = LAST_PAUSE_MS;
    }
    stage.asked = false; /* a callback may have asked */
}

void stage_run_for(int64_t ms)
{
    int64_t end = now_ms() + ms + 1; /* now_ms() rounds down */
    struct timeval until_end = {(ms + 1) / 1000, (ms + 1) % 1000 * 1000};

    event_add(stage.pause, &until_end);
    while (now_ms() < end) {
        turn();
    }
    event_del(stage.pause);
}

void stage_stall(int64_t ms)
{
    int64_t end = now_ms() + ms;

    stage.stalled = true;
    for (int64_t left = ms; left > 0; left = end - now_ms()) {
        usleep((useconds_t)left * 1000);
    }
}

/* Returns for how long this process has waited for a CPU so far; 0 if the kernel does not
 * say so. */
static int64_t waited_for_cpu_ms(void)
{
    FILE *file = fopen("/proc/self/schedstat", "re");
    long long waited_ns = 0;

    if (file != NULL) {
        if (fscanf(file, "%*d %lld", &waited_ns) != 1) {
            waited_ns = 0;
        }
        (void)fclose(file);
    }
    return waited_ns / 1000000;
}

void stage_forget_lag(void)
{
    stage.worst_lag_ms = 0;
    stage.ticked_ms = 0;
    waited_before_ms = waited_for_cpu_ms();
}

void stage_expect_turning(int64_t ms)
{
    int64_t waited_ms = waited_for_cpu_ms() - waited_before_ms;

    if (stage.worst_lag_ms - waited_ms >= ms) {
        stage.stalled = true; /* not by the machine */
        stage_fail("the loop stood still for %lld ms, and the process waited for a CPU "
                   "for %lld ms in all",
                   (long long)stage.worst_lag_ms, (long long)waited_ms);
    }
}

void stage_skip_if(bool too_slow)
{
    if (too_slow) {
        longjmp(once_more, 1);
    }
}

void stage_relies_until(int64_t limit_ms)
{
    stage.relied_until_ms = limit_ms;
}

void stage_skip_if_lag(int64_t ms)
{
    stage_skip_if(stage.worst_lag_ms > ms);
}

/* ---- the trace ---- */

static void append(char *text, size_t size, const char *event)
{
    size_t used = strlen(text);

    if (used + strlen(event) + 3 < size) {
        (void)snprintf(text + used, size - used, "%s%s", used ? "; " : "", event);
    }
}

void stage_note(const char *format, ...)
{
    char event[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(event, sizeof(event), format, arguments);
    va_end(arguments);
    append(stage.trace, sizeof(stage.trace), event);
    append(stage.history, sizeof(stage.history), event);
}

static size_t count_events(const char *text)
{
    size_t count = text[0] ? 1 : 0;

    while ((text = strstr(text, "; ")) != NULL) {
        count++;
        text += 2;
    }
    return count;
}

/* Returns the length of the first `count` events. */
static size_t length_of(const char *text, size_t count)
{
    const char *at = text;

    for (; count > 0; count--) {
        const char *end = strstr(at, "; ");
        if (end == NULL) {
            return strlen(text);
        }
        at = end + 2;
    }
    return (size_t)(at - text);
}

/* Takes the first `count` events out of the trace. */
static void take(size_t count, char *out, size_t size)
{
    size_t length = length_of(stage.trace, count), shown = length;

    if (shown >= 2 && memcmp(stage.trace + shown - 2, "; ", 2) == 0) {
        shown -= 2;
    }
    (void)snprintf(out, size, "%.*s", (int)shown, stage.trace);
    memmove(stage.trace, stage.trace + length, strlen(stage.trace + length) + 1);
}

static void await(const char *events, const char *file, int line)
{
    struct stage_wait wait = stage_wait_for(STAGE_WAIT_MS);

    while (count_events(stage.trace) < count_events(events)) {
        stage_turn(&wait, events, file, line);
    }
}

void stage_expect(const char *events, const char *file, int line)
{
    char got[4096];

    await(events, file, line);
    take(count_events(events), got, sizeof(got));
    if (strcmp(got, events) != 0) {
        stage_fail("%s:%d: expected \"%s\", got \"%s\"", file, line, events, got);
    }
}

void stage_expect_set(const char *events, const char *file, int line)
{
    char got[4096], padded[4096 + 8], copy[4096], word[4096 + 8];

    await(events, file, line);
    take(count_events(events), got, sizeof(got));
    (void)snprintf(padded, sizeof(padded), "; %s; ", got);
    (void)snprintf(copy, sizeof(copy), "%s; ", events);
    for (char *at = copy, *end; (end = strstr(at, "; ")) != NULL; at = end + 2) {
        *end = '\0';
        (void)snprintf(word, sizeof(word), "; %s; ", at);
        if (strstr(padded, word) == NULL) {
            stage_fail("%s:%d: expected \"%s\" in any order, got \"%s\"", file, line,
                       events, got);
        }
    }
}

void stage_expect_nothing(int64_t ms)
{
    stage_run_for(ms);
    if (stage.trace[0]) {
        stage_fail("expected silence, got \"%s\"", stage.trace);
    }
}

void stage_clear_trace(void)
{
    stage.trace[0] = '\0';
}

bool stage_has(const char *event)
{
    return strstr(stage.trace, event) != NULL;
}
