/* SPDX-License-Identifier: MIT */
/* allocator.h's allocator: the counts, and the functions that the linker and libevent
 * call. */
#include "allocator.h"

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static struct {
    bool armed, always, spares_libevent;
    long at, asked, open;
} allocator;

static bool fails(void)
{
    if (!allocator.armed) {
        return false;
    }
    allocator.asked++;
    if (allocator.at == 0 || allocator.asked < allocator.at ||
        (!allocator.always && allocator.asked > allocator.at)) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

static void *opened(void *memory)
{
    allocator.open += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : opened(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : opened(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory;

    if (fails()) {
        return NULL;
    }
    memory = __real_realloc(old, size);
    allocator.open += old == NULL && memory != NULL;
    return memory;
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *memory)
{
    allocator.open -= memory != NULL;
    __real_free(memory);
}

static void *libevent_malloc(size_t size)
{
    return allocator.spares_libevent ? opened(__real_malloc(size)) : __wrap_malloc(size);
}

static void *libevent_realloc(void *old, size_t size)
{
    void *memory;

    if (!allocator.spares_libevent) {
        return __wrap_realloc(old, size);
    }
    memory = __real_realloc(old, size);
    allocator.open += old == NULL && memory != NULL;
    return memory;
}

void allocator_install(void)
{
    event_set_mem_functions(libevent_malloc, libevent_realloc, __wrap_free);
}

void allocator_spare_libevent(bool spare)
{
    allocator.spares_libevent = spare;
}

void allocator_arm(long at, bool always)
{
    allocator.at = at;
    allocator.always = always;
    allocator.asked = 0;
    allocator.armed = true;
}

bool allocator_pause(void)
{
    bool armed = allocator.armed;

    allocator.armed = false;
    return armed;
}

void allocator_resume(bool armed)
{
    allocator.armed = armed;
}

bool allocator_is_empty(void)
{
    return allocator.always && allocator.at > 0 && allocator.asked >= allocator.at;
}

long allocator_disarm(void)
{
    allocator.armed = false;
    return allocator.asked;
}

long allocator_open(void)
{
    return allocator.open;
}
