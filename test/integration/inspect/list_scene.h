/* SPDX-License-Identifier: MIT */
/* lw_list for tests: the names found, as a readable line, and a check that the callbacks
 * keep the rules. A name that comes twice is listed once.
 *
 * Usual course: list_all(a, NULL); LISTED("r:r x:m"). */
#ifndef TEST_INSPECT_LIST_SCENE_H
#define TEST_INSPECT_LIST_SCENE_H
#include "inspect/scene.h"

struct list {
    struct peer *peer;
    int status;           /* PENDING, or the status of the last callback */
    char names[200][520]; /* the names found, each with its mode */
    size_t count, told, steps;
    uint64_t seen, keys;
    char why[256];
    /* kept from one call to the next: */
    int stops_at; /* the call of `found` that ends the listing; 0: none */
    void (*then)(struct peer *peer); /* called in each of its calls */
};
extern struct list list;

/* Calls lw_list, which must accept the call; in the end the trace has "listed OK". */
void call_list(struct peer *peer, const char *pattern);
/* The same, and waits for LW_OK. */
void list_all(struct peer *peer, const char *pattern);
/* Returns the names in alphabetical order: "name:m" for a mutex, w, r; ? if the mode is
 * not known. */
const char *listed(void);
#define LISTED(names) assert_string_equal(listed(), names)
/* Starts three clients, and clears what is kept in `list`. */
void begin_listing(void);
/* Acquires the lock, and waits for the grant. */
struct hold *hold_as(struct peer *peer, const char *name, enum lw_mode mode,
                     const char *owner);

#endif
