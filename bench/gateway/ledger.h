/* SPDX-License-Identifier: MIT */
/*
 * A file with one line for each gift: user, fencing token, process, time. Several
 * gateways append to it; it alone says who got a gift. What a gateway has read of it is a
 * copy that is brought up to date under the user's lock: nobody else can add that user's
 * line meanwhile.
 *
 * A line counts when it is whole. What a full disk or a crash leaves of one is ended with
 * a '?' by whoever writes next, and so cannot become part of another line, nor whole.
 *
 * Happy path: ledger_open; under the lock of a user ledger_find, and if the user is not
 * there ledger_lock, ledger_append, ledger_unlock; ledger_close.
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

/* 0; 1: its last line was torn, and has been ended; -1 and errno. */
int ledger_open(struct ledger *ledger, const char *path);
void ledger_close(struct ledger *ledger);
/* 1 and the fencing token of the user's gift, 0 if there is none, -1 and errno. */
int ledger_find(struct ledger *ledger, const char *user, uint64_t *fence);
/* Waits until no other gateway writes, which takes each as long as its line, and ends a
 * torn last line. Returns as ledger_open. Does not keep anybody from reading. */
int ledger_lock(struct ledger *ledger);
void ledger_unlock(struct ledger *ledger); /* leaves errno alone */
/* Between those two. 0; -1 and errno: the line is not there. */
int ledger_append(struct ledger *ledger, const char *user, uint64_t fence);

#endif
