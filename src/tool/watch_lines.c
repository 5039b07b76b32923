/* SPDX-License-Identifier: MIT */
/* See watch_inside.h: a line, with the time of day, for each holder or waiter that comes
 * or goes, for another master, for an outage and its end. */
#include "watch_inside.h"

#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watch_known {
    bool holds, named; /* it is known whose it is */
    char *token, *words;
};

static void write_line(const char *what, const char *words)
{
    char stamp[40];
    time_t now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S%z", &local);
    (void)printf("%s %s%s%s\n", stamp, what, *words ? " " : "", words);
}

static struct watch_known *find(struct watch_known *list, size_t count, const char *token,
                                bool holds)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].holds == holds && strcmp(list[i].token, token) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static void forget(struct watch_known *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].token);
        free(list[i].words);
    }
    free(list);
}

static bool note(struct watch_known *known, const struct lw_inspected *entry, bool holds)
{
    char words[WATCH_WORDS];

    picture_words(entry, words, sizeof(words));
    *known = (struct watch_known){holds, *entry->client != '\0', strdup(entry->token),
                                  strdup(words)};
    return known->token != NULL && known->words != NULL;
}

/* Who ends takes back first what it said of itself: what was known stays. */
static void stay_named(struct watch_lines *lines, struct watch_known *now)
{
    struct watch_known *before = find(lines->known, lines->count, now->token, now->holds);

    if (before != NULL && before->named && !now->named) {
        struct watch_known nameless = *now;
        *now = *before;
        *before = nameless;
    }
}

/* Takes over `now`, which has as many as the inspection. */
static void write_changes(struct watch_lines *lines, struct watch_known *now,
                          size_t count)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct watch_known *before = &lines->known[i];

        if (find(now, count, before->token, true) == NULL &&
            find(now, count, before->token, false) == NULL) {
            write_line("left", before->words);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (find(lines->known, lines->count, now[i].token, now[i].holds) == NULL) {
            write_line(now[i].holds ? "holds" : "waits", now[i].words);
        }
        stay_named(lines, &now[i]);
    }
    forget(lines->known, lines->count);
    lines->known = now;
    lines->count = count;
}

static void write_headline(struct watch_lines *lines, const char *headline)
{
    if (strcmp(headline, lines->headline) == 0) {
        return;
    }
    if (*headline) {
        write_line(headline, "");
    }
    (void)snprintf(lines->headline, sizeof(lines->headline), "%s", headline);
}

static void write_master(struct watch_lines *lines, const struct lw_master *master)
{
    char place[sizeof(lines->master)], words[WATCH_WORDS];

    picture_place(master, place, sizeof(place));
    if (*lines->master && strcmp(place, lines->master) != 0) {
        (void)snprintf(words, sizeof(words), "%s, of %s, was %s", place, master->service,
                       lines->master);
        write_line("master", words);
    }
    (void)snprintf(lines->master, sizeof(lines->master), "%s", place);
}

bool watch_lines_seen(struct watch_lines *lines, const struct lw_inspection *seen,
                      const struct lw_master *master)
{
    size_t count = seen->holder_count + seen->waiter_count;
    struct watch_known *now = calloc(count + 1, sizeof(*now));
    char headline[WATCH_WORDS], server[1000];
    bool done = now != NULL;

    for (size_t i = 0; done && i < count; i++) {
        done = i < seen->holder_count
                   ? note(&now[i], lw_inspection_holder(seen, i), true)
                   : note(&now[i], lw_inspection_waiter(seen, i - seen->holder_count),
                          false);
    }
    if (!done) {
        if (now != NULL) {
            forget(now, count);
        }
        return false;
    }
    if (lines->cut_off) {
        picture_server(seen, server, sizeof(server));
        write_line("answers:", server);
        lines->cut_off = false;
    }
    if (master != NULL) {
        write_master(lines, master);
    }
    write_changes(lines, now, count);
    headline[0] = '\0';
    if (seen->holder_total == 0) {
        picture_headline(seen, 0, headline, sizeof(headline));
    }
    write_headline(lines, headline);
    return true;
}

void watch_lines_outage(struct watch_lines *lines, const struct watch_outage *outage,
                        int64_t age_ms)
{
    char age[40], words[WATCH_WORDS];

    if (*outage->why) {
        (void)snprintf(words, sizeof(words), "%s: %s", outage->what, outage->why);
    } else if (age_ms >= 0) {
        picture_age(age_ms, age, sizeof(age));
        (void)snprintf(words, sizeof(words), "%s, the last one %s ago", outage->what,
                       age);
    } else {
        (void)snprintf(words, sizeof(words), "%s", outage->what);
    }
    write_headline(lines, words);
    lines->cut_off = true;
}

void watch_lines_forget(struct watch_lines *lines)
{
    forget(lines->known, lines->count);
}
