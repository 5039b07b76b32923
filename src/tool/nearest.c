/* SPDX-License-Identifier: MIT */
/* See nearest.h. */
#include "nearest.h"

#include <string.h>

/* Counts the letters to insert, delete, replace or swap with the next one until `word` is
 * `name`. Names of 32 letters and more are far away. */
static size_t count_typos(const char *word, size_t length, const char *name)
{
    size_t costs[33][33], size = strlen(name);

    if (length > 32 || size > 32) {
        return 32;
    }
    for (size_t i = 0; i <= length; i++) {
        for (size_t j = 0; j <= size; j++) {
            size_t cost = i > j ? i : j;

            if (i > 0 && j > 0) {
                size_t kept = costs[i - 1][j - 1] + (word[i - 1] != name[j - 1]);
                size_t other = costs[i - 1][j] < costs[i][j - 1] ? costs[i - 1][j]
                                                                 : costs[i][j - 1];

                cost = kept < other + 1 ? kept : other + 1;
            }
            if (i > 1 && j > 1 && word[i - 1] == name[j - 2] &&
                word[i - 2] == name[j - 1] && costs[i - 2][j - 2] + 1 < cost) {
                cost = costs[i - 2][j - 2] + 1;
            }
            costs[i][j] = cost;
        }
    }
    return costs[length][size];
}

void nearest_compare(const char *word, size_t length, const char *name,
                     struct nearest *best)
{
    size_t distance = count_typos(word, length, name);

    if (distance <= 2 && 2 * distance < length &&
        (*best->name == '\0' || distance < best->distance)) {
        *best = (struct nearest){name, distance};
    }
}
