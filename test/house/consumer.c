/* SPDX-License-Identifier: MIT */
/* A user's program: the installed library has everything that it needs. */
#include <event2/event.h>
#include <lockwire.h>
#include <stdio.h>

int main(void)
{
    struct event_base *base = event_base_new();
    struct lw_client *client = NULL;
    int error = lw_client_new(base, "unix:///nonexistent/socket", NULL, &client);

    (void)printf("%s %s %s\n", LW_VERSION, lw_version(), lw_strerror(error));
    lw_client_free(client);
    event_base_free(base);
    return error;
}
