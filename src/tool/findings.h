/* SPDX-License-Identifier: MIT */
/* What doctor has found out about a server: one line each, with its level and, if there
 * is one, what to do. Log entries of the library become findings as they are. Independent
 * of how they are found. */
#ifndef LW_TOOL_FINDINGS_H
#define LW_TOOL_FINDINGS_H
#include <stdbool.h>
#include <stddef.h>

enum finding_level {
    FINDING_OK,
    FINDING_WARNING, /* locks work, but slower, or not in every situation */
    FINDING_FAILS
};

struct findings {
    struct finding *list;
    size_t count, room;
    bool incomplete;    /* memory was short */
    const char *server; /* the quorum's server that the next findings are about, or "" */
    const char *user, *sentinel_user, *prefix; /* for remedies */
};

/* Adds a finding, unless there is one with the same text. Its remedy depends on the text;
 * one that is given replaces it, unless it is "". */
void findings_add(struct findings *findings, enum finding_level level, const char *remedy,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Adds an entry of the library's log. One that is not urgent is ok, unless a remedy is
 * known. */
void findings_add_log(struct findings *findings, int syslog_level, const char *message);
/* Writes all findings, and what the exit code means, as lines or as a JSON object.
 * Returns 0, or -1 without memory. */
int findings_write(const struct findings *findings, int code, bool json);
void findings_clear(struct findings *findings);

#endif
