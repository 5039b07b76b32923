/* SPDX-License-Identifier: MIT */
/*
 * The history of several processes and one lock, and a check that it is what the lock's
 * modes allow. This file owns the format of the records, one file for each process, and
 * the checker, which merges the files by time and looks at each record once. Independent
 * of lockwire.
 *
 * A hold is claimed from its grant to its recorded end, or to the last moment until which
 * its process was known to rely on it, if that comes first. Readers may claim the lock
 * together; all other claims exclude each other.
 *
 * A detached hold is claimed by its token, without any process that relies on it,
 * until the time that its process recorded, or until an adoption of it begins, which
 * may end it at any time. An adoption that is granted takes the place of the hold. So
 * no other hold that excludes it may have been granted between the two, and no hold is
 * adopted twice.
 *
 * An overlap is forgiven if state was lost on purpose between the two grants. One of them
 * must have been granted before the loss ended, as far as its deadline shows (a lease at
 * most after its command was sent), the other one after the loss began.
 *
 * Usual course: history_open, and history_note in every process; afterwards
 * history_check, or history_write for another checker.
 */
#ifndef TEST_HISTORY_H
#define TEST_HISTORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum what {
    BEGIN,       /* a request begins */
    GRANTED,     /* until_us: the deadline that the client knows; fence */
    TOUCHED,     /* it used the guarded resource; still held if until_us is later */
    ENDED,       /* lost, or about to be released: not relied on from here on */
    FAILED,      /* the request ended without a grant */
    LOSS_BEGINS, /* by the test itself */
    LOSS_ENDS,
    /* Accesses to a resource that checks fencing tokens, before and after. These are not
     * checked here. */
    READS,
    READ,   /* `value` */
    WRITES, /* `value` */
    WRITTEN,
    REFUSED,
    DETACHED /* until_us: how long its token holds at least, as far as is known now */
};

struct record {
    int64_t time_us, until_us; /* CLOCK_BOOTTIME */
    uint64_t fence;
    uint32_t client, operation;
    uint16_t what, shared; /* shared: held together with other readers */
    uint32_t value;
    uint32_t of_client, of_operation; /* the hold that is adopted; operation 0: none */
};

struct verdict {
    size_t records, grants, overlaps, fences, repeated;
    size_t doubled; /* grants with the same fencing token as another grant */
    size_t failed;  /* requests that ended without a grant, except adoptions */
    size_t detached, adopted;
    size_t together;         /* readers granted while another reader held */
    size_t forgiven;         /* overlaps across a loss */
    size_t excused;          /* fencing tokens that did not grow across a loss */
    int64_t longest_wait_us; /* of the requests that were granted */
    char first[256];         /* the first violation found */
};

int64_t history_now_us(void);
int history_open(const char *dir, uint32_t client); /* a descriptor to append to */
void history_note(int fd, const struct record *record);
/* Checks the files of clients 0 to count - 1 for overlaps of claimed holds, for fencing
 * tokens that are repeated or do not grow (0 is no token), and for operations that were
 * granted or failed twice. */
struct verdict history_check(const char *dir, uint32_t count, int64_t lease_us);
/* Writes the same records of the lock `name` as text, one line of JSON each, in order of
 * time. */
void history_write(const char *dir, uint32_t count, int64_t lease_us, const char *name,
                   const char *path);

#endif
