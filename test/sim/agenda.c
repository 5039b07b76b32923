/* SPDX-License-Identifier: MIT
 *
 * The agenda: a heap of planned events, ordered by time and, within a microsecond, by
 * order of planning. Independent of what the events do.
 *
 * Usual course: agenda_add() plans an event; agenda_run_due() runs it when world.now_us
 * has reached its time.
 */
#include "world.h"

#include <stdlib.h>

static bool before(const struct event_entry *a, const struct event_entry *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(size_t a, size_t b)
{
    struct event_entry entry = world.agenda[a];

    world.agenda[a] = world.agenda[b];
    world.agenda[b] = entry;
}

void agenda_add(int64_t at_us, void (*run)(void *arg), void *arg)
{
    size_t at = world.agenda_count++;

    if (world.order == EVENTS) {
        violation("so much happens that it gets nowhere");
    }
    if (world.agenda_count > world.agenda_size) {
        world.agenda_size = world.agenda_size ? world.agenda_size * 2 : 1024;
        world.agenda =
            must_realloc(world.agenda, world.agenda_size * sizeof(*world.agenda));
    }
    world.agenda[at] = (struct event_entry){at_us, world.order++, run, arg};
    for (; at > 0 && before(&world.agenda[at], &world.agenda[(at - 1) / 2]);
         at = (at - 1) / 2) {
        swap(at, (at - 1) / 2);
    }
}

int64_t agenda_next(void)
{
    return world.agenda_count ? world.agenda[0].at_us : NEVER;
}

static struct event_entry take_first(void)
{
    struct event_entry first = world.agenda[0];
    size_t at = 0;

    world.agenda[0] = world.agenda[--world.agenda_count];
    for (;;) {
        size_t least = at, left = at * 2 + 1, right = left + 1;

        if (left < world.agenda_count &&
            before(&world.agenda[left], &world.agenda[least])) {
            least = left;
        }
        if (right < world.agenda_count &&
            before(&world.agenda[right], &world.agenda[least])) {
            least = right;
        }
        if (least == at) {
            return first;
        }
        swap(at, least);
        at = least;
    }
}

void agenda_run_due(void)
{
    while (agenda_next() <= world.now_us) {
        struct event_entry due = take_first();
        due.run(due.arg);
    }
}

void agenda_clear(void)
{
    free(world.agenda);
    world.agenda = NULL;
    world.agenda_count = world.agenda_size = 0;
}
