/* SPDX-License-Identifier: MIT */
/* A program whose header has fewer fields of an entry than the library: it finds each
 * entry at its place all the same. Independent of how entries are stored.
 *
 * Usual course: three owners hold "x", and lw_inspect finds all of them. */
#include "lockwire_older.h"
#include "players.h"

#include <string.h>

#define HOLDERS 3

static const char *const owners[HOLDERS] = {"anna", "berta", "carl"};
static unsigned seen_holders; /* one bit for each owner */
static size_t entry_size;
static bool looked;

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    (void)client, (void)why, (void)arg;
    looked = true;
    if (status != LW_OK || seen->holder_count != HOLDERS) {
        stage_complain("not what was to be seen: %d", status);
        return;
    }
    entry_size = seen->entry_size;
    for (size_t i = 0; i < seen->holder_count; i++) {
        for (unsigned j = 0; j < HOLDERS; j++) {
            if (strcmp(lw_inspection_holder(seen, i)->owner, owners[j]) == 0) {
                seen_holders |= 1u << j;
            }
        }
    }
}

static void all_entries_are_seen(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (size_t i = 0; i < HOLDERS; i++) {
        struct hold *hold = acquire_hold_with(
            a, owners[i], "x", asking(.mode = LW_SHARED, .owner = owners[i]));
        UNTIL(hold->result == LW_OK);
    }
    assert_int_equal(lw_inspect(a->client, "x", on_inspected, NULL), 0);
    UNTIL(looked);
    /* Otherwise nothing is tested. */
    assert_true(entry_size > sizeof(struct lw_inspected));
    assert_int_equal(seen_holders, (1u << HOLDERS) - 1);
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(all_entries_are_seen),
    };

    return STAGE_RUN(tests);
}
