/* SPDX-License-Identifier: MIT */
/*
 * What hiredis 0.14.1 cannot promise when memory is out; linked into the tests of memory
 * with that version alone. In place of LW_ENOMEM it ends the process where no memory is
 * found for
 *
 *  1. hi_malloc: its two dictionaries when a context is made (dict.c), and an iterator
 *     over each of them whenever one is freed;
 *  2. hi_strdup: the host or the path that it connects to (net.c);
 *  3. hi_calloc: the record of its adapter for libevent;
 *  4. event_new, of which the adapter does not ask whether it found any: for its events
 *     alone, which are one-shot.
 *
 * So a client may be ended where it connects or disconnects; in between nothing is
 * exempt. Here these allocations never fail. With 1.x nothing is spared. Must not know
 * what is tested.
 *
 * Happy path: the linker leads each of them here (--wrap), and the real one is called
 * while nothing fails.
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
