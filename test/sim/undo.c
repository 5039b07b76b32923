/* SPDX-License-Identifier: MIT
 *
 * The log of former contents; see undo.h.
 */
#include "undo.h"

#include <stdlib.h>

struct undo_entry {
    struct undo_entry *older;
    struct undo_entry *newer;
    int64_t when_us;
    int space;
    struct bytes name;
    bool was_there;
    struct content content;
};

static void discard(struct undo_entry *entry)
{
    if (entry->was_there) {
        content_free(&entry->content);
    }
    free((char *)entry->name.data);
    free(entry);
}

static void forget_old(struct undo_log *log)
{
    while (log->oldest != NULL && log->oldest->when_us < log->now_us - log->window_us) {
        struct undo_entry *entry = log->oldest;
        log->oldest = entry->newer;
        if (log->oldest != NULL) {
            log->oldest->older = NULL;
        } else {
            log->newest = NULL;
        }
        discard(entry);
    }
}

void undo_remember(struct undo_log *log, int space, struct bytes name,
                   const struct content *content)
{
    struct undo_entry *entry;

    if (log->window_us == 0) {
        return;
    }
    forget_old(log);
    entry = must_alloc(sizeof(*entry));
    entry->when_us = log->now_us;
    entry->space = space;
    entry->name = bytes_copy(name);
    entry->was_there = content != NULL;
    if (content != NULL) {
        content_copy(&entry->content, content);
    }
    entry->older = log->newest;
    if (log->newest != NULL) {
        log->newest->newer = entry;
    } else {
        log->oldest = entry;
    }
    log->newest = entry;
}

void undo_back_to(struct undo_log *log, int64_t when_us, struct keyspace *spaces)
{
    while (log->newest != NULL && log->newest->when_us >= when_us) {
        struct undo_entry *entry = log->newest;
        keyspace_restore(&spaces[entry->space], entry->name,
                         entry->was_there ? &entry->content : NULL);
        log->newest = entry->older;
        if (log->newest != NULL) {
            log->newest->newer = NULL;
        } else {
            log->oldest = NULL;
        }
        discard(entry);
    }
}

void undo_forget(struct undo_log *log)
{
    while (log->oldest != NULL) {
        struct undo_entry *entry = log->oldest;
        log->oldest = entry->newer;
        discard(entry);
    }
    log->newest = NULL;
}
