/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static void on_link(struct lw_client *changed, int up,
                    const char *why, void *arg)
{
    (void)changed;
    (void)fprintf(stderr,
                  up ? "connected%s\n" : "no connection: %s\n", why);
    *(bool *)arg = up;
}

static struct lw_client *connect_to(const char *url, bool *up)
{
    static char error[LW_WHY_SIZE]; /* lives as long as the client */
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_client *ret = NULL;

    options.client_name = "orders";
    options.link = on_link;
    options.arg = up;
    options.errbuf = error;
    options.errbuf_size = sizeof(error);
    if (lw_client_new(base, url, &options, &ret) < 0) {
        (void)fprintf(stderr, "%s\n",
                      error); /* the URL or an option */
    }
    return ret;
}
/* until here */

int main(void)
{
    begin();
    lw_client_free(client);
    require(connect_to("localhost", &done) == NULL,
            "a URL without a scheme is refused");
    client = connect_to(getenv("LOCKWIRE_URL"), &done);
    end();
}
