/* SPDX-License-Identifier: MIT */
/* See password.h. */
#include "password.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

_Static_assert(PASSWORD_MAX == 4096, "as in the message of bad_line");

struct source {
    const char *option, *file;
};

/* A wrong FILE is a usage error, a lack of resources is not. */
static int cannot_read(const struct source *source, int error)
{
    bool lack = error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO;

    report("%s '%s': cannot read the file: %s", source->option, source->file,
           strerror(error));
    return lack ? EXIT_SYSTEM : EXIT_USAGE;
}

static int bad_line(const struct source *source, const char *why)
{
    report("%s '%s': the first line %s", source->option, source->file, why);
    return EXIT_USAGE;
}

/* Reads one byte at a time, because the rest of the file is COMMAND's. Returns 1, 0 at
 * the end of the file, or -1 with errno set. */
static int read_byte(int fd, char *byte)
{
    ssize_t length;

    do {
        length = read(fd, byte, 1);
    } while (length < 0 && errno == EINTR);
    return (int)length;
}

static int read_line(int fd, const struct source *source, char password[PASSWORD_MAX + 1])
{
    size_t length = 0;
    char byte;
    int got;

    while ((got = read_byte(fd, &byte)) == 1 && byte != '\n') {
        if (byte == '\0') {
            return bad_line(source, "has a NUL byte");
        }
        if (length == PASSWORD_MAX) {
            return bad_line(source, "is longer than 4096 bytes");
        }
        password[length++] = byte;
    }
    if (got < 0) {
        return cannot_read(source, errno);
    }
    if (got == 1 && length > 0 && password[length - 1] == '\r') {
        length--; /* a file with the line ends of Windows */
    }
    if (length == 0) {
        return bad_line(source, "is empty");
    }
    password[length] = '\0';
    return 0;
}

int password_read(const char *option, const char *file, char password[PASSWORD_MAX + 1])
{
    const struct source source = {option, file};
    bool standard_input = strcmp(file, "-") == 0;
    int fd = standard_input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int code;

    if (fd < 0) {
        return cannot_read(&source, errno);
    }
    code = read_line(fd, &source, password);
    if (!standard_input) {
        close(fd);
    }
    return code;
}

/* volatile, so that the compiler does not drop the writes. */
void password_wipe(char *password)
{
    volatile char *at = password;

    while (at != NULL && *at) {
        *at++ = '\0';
    }
}
