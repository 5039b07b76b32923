/* SPDX-License-Identifier: MIT */
/*
 * The allocations of hiredis 0.14.1 that must not fail. Linked into the memory tests with
 * that version alone. Without memory for one of them hiredis ends the process, instead of
 * reporting LW_ENOMEM:
 *
 *  1. hi_malloc: its two dictionaries when a context is created (dict.c), and an iterator
 *     over each of them whenever a context is freed;
 *  2. hi_strdup: the host or the path that it connects to (net.c);
 *  3. hi_calloc: the record of its adapter for libevent;
 *  4. event_new, whose result the adapter does not check: for its own events alone, which
 *     are one-shot.
 *
 * So the process may end when a client connects or disconnects; all other allocations are
 * tested. Here these allocations never fail. With hiredis 1.x all allocations are tested.
 * Independent of the tests.
 *
 * Usual course: the linker redirects each call to this file (--wrap), which calls the
 * real function while nothing fails.
 */
#include "allocator.h"

#include <event2/event.h>

void *__real_hi_malloc(size_t size);
void *__real_hi_calloc(size_t count, size_t size);
char *__real_hi_strdup(const char *text);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn function, void *arg);
void *__wrap_hi_malloc(size_t size);
void *__wrap_hi_calloc(size_t count, size_t size);
char *__wrap_hi_strdup(const char *text);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn function, void *arg);

void *__wrap_hi_malloc(size_t size)
{
    bool armed = allocator_pause();
    void *memory = __real_hi_malloc(size);

    allocator_resume(armed);
    return memory;
}

void *__wrap_hi_calloc(size_t count, size_t size)
{
    bool armed = allocator_pause();
    void *memory = __real_hi_calloc(count, size);

    allocator_resume(armed);
    return memory;
}

char *__wrap_hi_strdup(const char *text)
{
    bool armed = allocator_pause();
    char *copy = __real_hi_strdup(text);

    allocator_resume(armed);
    return copy;
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                               event_callback_fn function, void *arg)
{
    bool spared = what == EV_READ || what == EV_WRITE;
    bool armed = spared && allocator_pause();
    struct event *event = __real_event_new(base, fd, what, function, arg);

    if (spared) {
        allocator_resume(armed);
    }
    return event;
}
