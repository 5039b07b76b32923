/* SPDX-License-Identifier: MIT */
/*
 * The end of a forked child of a test. Must not know what it did.
 *
 * Happy path: fork_for_test(), in the child end_child(0).
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

/* What is to be printed is printed once. */
static inline pid_t fork_for_test(void)
{
    (void)fflush(NULL);
    return fork();
}

/* An ordinary exit, so that what the child ran counts as covered; but no checker shall
 * take the copy of what the parent has for a leak. */
static inline _Noreturn void end_child(int status)
{
#ifdef CHECKED_FOR_LEAKS
    _exit(status);
#else
    exit(status);
#endif
}
#endif
