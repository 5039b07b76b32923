/* SPDX-License-Identifier: MIT */
/*
 * A file with one line for each gift: user, fencing token, process, time. Several
 * gateways append to it, and it alone decides who got a gift. Each gateway keeps a copy
 * of the lines that it has read. The copy is brought up to date under the user's lock,
 * when no other gateway can add a line for that user.
 *
 * Only whole lines count. If a full disk or a crash leaves a torn line, the next writer
 * ends it with a '?'. So a torn line never becomes part of another line, nor a whole one.
 *
 * Usual course: ledger_open; under the lock of a user ledger_find and, if the user is not
 * found, ledger_lock, ledger_append, ledger_unlock; ledger_close.
 */
#ifndef GATEWAY_LEDGER_H
#define GATEWAY_LEDGER_H
#include <stdint.h>
#include <sys/types.h>

struct ledger_entry;

struct ledger {
    int fd;                       /* -1: off */
    off_t read_to;                /* the end of the last whole line read */
    struct ledger_entry *entries; /* by user */
};

/* Returns 0, 1 if the last line was torn and has been ended, or -1 and errno. */
int ledger_open(struct ledger *ledger, const char *path);
void ledger_close(struct ledger *ledger);
/* Returns 1 and the fencing token of the user's gift, 0 if the user has none, or -1
 * and errno. */
int ledger_find(struct ledger *ledger, const char *user, uint64_t *fence);
/* Waits until no other gateway writes (each writes one line at a time), and ends a
 * torn last line. Returns as ledger_open does. Readers are not blocked. */
int ledger_lock(struct ledger *ledger);
void ledger_unlock(struct ledger *ledger); /* keeps errno */
/* Called between ledger_lock and ledger_unlock. Returns 0, or -1 and errno if the
 * line was not written. */
int ledger_append(struct ledger *ledger, const char *user, uint64_t fence);

#endif
