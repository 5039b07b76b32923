/* SPDX-License-Identifier: MIT */
#include "common.h"

static void answer(const char *text)
{
    require(strstr(text, "lockwire_granted_total 0") != NULL,
            "the metrics");
}

/* shown: */
static void on_metrics_request(void)
{
    struct lw_stats stats = LW_STATS_INIT;
    const struct lw_stats *all[] = {&stats};
    char text[16384];

    (void)lw_client_stats(client, &stats);
    (void)lw_stats_prometheus(all, NULL, 1, text, sizeof(text));
    answer(text); /* Content-Type: text/plain; version=0.0.4 */
}
/* until here */

int main(void)
{
    begin();
    on_metrics_request();
    done = true;
    end();
}
