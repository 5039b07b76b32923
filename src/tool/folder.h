/* SPDX-License-Identifier: MIT */
/*
 * A folder that nobody but its user can change. Owns its descriptor, through which
 * everything in it is reached: what its path leads to later makes no difference here.
 * Knows nothing of servers.
 *
 * Trusted: the user (and root), and hence what is done in a folder that is the user's and
 * has mode 0700; and the folders above it: who may rename in one of those can put another
 * folder in place of this one, for everybody who goes by its path afterwards. Not
 * trusted: a folder that was there already, by what it is, and what stands in it, by what
 * that is. It may have been open to others before it was closed; so no symbolic link is
 * followed, and no file is used that has another name elsewhere.
 *
 * Happy path: folder_open, folder_file, folder_lock; folder_close. Or folder_make,
 * folder_remove.
 */
#ifndef LW_TOOL_FOLDER_H
#define LW_TOOL_FOLDER_H
#include "why.h"

#include <stdbool.h>

struct folder {
    int fd; /* -1: not open */
    char path[96];
};

/* Opens the folder at an absolute path, and makes it (0700) if it is not there. It must
 * be one of the effective user's, have mode 0700 and be no symbolic link. */
int folder_open(struct folder *folder, const char *path, struct why why);

/* A fresh one below `parent`, an absolute path. */
int folder_make(struct folder *folder, const char *parent, struct why why);

/* Opens a plain file in it for reading and writing, and makes it if it is not there; the
 * descriptor, or -1. */
int folder_file(const struct folder *folder, const char *name, struct why why);

/* flock with a limit: another's process may be stopped. The unlocking is flock's. */
bool folder_lock(int file, int operation, int limit_ms);

/* 1: a socket of the user's is there. 0: nothing. -1: something else. */
int folder_socket(const struct folder *folder, const char *name, struct why why);

/* Without effect on one that is closed. */
void folder_close(struct folder *folder);

/* Empties it, too, down to the last sub-folder, and removes it. */
void folder_remove(struct folder *folder);

#endif
