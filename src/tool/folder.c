/* SPDX-License-Identifier: MIT */
/*
 * See folder.h.
 *
 * Happy path: mkdir; open, fstat; openat, fstat for each file; unlinkat, rmdir.
 */
#include "folder.h"

#include "patience.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int set_path(struct folder *folder, const char *path, const char *rest,
                    struct why why)
{
    int length = snprintf(folder->path, sizeof(folder->path), "%s%s", path, rest);

    folder->fd = -1;
    if ((size_t)length >= sizeof(folder->path)) {
        return why_set(
            why,
            "the folder's path %.40s... is longer than %zu bytes: a unix socket"
            " would not fit",
            folder->path, sizeof(folder->path) - 1);
    }
    while (length > 1 && folder->path[length - 1] == '/') { /* it would follow a link */
        folder->path[--length] = '\0';
    }
    return 0;
}

static int check(const struct folder *folder, struct why why)
{
    struct stat info;

    if (fstat(folder->fd, &info) < 0) {
        return why_set(why, "cannot look at the folder %s: %s", folder->path,
                       strerror(errno));
    }
    if (info.st_uid != geteuid()) {
        return why_set(why,
                       "the folder %s belongs to user %ju: it must be user %ju's own",
                       folder->path, (uintmax_t)info.st_uid, (uintmax_t)geteuid());
    }
    if ((info.st_mode & 0777) != 0700) {
        return why_set(
            why,
            "the folder %s has mode %04o: it must have 0700, for nobody else may"
            " change what is in it",
            folder->path, (unsigned)info.st_mode & 0777);
    }
    return 0;
}

static int open_checked(struct folder *folder, struct why why)
{
    struct stat info;

    folder->fd = open(folder->path, OPEN_FOLDER);
    if (folder->fd < 0) {
        int error = errno;
        if (lstat(folder->path, &info) == 0 && S_ISLNK(info.st_mode)) {
            return why_set(why,
                           "the folder %s is a symbolic link: name the folder itself",
                           folder->path);
        }
        return why_set(why, "cannot open the folder %s: %s", folder->path,
                       strerror(error));
    }
    if (check(folder, why) == 0) {
        return 0;
    }
    folder_close(folder);
    return -1;
}

int folder_open(struct folder *folder, const char *path, struct why why)
{
    if (set_path(folder, path, "", why) < 0) {
        return -1;
    }
    if (mkdir(folder->path, 0700) < 0 && errno != EEXIST) {
        return why_set(why, "cannot make the folder %s: %s", folder->path,
                       strerror(errno));
    }
    return open_checked(folder, why);
}

int folder_make(struct folder *folder, const char *parent, struct why why)
{
    if (set_path(folder, parent, "/lockwire-XXXXXX", why) < 0) {
        return -1;
    }
    if (mkdtemp(folder->path) == NULL) {
        return why_set(why, "cannot make a folder %s: %s", folder->path, strerror(errno));
    }
    if (open_checked(folder, why) == 0) {
        return 0;
    }
    rmdir(folder->path);
    return -1;
}

int folder_file(const struct folder *folder, const char *name, struct why why)
{
    struct stat info;
    int fd = openat(folder->fd, name,
                    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    if (fd < 0 && errno != ELOOP) {
        return why_set(why, "cannot open %s/%s: %s", folder->path, name, strerror(errno));
    }
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_uid == geteuid() && info.st_nlink == 1) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return why_set(why, "%s/%s is a link, or no plain file of user %ju's: remove it",
                   folder->path, name, (uintmax_t)geteuid());
}

bool folder_lock(int file, int operation, int limit_ms)
{
    struct patience patience = patience_for(limit_ms);

    while (flock(file, operation | LOCK_NB) < 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || !patience_pause(&patience)) {
            return false;
        }
    }
    return true;
}

int folder_socket(const struct folder *folder, const char *name, struct why why)
{
    struct stat info;

    if (fstatat(folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0
                               : why_set(why, "cannot look at %s/%s: %s", folder->path,
                                         name, strerror(errno));
    }
    if (S_ISSOCK(info.st_mode) && info.st_uid == geteuid()) {
        return 1;
    }
    return why_set(why, "%s/%s is no socket of user %ju's: remove it", folder->path, name,
                   (uintmax_t)geteuid());
}

void folder_close(struct folder *folder)
{
    if (folder->fd >= 0) {
        close(folder->fd);
    }
    folder->fd = -1;
}

/* Takes the descriptor along. */
static void empty(int fd)
{
    DIR *entries = fdopendir(fd);
    struct dirent *entry;

    if (entries == NULL) {
        close(fd);
        return;
    }
    while ((entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            unlinkat(fd, name, 0) == 0) {
            continue;
        }
        int below = openat(fd, name, OPEN_FOLDER);
        if (below >= 0) {
            empty(below);
        }
        unlinkat(fd, name, AT_REMOVEDIR);
    }
    closedir(entries);
}

void folder_remove(struct folder *folder)
{
    if (folder->fd < 0) {
        return;
    }
    empty(folder->fd);
    folder->fd = -1;
    rmdir(folder->path);
}
