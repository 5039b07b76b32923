/* SPDX-License-Identifier: MIT */
/* See first_line.h. */
#include "base/first_line.h"

#include "lockwire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_read(int error, char *why, size_t size)
{
    (void)snprintf(why, size, "cannot read the file: %s", strerror(error));
    if (error == ENOMEM) {
        return LW_ENOMEM;
    }
    return error == EMFILE || error == ENFILE || error == EIO ? LW_ESYSTEM : LW_EINVAL;
}

static int bad_line(const char *what, char *why, size_t size)
{
    (void)snprintf(why, size, "the first line %s", what);
    return LW_EINVAL;
}

/* Reads one byte at a time, because the rest of a pipe may be another process's. Returns
 * 1, 0 at the end of the file, or -1 with errno set. */
static int read_byte(int fd, char *byte)
{
    ssize_t length;

    do {
        length = read(fd, byte, 1);
    } while (length < 0 && errno == EINTR);
    return (int)length;
}

int lw__first_line_from(int fd, char ret[LW__FIRST_LINE_MAX + 1], char *why, size_t size)
{
    size_t length = 0;
    char byte;
    int got;

    while ((got = read_byte(fd, &byte)) == 1 && byte != '\n') {
        if (byte == '\0') {
            return bad_line("has a NUL byte", why, size);
        }
        if (length == LW__FIRST_LINE_MAX) {
            (void)snprintf(why, size, "the first line is longer than %d bytes",
                           LW__FIRST_LINE_MAX);
            return LW_EINVAL;
        }
        ret[length++] = byte;
    }
    if (got < 0) {
        return cannot_read(errno, why, size);
    }
    if (got == 1 && length > 0 && ret[length - 1] == '\r') {
        length--; /* a file with the line ends of Windows */
    }
    if (length == 0) {
        return bad_line("is empty", why, size);
    }
    ret[length] = '\0';
    return 0;
}

int lw__first_line_of(const char *file, bool may_block, char ret[LW__FIRST_LINE_MAX + 1],
                      char *why, size_t size)
{
    int more = may_block ? 0 : O_NONBLOCK; /* a FIFO is opened at once, and refused */
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | more), status;
    struct stat about;

    if (fd < 0) {
        return cannot_read(errno, why, size);
    }
    if (!may_block && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))) {
        (void)snprintf(why, size, "it is no regular file");
        status = LW_EINVAL;
    } else {
        status = lw__first_line_from(fd, ret, why, size);
    }
    (void)close(fd);
    return status;
}
