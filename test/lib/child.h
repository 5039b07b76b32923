/* SPDX-License-Identifier: MIT */
/*
 * The end of a forked child of a test. Usual course: fork_for_test(), then end_child(0)
 * in the child.
 */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define CHECKED_FOR_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED_FOR_LEAKS 1
#endif
#endif

/* Flushes first, so that buffered output is not printed twice. */
static inline pid_t fork_for_test(void)
{
    (void)fflush(NULL);
    return fork();
}

/* Exits in the ordinary way, so that the code the child ran counts as covered. With a
 * leak checker it exits at once: the checker would report the child's copy of the
 * parent's memory as leaked. */
static inline _Noreturn void end_child(int status)
{
#ifdef CHECKED_FOR_LEAKS
    _exit(status);
#else
    exit(status);
#endif
}
#endif
