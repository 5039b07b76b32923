/* SPDX-License-Identifier: MIT */
/*
 * See input.h. Others may have the same input open, and take between poll and read what
 * was there to be read: so it is opened anew, to be read without blocking, which does not
 * change it for the others. A socket cannot be opened that way, but read.
 *
 * Happy path: on_readable reads until there is nothing more; at the end `ended`.
 */
#include "input.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096
#define LATER_MS 500

bool input_can_be_awaited(void)
{
    struct stat about;

    return fstat(STDIN_FILENO, &about) == 0 &&
           (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) ||
            isatty(STDIN_FILENO) == 1);
}

/* To read it would stop this process. Of a terminal that is not this session's nobody is
 * in the foreground, for this process. */
static bool is_others(int fd)
{
    pid_t group = isatty(fd) == 1 ? tcgetpgrp(fd) : -1;

    return group >= 0 && group != getpgrp();
}

static ssize_t read_some(int fd)
{
    char thrown_away[BLOCK];
    ssize_t length = recv(fd, thrown_away, sizeof(thrown_away), MSG_DONTWAIT);

    return length < 0 && errno == ENOTSOCK ? read(fd, thrown_away, sizeof(thrown_away))
                                           : length;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct input *input = arg;
    ssize_t length;

    (void)what;
    if (is_others(fd)) {
        event_add(input->later, &(struct timeval){0, LATER_MS * 1000L});
        return;
    }
    length = read_some(fd);
    if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) {
        event_add(input->readable, NULL);
    } else {
        input->ended(input->arg); /* an error, too: nothing will come of it */
    }
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct input *input = arg;

    (void)fd, (void)what;
    event_add(input->readable, NULL);
}

int input_open(struct input *input, struct event_base *base, void (*ended)(void *arg),
               void *arg)
{
    *input = (struct input){.fd = STDIN_FILENO, .ended = ended, .arg = arg};
    input->fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (input->fd < 0) {
        input->fd = STDIN_FILENO;
    }
    input->readable = event_new(base, input->fd, EV_READ, on_readable, input);
    input->later = event_new(base, -1, 0, on_later, input);
    if (input->readable == NULL || input->later == NULL) {
        return -1;
    }
    return event_add(input->readable, NULL);
}

void input_close(struct input *input)
{
    if (input->readable != NULL) {
        event_free(input->readable);
    }
    if (input->later != NULL) {
        event_free(input->later);
    }
    if (input->fd > STDIN_FILENO) {
        close(input->fd);
    }
}
