/* SPDX-License-Identifier: MIT */
/*
 * See family.h. The command's group is signalled as one, so that none of it gets away by a
 * fork; the others one by one, as often as the caller looks again.
 *
 * Happy path: read_session; claim for as long as somebody's parent was found to belong;
 * those are who is known from now on.
 */
#include "family.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <unistd.h>

struct relative {
    pid_t pid, parent, group, session;
    unsigned long long started;
    bool ours;
};

static bool add(struct relatives *all, const struct relative *one)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct relative *list = realloc(all->list, room * sizeof(*list));

        if (!list)
            return false;
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *one;
    return true;
}

/* /proc/PID/stat is one line: PID (NAME) STATE PARENT GROUP SESSION ..., and when it started
 * as the 22nd word; the name may hold anything. One that is dead, and only waits for its
 * parent to look, is none any more. */
static bool read_one(const char *pid, struct relative *one)
{
    char path[64], line[512], state;
    const char *rest;
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    length = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[length] = '\0';
    rest = strrchr(line, ')');
    one->pid = (pid_t)strtol(pid, NULL, 10);
    return rest &&
           sscanf(rest + 1,
                  " %c %d %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                  " %*s %llu",
                  &state, &one->parent, &one->group, &one->session, &one->started) == 5 &&
           state != 'Z' && state != 'X';
}

static bool among(const struct relatives *all, const struct relative *one)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].pid == one->pid && all->list[i].started == one->started)
            return true;
    }
    return false;
}

/* Everybody in the session who may belong. */
static bool read_session(const struct family *family, struct relatives *all)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    bool whole = proc && access("/proc/self/stat", R_OK) == 0;

    while (whole && (entry = readdir(proc)) != NULL) {
        struct relative one;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !read_one(entry->d_name, &one) || one.session != family->session ||
            one.pid == family->root || among(&family->strangers, &one))
            continue;
        one.ours = (family->group > 0 && one.group == family->group) ||
                   (family->root > 0 && one.parent == family->root) ||
                   among(&family->known, &one);
        whole = add(all, &one);
    }
    if (proc)
        closedir(proc);
    return whole;
}

static bool is_ours(const struct relatives *all, pid_t pid)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].pid == pid)
            return all->list[i].ours;
    }
    return false;
}

/* The children of those who belong. Were there any that had not been found yet? */
static bool claim(struct relatives *all)
{
    bool more = false;

    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].ours || !is_ours(all, all->list[i].parent))
            continue;
        all->list[i].ours = true;
        more = true;
    }
    return more;
}

static void keep_ours(struct relatives *all)
{
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].ours)
            all->list[count++] = all->list[i];
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
    while (claim(all))
        continue;
    keep_ours(all);
    return true;
}

void family_begin(struct family *family)
{
    struct relatives all = {0};

#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
    *family = (struct family){.session = getsid(0), .root = getpid()};
    if (find(family, &all))
        family->strangers = all;
}

size_t family_signal(struct family *family, int number)
{
    struct relatives all = {0};
    bool group_lives = false;

    if (!find(family, &all))
        return kill(-family->group, number) == 0;
    free(family->known.list);
    family->known = all;
    for (size_t i = 0; number != 0 && i < all.count; i++) {
        if (all.list[i].group != family->group)
            kill(all.list[i].pid, number);
        else
            group_lives = true; /* else its number may be another's by now */
    }
    if (group_lives)
        kill(-family->group, number);
    return all.count;
}

void family_free(struct family *family)
{
    free(family->known.list);
    free(family->strangers.list);
}
