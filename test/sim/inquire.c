/* SPDX-License-Identifier: MIT
 *
 * Operators: hosts that inspect and break locks while everything else goes on. Counts the
 * callbacks. Independent of what the locks are for.
 *
 * Usual course: inquire() calls lw_inspect or lw_break. One callback follows, unless the
 * client is freed before.
 */
#include "world.h"

#include <stdlib.h>

struct inquiry {
    struct inquiry *next;
    struct host *host;
    unsigned life, id;
    unsigned answers;
};

static struct inquiry *inquiries;

static void answered(struct inquiry *inquiry, const struct lw_client *client, int status)
{
    const struct host *host = inquiry->host;

    trace("inquiry %u is answered: %s", inquiry->id, lw_strerror(status));
    if (host->in_call || host->client != client || host->life != inquiry->life) {
        violation("inquiry %u: answered in a call, or after its client", inquiry->id);
    }
    if (++inquiry->answers > 1) {
        violation("inquiry %u: answered again", inquiry->id);
    }
}

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *inspection, const char *why,
                         void *arg)
{
    struct inquiry *inquiry = arg;

    (void)why;
    answered(inquiry, client, status);
    if ((status == LW_OK) != (inspection != NULL)) {
        violation("inquiry %u: %s, and the answer is %s", inquiry->id,
                  lw_strerror(status), inspection != NULL ? "there" : "missing");
    }
    if (status != LW_OK && status != LW_ECONN && status != LW_EREDIS &&
        status != LW_ECLOSED) {
        violation("inquiry %u: %d", inquiry->id, status);
    }
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    struct inquiry *inquiry = arg;

    (void)why;
    answered(inquiry, client, status);
    if (status != LW_OK && status != LW_ENOTHELD && status != LW_ECONN &&
        status != LW_EUNKNOWN && status != LW_EREDIS && status != LW_ECLOSED) {
        violation("inquiry %u: %d", inquiry->id, status);
    }
}

void inquire(struct host *host, const char *name, bool to_break)
{
    struct inquiry *inquiry;
    int status;

    if (host->client == NULL || host->closing || !host_can_run(host)) {
        return;
    }
    inquiry = must_alloc(sizeof(*inquiry));
    *inquiry = (struct inquiry){inquiries, host, host->life, 1, 0};
    if (inquiries != NULL) {
        inquiry->id = inquiries->id + 1;
    }
    inquiries = inquiry;
    trace("inquiry %u: h%d %s %s", inquiry->id, host->id,
          to_break ? "breaks" : "inspects", name);
    world.current = host;
    host->in_call++;
    if (to_break) {
        status = lw_break(host->client, load_given(name), NULL, on_broken, inquiry);
    } else {
        status = lw_inspect(host->client, load_given(name), on_inspected, inquiry);
    }
    host->in_call--;
    host->ready = true;
    world.current = NULL;
    if (status != LW_OK) {
        violation("inquiry %u: %s", inquiry->id, lw_strerror(status));
    }
}

/* Checks, after all clients have settled, that every inquiry was answered. */
void inquire_end(void)
{
    while (inquiries != NULL) {
        struct inquiry *inquiry = inquiries;

        if (inquiry->answers == 0 && inquiry->host->life == inquiry->life &&
            inquiry->host->client != NULL) {
            violation("inquiry %u was never answered", inquiry->id);
        }
        inquiries = inquiry->next;
        free(inquiry);
    }
}
