/* SPDX-License-Identifier: MIT */
/*
 * A file with one line for each gift: user, fencing token, process, time. Several gateways
 * append to it; it alone says who got a gift. What a gateway has read of it is a copy that is
 * brought up to date under the user's lock: nobody else can add that user's line meanwhile.
 *
 * Happy path: ledger_open; under the lock of a user ledger_find, and ledger_append if the
 * user is not there; ledger_close.
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

int ledger_open(struct ledger *ledger, const char *path); /* 0, or -1 and errno */
void ledger_close(struct ledger *ledger);
/* 1 and the fencing token of the user's gift, 0 if there is none, -1 and errno. */
int ledger_find(struct ledger *ledger, const char *user, uint64_t *fence);
/* One write. 0, or -1 and errno. */
int ledger_append(struct ledger *ledger, const char *user, uint64_t fence);

#endif
