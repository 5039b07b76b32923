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
#ifdef __FreeBSD__
#include <sys/types.h>
#include <sys/sysctl.h>
#include <sys/user.h>
#endif

#define MAX_EMPTY_LOOKS 20 /* then an existing group counts as dead, but not reaped */

struct process {
    pid_t pid, parent, group, session;
    long long start_time;
    bool belongs, stopped;
    bool dead;   /* but not reaped: its group still exists */
    bool halted; /* by process_tree_stop_outsiders */
};

static bool append(struct process_list *all, const struct process *one)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct process *list = realloc(all->list, room * sizeof(*list));

        if (list == NULL) {
            return false;
        }
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *one;
    return true;
}

#ifdef __FreeBSD__

static void read_one(const struct kinfo_proc *entry, struct process *one)
{
    *one = (struct process){.pid = entry->ki_pid,
                            .parent = entry->ki_ppid,
                            .group = entry->ki_pgid,
                            .session = entry->ki_sid,
                            .start_time = entry->ki_start.tv_sec * 1000000LL +
                                          entry->ki_start.tv_usec,
                            .stopped = entry->ki_stat == SSTOP,
                            .dead = entry->ki_stat == SZOMB};
}

#else

/* Returns the number after so many blanks, or -1. */
static long long number_after(const char *words, int blanks)
{
    while (words != NULL && blanks-- > 0) {
        words = strchr(words, ' ');
        words = words != NULL ? words + 1 : NULL;
    }
    return words != NULL ? strtoll(words, NULL, 10) : -1;
}

/* /proc/PID/stat is one line: PID (NAME) STATE PARENT GROUP SESSION ...; word 20 is the
 * number of threads, word 22 the start time. The name may contain any character. */
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

/* A zombie is inactive unless other threads of it run. It is read all the same, because
 * it may reveal the group of children that are too short-lived to be seen. */
static bool read_one(const char *pid, struct process *one)
{
    char line[512];
    const char *words = read_line(pid, line, sizeof(line)) ? strrchr(line, ')') : NULL;

    if (words == NULL || words[1] != ' ') {
        return false;
    }
    *one = (struct process){.pid = (pid_t)strtol(pid, NULL, 10),
                            .parent = (pid_t)number_after(words, 2),
                            .group = (pid_t)number_after(words, 3),
                            .session = (pid_t)number_after(words, 4),
                            .start_time = number_after(words, 20),
                            .stopped = words[2] == 'T'};
    one->dead = (words[2] == 'Z' || words[2] == 'X') && number_after(words, 18) <= 1;
    return true;
}

#endif

static int compare_pids(const void *left, const void *right)
{
    pid_t a = ((const struct process *)left)->pid;
    pid_t b = ((const struct process *)right)->pid;

    return (a > b) - (a < b);
}

static struct process *find_pid(const struct process_list *all, pid_t pid)
{
    struct process key = {.pid = pid};

    return all->count > 0
               ? bsearch(&key, all->list, all->count, sizeof(*all->list), compare_pids)
               : NULL;
}

static struct process *find_same(const struct process_list *all,
                                 const struct process *one)
{
    struct process *found = find_pid(all, one->pid);

    return found != NULL && found->start_time == one->start_time ? found : NULL;
}

/* Returns true if the process may belong; sets `belongs` if that is certain without its
 * relatives. */
static bool classify(const struct process_tree *tree, struct process *one)
{
    const struct process *members;

    if (one->session != tree->session || one->pid == tree->root ||
        find_same(&tree->unrelated, one) != NULL) {
        return false;
    }
    members = find_same(&tree->members, one);
    one->halted = members != NULL && members->halted;
    one->belongs = members != NULL || (tree->group > 0 && one->group == tree->group) ||
                   (tree->root > 0 && one->parent == tree->root);
    return true;
}

#ifdef __FreeBSD__

/* Returns the kernel's table of processes, to be freed, and its size in bytes; or NULL.
 * There is room for processes that start between the two calls. */
static struct kinfo_proc *read_table(size_t *size)
{
    static const int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PROC};
    struct kinfo_proc *table;

    if (sysctl(name, 3, NULL, size, NULL, 0) < 0) {
        return NULL;
    }
    *size += *size / 4;
    table = malloc(*size);
    if (table != NULL && sysctl(name, 3, table, size, NULL, 0) < 0) {
        free(table);
        return NULL;
    }
    return table;
}

/* Reads the processes of the session that may belong. Returns false on failure. */
static bool read_session(const struct process_tree *tree, struct process_list *all)
{
    size_t size;
    struct kinfo_proc *table = read_table(&size);
    bool whole = table != NULL;

    for (size_t i = 0; whole && i < size / sizeof(*table); i++) {
        struct process one;

        read_one(&table[i], &one);
        whole = !classify(tree, &one) || append(all, &one);
    }
    free(table);
    if (all->count > 0) {
        qsort(all->list, all->count, sizeof(*all->list), compare_pids);
    }
    return whole;
}

#else

/* Returns true if /proc exists and numbers processes as we do. */
static bool proc_is_usable(void)
{
    char self[32];
    ssize_t length = readlink("/proc/self", self, sizeof(self) - 1);

    if (length <= 0) {
        return false;
    }
    self[length] = '\0';
    return strtol(self, NULL, 10) == getpid();
}

/* Reads the processes of the session that may belong. Returns false on failure. */
static bool read_session(const struct process_tree *tree, struct process_list *all)
{
    DIR *proc = proc_is_usable() ? opendir("/proc") : NULL;
    bool whole = proc != NULL;
    struct dirent *entry;

    while (whole && (entry = readdir(proc)) != NULL) {
        struct process one;

        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_one(entry->d_name, &one) && classify(tree, &one)) {
            whole = append(all, &one);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
    if (all->count > 0) {
        qsort(all->list, all->count, sizeof(*all->list), compare_pids);
    }
    return whole;
}

#endif

/* Adds the children of members. Returns true if there were new ones. */
static bool add_children(struct process_list *all)
{
    bool more = false;

    for (size_t i = 0; i < all->count; i++) {
        const struct process *parent = find_pid(all, all->list[i].parent);

        if (all->list[i].belongs || parent == NULL || !parent->belongs) {
            continue;
        }
        all->list[i].belongs = true;
        more = true;
    }
    return more;
}

static void keep_members(struct process_list *all)
{
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].belongs) {
            all->list[count++] = all->list[i];
        }
    }
    all->count = count;
}

/* Returns false if the members cannot be determined. */
static bool find_members(const struct process_tree *tree, struct process_list *all)
{
    if (!read_session(tree, all)) {
        free(all->list);
        return false;
    }
    while (add_children(all)) {
        /* the new ones may have children */
    }
    keep_members(all);
    return true;
}

void process_tree_begin(struct process_tree *tree)
{
    struct process_list all = {0};

    system_adopt_descendants();
    *tree = (struct process_tree){
        .session = getsid(0), .root = getpid(), .root_group = getpgrp()};
    if (find_members(tree, &all)) {
        tree->unrelated = all;
    }
}

/* Once a group has ended, its number may become another's. */
static bool group_exists(struct process_tree *tree)
{
    if (tree->group > 0 && kill(-tree->group, 0) < 0 && errno == ESRCH) {
        tree->group = 0;
    }
    return tree->group > 0;
}

static size_t count_alive(const struct process_list *all)
{
    size_t alive = 0;

    for (size_t i = 0; i < all->count; i++) {
        alive += !all->list[i].dead;
    }
    return alive;
}

size_t process_tree_update(struct process_tree *tree)
{
    bool lives = group_exists(tree);
    bool denied = lives &&
                  kill(-tree->group, 0) < 0; /* its processes may be hidden as well */
    struct process_list all = {0};
    size_t alive;

    if (!find_members(tree, &all)) {
        return lives;
    }
    free(tree->members.list);
    tree->members = all;
    alive = count_alive(&all);
    tree->empty_looks = alive == 0 && lives && !denied ? tree->empty_looks + 1 : 0;
    return alive > 0 ? alive : lives && tree->empty_looks < MAX_EMPTY_LOOKS;
}

static bool is_first_of_its_group(const struct process_list *all, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (all->list[i].group == all->list[index].group) {
            return false;
        }
    }
    return true;
}

size_t process_tree_signal(struct process_tree *tree, int number)
{
    size_t count = process_tree_update(tree);

    for (size_t i = 0; i < tree->members.count; i++) {
        const struct process *one = &tree->members.list[i];

        if (one->group == tree->root_group) {
            kill(one->pid, number);
        } else if (one->group != tree->group &&
                   is_first_of_its_group(&tree->members, i)) {
            kill(-one->group, number);
        }
    }
    if (tree->group > 0) {
        kill(-tree->group, number);
    }
    return count;
}

void process_tree_stop_outsiders(struct process_tree *tree)
{
    process_tree_update(tree);
    for (size_t i = 0; i < tree->members.count; i++) {
        struct process *one = &tree->members.list[i];

        one->halted = one->group != tree->group && !one->stopped &&
                      kill(one->pid, SIGSTOP) == 0;
    }
}

void process_tree_resume_outsiders(struct process_tree *tree)
{
    for (size_t i = 0; i < tree->members.count; i++) {
        struct process *one = &tree->members.list[i];

        if (one->halted) {
            kill(one->pid, SIGCONT);
        }
        one->halted = false;
    }
}

void process_tree_free(struct process_tree *tree)
{
    free(tree->members.list);
    free(tree->unrelated.list);
}
