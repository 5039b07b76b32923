/* SPDX-License-Identifier: MIT */
/* See terminal.h. */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
    terminal->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    terminal->given = false;
    terminal->has_modes = terminal->fd >= 0 &&
                          tcgetattr(terminal->fd, &terminal->modes) == 0;
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->fd >= 0) {
        close(terminal->fd);
    }
    terminal->fd = -1;
}

bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool terminal_is_ours_alone(const struct terminal *terminal)
{
    return terminal_is_ours(terminal) && getpgrp() == getpid() && isatty(STDIN_FILENO) &&
           isatty(STDOUT_FILENO);
}

void terminal_give(struct terminal *terminal, pid_t group)
{
    if (terminal_is_ours(terminal) && tcsetpgrp(terminal->fd, group) == 0) {
        terminal->given = true;
    }
}

bool terminal_take(struct terminal *terminal)
{
    bool given = terminal->given;

    if (given) {
        tcsetpgrp(terminal->fd, getpgrp());
    }
    terminal->given = false;
    return given;
}

bool terminal_read_keys(struct terminal *terminal)
{
    struct termios keys;

    if (!terminal_is_ours(terminal) || tcgetattr(terminal->fd, &terminal->modes) != 0) {
        return false;
    }
    terminal->has_modes = true;
    keys = terminal->modes;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 1; /* if this process is killed, reads of the shell still block */
    keys.c_cc[VTIME] = 0;
    return tcsetattr(terminal->fd, TCSANOW, &keys) == 0;
}

void terminal_restore(const struct terminal *terminal)
{
    if (terminal->has_modes && terminal_is_ours(terminal)) {
        tcsetattr(terminal->fd, TCSANOW, &terminal->modes);
    }
}

struct winsize terminal_size(int fd)
{
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0) {
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    }
    return size;
}
