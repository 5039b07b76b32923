/* SPDX-License-Identifier: MIT */
/*
 * lw_list for tests: what was found, as a readable line, and whether the callbacks kept
 * the rules. A name that comes twice is one.
 *
 * Happy path: list_all(a, NULL); LISTED("r:r x:m").
 */
#ifndef TEST_INSPECT_LIST_SCENE_H
#define TEST_INSPECT_LIST_SCENE_H
#include "inspect/scene.h"

struct list {
    struct peer *peer;
    int status;           /* PENDING, or what the last callback was told */
    char names[200][520]; /* of what was found, with how it is held */
    size_t count, told, steps;
    uint64_t seen, keys;
    char why[256];
    /* kept from one call to the next: */
    int stops_at; /* the call of `found` that answers "enough"; 0: none */
    void (*then)(struct peer *peer); /* in each of its calls */
};
extern struct list list;

/* lw_list, which must be accepted; the trace will show "listed OK". */
void call_list(struct peer *peer, const char *pattern);
/* The same, and waits for LW_OK. */
void list_all(struct peer *peer, const char *pattern);
/* In the order of their names: "name:m", a mutex, w, r; ? where it is not told. */
const char *listed(void);
#define LISTED(names) assert_string_equal(listed(), names)
/* Three clients, and nothing is set. */
void begin_listing(void);
/* Waits until it is held. */
struct hold *hold_as(struct peer *peer, const char *name, enum lw_mode mode,
                     const char *owner);

#endif
