/* SPDX-License-Identifier: MIT */
/*
 * What several processes did with one lock, and whether that was what its modes allow.
 * Owns the format of the records, one file for each process, and the checker, which
 * merges the files by time and looks at each record once. Must not know lockwire.
 *
 * A hold is claimed from its grant to the end that its process recorded, or to the last
 * moment until which it was known to believe in it, if that comes first. Readers may
 * claim together; all else excludes.
 *
 * A hold that was detached is claimed by its token, without any process that believes in
 * it: until the time that its process recorded, or until an adoption of it was begun,
 * which may end it at any time. An adoption that is granted takes the place of the hold.
 * So between the two no other one may have been granted that the hold excludes, and no
 * hold is adopted twice.
 *
 * What is forgiven: two claims between whose grants state was lost on purpose. The one
 * must have been granted before the loss was over, as far as can be told from its
 * deadline (a lease at most after its command was sent), and the other one after the loss
 * began.
 *
 * Happy path: history_open, history_note in every process; history_check afterwards, or
 * history_write for another checker.
 */
#ifndef TEST_HISTORY_H
#define TEST_HISTORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum what {
    BEGIN,       /* it asks */
    GRANTED,     /* until_us: its deadline as it knows it; fence */
    TOUCHED,     /* it used what the lock guards; still held if until_us is later */
    ENDED,       /* lost, or about to release: from here on it does not believe */
    FAILED,      /* its asking ended otherwise */
    LOSS_BEGINS, /* by the test's own doing */
    LOSS_ENDS,
    /* What it does with a resource that looks at fences, not checked here: before,
     * after. */
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
    uint16_t what, shared; /* shared: with other readers */
    uint32_t value;
    uint32_t of_client, of_operation; /* the hold that it adopts; operation 0: none */
};

struct verdict {
    size_t records, grants, overlaps, fences, repeated;
    size_t doubled; /* grants with a number that another one was given */
    size_t failed;  /* whose asking ended without a grant, without adoptions */
    size_t detached, adopted;
    size_t together;         /* readers that were granted while another one read */
    size_t forgiven;         /* overlaps across a loss */
    size_t excused;          /* fences that did not grow across a loss */
    int64_t longest_wait_us; /* of those that were granted */
    char first[256];         /* the first thing found */
};

int64_t history_now_us(void);
int history_open(const char *dir, uint32_t client); /* a descriptor to append to */
void history_note(int fd, const struct record *record);
/* Of the files of clients 0 to count - 1. Overlaps of claimed holds, fences that do not
 * grow, numbers given twice (0 is no number), operations that were granted or failed
 * twice. */
struct verdict history_check(const char *dir, uint32_t count, int64_t lease_us);
/* The same records of the lock `name` as text: each a line of JSON, in order of time. */
void history_write(const char *dir, uint32_t count, int64_t lease_us, const char *name,
                   const char *path);

#endif
