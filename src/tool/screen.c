/* SPDX-License-Identifier: MIT */
/* See screen.h. */
#include "screen.h"

struct winsize screen_size(int fd)
{
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0) {
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    }
    return size;
}
