/* SPDX-License-Identifier: MIT */
/*
 * See ledger.h. Independent of HTTP and locks.
 *
 * read_new takes in the lines, of any gateway, that were added since its last call.
 */
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#define USER_SIZE 65
#define LINE_SIZE (USER_SIZE + 80)

struct ledger_entry {
    char user[USER_SIZE];
    uint64_t fence;
    UT_hash_handle hh;
};

int ledger_open(struct ledger *ledger, const char *path)
{
    int torn;

    *ledger = (struct ledger){.fd = -1};
    ledger->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (ledger->fd < 0) {
        return -1;
    }
    torn = ledger_lock(ledger);
    if (torn >= 0) {
        ledger_unlock(ledger);
    }
    return torn;
}

void ledger_close(struct ledger *ledger)
{
    struct ledger_entry *entry, *next;

    HASH_ITER(hh, ledger->entries, entry, next) {
        HASH_DEL(ledger->entries, entry);
        free(entry);
    }
    if (ledger->fd >= 0) {
        close(ledger->fd);
    }
    ledger->fd = -1;
}

/* Takes in one line. Lines of another form, such as torn ones, are ignored. */
static int take_in(struct ledger *ledger, const char *line)
{
    char user[USER_SIZE], end;
    int fence_at = 0;
    struct ledger_entry *entry;

    if (sscanf(line, "%64s %n%*u %*d %*d.%*3d%c", user, &fence_at, &end) != 2 ||
        end != '\n') {
        return 0;
    }
    HASH_FIND_STR(ledger->entries, user, entry);
    if (entry != NULL) {
        return 0;
    }
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return -1;
    }
    (void)snprintf(entry->user, sizeof(entry->user), "%s", user);
    entry->fence = strtoull(line + fence_at, NULL, 10);
    HASH_ADD_STR(ledger->entries, user, entry);
    return 0;
}

static int read_new(struct ledger *ledger)
{
    char block[16 * LINE_SIZE + 1], *line, *end;
    ssize_t got;

    for (;;) {
        got = pread(ledger->fd, block, sizeof(block) - 1, ledger->read_to);
        if (got < 0) {
            return -1;
        }
        block[got] = '\0';
        for (line = block; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            char kept = end[1];
            end[1] = '\0';
            if (take_in(ledger, line) < 0) {
                return -1;
            }
            end[1] = kept;
        }
        if (line == block) {
            return 0;
        }
        ledger->read_to += line - block;
    }
}

int ledger_find(struct ledger *ledger, const char *user, uint64_t *fence)
{
    struct ledger_entry *entry;

    if (read_new(ledger) < 0) {
        return -1;
    }
    HASH_FIND_STR(ledger->entries, user, entry);
    if (entry == NULL) {
        return 0;
    }
    *fence = entry->fence;
    return 1;
}

/* After a short write the next one writes the rest, or fails with the reason. */
static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, text, length);

        if (written < 0) {
            return -1;
        }
        text += written;
        length -= (size_t)written;
    }
    return 0;
}

static int end_torn_line(int fd)
{
    struct stat file;
    char last;

    if (fstat(fd, &file) < 0) {
        return -1;
    }
    if (file.st_size == 0) {
        return 0;
    }
    if (pread(fd, &last, 1, file.st_size - 1) != 1) {
        return -1;
    }
    if (last == '\n') {
        return 0;
    }
    return write_all(fd, "?\n", 2) < 0 ? -1 : 1;
}

int ledger_lock(struct ledger *ledger)
{
    int torn;

    if (ledger->fd < 0) {
        return 0;
    }
    if (flock(ledger->fd, LOCK_EX) < 0) {
        return -1;
    }
    torn = end_torn_line(ledger->fd);
    if (torn < 0) {
        ledger_unlock(ledger);
    }
    return torn;
}

void ledger_unlock(struct ledger *ledger)
{
    int error = errno;

    if (ledger->fd >= 0) {
        (void)flock(ledger->fd, LOCK_UN);
    }
    errno = error;
}

int ledger_append(struct ledger *ledger, const char *user, uint64_t fence)
{
    struct timespec now;
    char line[LINE_SIZE];
    int length;

    if (ledger->fd < 0) {
        return 0;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    length = snprintf(line, sizeof(line), "%s %" PRIu64 " %d %lld.%03ld\n", user, fence,
                      (int)getpid(), (long long)now.tv_sec, now.tv_nsec / 1000000);
    return write_all(ledger->fd, line, (size_t)length);
}
