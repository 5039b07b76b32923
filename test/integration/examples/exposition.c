/* SPDX-License-Identifier: MIT */
/* Prints the output of lw_stats_prometheus for two clients' statistics, in which all
 * numbers are different: for alerts.py. */
#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static char text[65536];
    struct lw_stats stats[2] = {LW_STATS_INIT, LW_STATS_INIT};
    const struct lw_stats *all[] = {&stats[0], &stats[1]};
    const char *labels[] = {"client=\"a\",quoted=\"\\\"\\\\\\n\"", "client=\"b\""};
    uint64_t value = 1;
    int length;

    for (size_t at = sizeof(stats->size); at < sizeof(*stats); at += sizeof(value)) {
        for (size_t i = 0; i < 2; i++) {
            memcpy((char *)&stats[i] + at, &value, sizeof(value));
            value++;
        }
    }
    length = lw_stats_prometheus(all, labels, 2, text, sizeof(text));
    if (length < 0 || (size_t)length >= sizeof(text)) {
        return EXIT_FAILURE;
    }
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
