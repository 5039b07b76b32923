/* SPDX-License-Identifier: MIT */
/* See process_tree.h. Groups are signaled as a whole, so that no process escapes by a
 * fork. */
#include "process_tree.h"

#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNSEEN_LOOKS 20 /* until a group that answers is held to be dead, not reaped */

struct relative {
    pid_t pid, parent, group, session;
    long long started;
    bool ours, stopped;
    bool dead;   /* and not reaped yet: its group is still its group */
    bool halted; /* by family_halt */
};

static bool add(struct relatives *all, const struct relative *one)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct relative *list = realloc(all->list, room * sizeof(*list));

        if (list == NULL) {
            return false;
        }
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *one;
    return true;
}

/* The number after so many blanks, or -1. */
static long long number_at(const char *words, int blanks)
{
    while (words != NULL && blanks-- > 0) {
        words = strchr(words, ' ');
        words = words != NULL ? words + 1 : NULL;
    }
    return words != NULL ? strtoll(words, NULL, 10) : -1;
}

/* /proc/PID/stat is one line: PID (NAME) STATE PARENT GROUP SESSION ..., as its 20th word
 * the number of threads and as the 22nd when it started; the name may hold anything. */
static bool read_line(const char *pid, char *line, size_t size)
{
    char path[64];
    size_t length;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    length = fread(line, 1, size - 1, file);
    (void)fclose(file);
    line[length] = '\0';
    return true;
}

/* One that is dead, and only waits for its parent to look, does nothing any more, unless
 * its threads go on; but it may show the group of children that are too fast to be seen.
 */
static bool read_one(const char *pid, struct relative *one)
{
    char line[512];
    const char *words = read_line(pid, line, sizeof(line)) ? strrchr(line, ')') : NULL;

    if (words == NULL || words[1] != ' ') {
        return false;
    }
    *one = (struct relative){.pid = (pid_t)strtol(pid, NULL, 10),
                             .parent = (pid_t)number_at(words, 2),
                             .group = (pid_t)number_at(words, 3),
                             .session = (pid_t)number_at(words, 4),
                             .started = number_at(words, 20),
                             .stopped = words[2] == 'T'};
    one->dead = (words[2] == 'Z' || words[2] == 'X') && number_at(words, 18) <= 1;
    return true;
}

static int compare(const void *left, const void *right)
{
    pid_t a = ((const struct relative *)left)->pid;
    pid_t b = ((const struct relative *)right)->pid;

    return (a > b) - (a < b);
}

static struct relative *with_pid(const struct relatives *all, pid_t pid)
{
    struct relative key = {.pid = pid};

    return all->count > 0
               ? bsearch(&key, all->list, all->count, sizeof(*all->list), compare)
               : NULL;
}

static struct relative *same(const struct relatives *all, const struct relative *one)
{
    struct relative *found = with_pid(all, one->pid);

    return found != NULL && found->started == one->started ? found : NULL;
}

/* May it belong, and does it, by what is to be seen of it alone? */
static bool consider(const struct family *family, struct relative *one)
{
    const struct relative *known;

    if (one->session != family->session || one->pid == family->root ||
        same(&family->strangers, one) != NULL) {
        return false;
    }
    known = same(&family->known, one);
    one->halted = known != NULL && known->halted;
    one->ours = known != NULL || (family->group > 0 && one->group == family->group) ||
                (family->root > 0 && one->parent == family->root);
    return true;
}

/* Is /proc there, and of the processes that we number as it does? */
static bool proc_is_ours(void)
{
    char self[32];
    ssize_t length = readlink("/proc/self", self, sizeof(self) - 1);

    if (length <= 0) {
        return false;
    }
    self[length] = '\0';
    return strtol(self, NULL, 10) == getpid();
}

/* Everybody in the session who may belong. */
static bool read_session(const struct family *family, struct relatives *all)
{
    DIR *proc = proc_is_ours() ? opendir("/proc") : NULL;
    bool whole = proc != NULL;
    struct dirent *entry;

    while (whole && (entry = readdir(proc)) != NULL) {
        struct relative one;

        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_one(entry->d_name, &one) && consider(family, &one)) {
            whole = add(all, &one);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
    if (all->count > 0) {
        qsort(all->list, all->count, sizeof(*all->list), compare);
    }
    return whole;
}

/* The children of those who belong. Were there any that had not been found yet? */
static bool claim(struct relatives *all)
{
    bool more = false;

    for (size_t i = 0; i < all->count; i++) {
        const struct relative *parent = with_pid(all, all->list[i].parent);

        if (all->list[i].ours || parent == NULL || !parent->ours) {
            continue;
        }
        all->list[i].ours = true;
        more = true;
    }
    return more;
}

static void keep_ours(struct relatives *all)
{
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].ours) {
            all->list[count++] = all->list[i];
        }
    }
    all->count = count;
}

/* Those who belong. False: there is no telling. */
static bool find(const struct family *family, struct relatives *all)
{
    if (!read_session(family, all)) {
        free(all->list);
        return false;
    }
    while (claim(all)) {
        /* one of them may have brought more */
    }
    keep_ours(all);
    return true;
}

void family_begin(struct family *family)
{
    struct relatives all = {0};

    system_adopt_descendants();
    *family =
        (struct family){.session = getsid(0), .root = getpid(), .outside = getpgrp()};
    if (find(family, &all)) {
        family->strangers = all;
    }
}

/* A group that is gone is gone for good, and its number may become another's. */
static bool group_lives(struct family *family)
{
    if (family->group > 0 && kill(-family->group, 0) < 0 && errno == ESRCH) {
        family->group = 0;
    }
    return family->group > 0;
}

static size_t count_alive(const struct relatives *all)
{
    size_t alive = 0;

    for (size_t i = 0; i < all->count; i++) {
        alive += !all->list[i].dead;
    }
    return alive;
}

size_t family_look(struct family *family)
{
    bool lives = group_lives(family);
    bool denied = lives && kill(-family->group, 0) < 0; /* it may not be seen, either */
    struct relatives all = {0};
    size_t alive;

    if (!find(family, &all)) {
        return lives;
    }
    free(family->known.list);
    family->known = all;
    alive = count_alive(&all);
    family->unseen = alive == 0 && lives && !denied ? family->unseen + 1 : 0;
    return alive > 0 ? alive : lives && family->unseen < UNSEEN_LOOKS;
}

static bool is_first_of_its_group(const struct relatives *all, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (all->list[i].group == all->list[index].group) {
            return false;
        }
    }
    return true;
}

size_t family_signal(struct family *family, int number)
{
    size_t count = family_look(family);

    for (size_t i = 0; i < family->known.count; i++) {
        const struct relative *one = &family->known.list[i];

        if (one->group == family->outside) {
            kill(one->pid, number);
        } else if (one->group != family->group &&
                   is_first_of_its_group(&family->known, i)) {
            kill(-one->group, number);
        }
    }
    if (family->group > 0) {
        kill(-family->group, number);
    }
    return count;
}

void family_halt(struct family *family)
{
    family_look(family);
    for (size_t i = 0; i < family->known.count; i++) {
        struct relative *one = &family->known.list[i];

        one->halted = one->group != family->group && !one->stopped &&
                      kill(one->pid, SIGSTOP) == 0;
    }
}

void family_resume(struct family *family)
{
    for (size_t i = 0; i < family->known.count; i++) {
        struct relative *one = &family->known.list[i];

        if (one->halted) {
            kill(one->pid, SIGCONT);
        }
        one->halted = false;
    }
}

void family_free(struct family *family)
{
    free(family->known.list);
    free(family->strangers.list);
}
