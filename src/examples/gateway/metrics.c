/* SPDX-License-Identifier: MIT */
/*
 * GET /metrics: the library's statistics as lw_stats_prometheus writes them, then the
 * gateway's own, all in Prometheus' text format.
 */
#include "gateway.h"

#include "lockwire.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <inttypes.h>
#include <stddef.h>

static const char *const outcome_names[OUTCOMES] = {
    [GIVEN] = "given", [ALREADY] = "already",
    [BUSY] = "busy",   [UNAVAILABLE] = "unavailable",
    [GONE] = "gone",   [REJECTED] = "rejected"};

/* The first call returns the length of the text. The second text is as long, as
 * nothing runs in between. */
static int add_statistics(struct evbuffer *out, const struct lw_client *client)
{
    struct lw_stats stats = LW_STATS_INIT;
    const struct lw_stats *all[] = {&stats};
    struct evbuffer_iovec room;
    int length;

    if (lw_client_stats(client, &stats) < 0) {
        return -1;
    }
    length = lw_stats_prometheus(all, NULL, 1, NULL, 0);
    if (length < 0 || evbuffer_reserve_space(out, length + 1, &room, 1) < 1) {
        return -1;
    }
    (void)lw_stats_prometheus(all, NULL, 1, room.iov_base, room.iov_len);
    room.iov_len = (size_t)length; /* without its NUL */
    return evbuffer_commit_space(out, &room, 1);
}

/* The master's name is not a number, so it is given as a label. Writes nothing if
 * there are no sentinels. */
static void add_master(struct evbuffer *out, const struct gateway *gateway)
{
    struct lw_master master = LW_MASTER_INIT;
    char service[sizeof(master.service)];

    if (lw_client_master(gateway->client, &master) < 0) {
        return;
    }
    evbuffer_add_printf(
        out,
        "# HELP lockwire_master_info The master that sentinels name.\n"
        "# TYPE lockwire_master_info gauge\n"
        "lockwire_master_info{service=\"%s\",host=\"%s\",port=\"%u\"} 1\n",
        json_safe(service, sizeof(service), master.service), master.host,
        (unsigned)master.port);
    if (master.for_ms >= 0) {
        evbuffer_add_printf(out,
                            "# HELP lockwire_master_seconds Since it became the master.\n"
                            "# TYPE lockwire_master_seconds gauge\n"
                            "lockwire_master_seconds %.3f\n",
                            (double)master.for_ms / 1000);
    }
}

static void add_own(struct evbuffer *out, const struct gateway *gateway)
{
    evbuffer_add_printf(out,
                        "# HELP gateway_requests_total Requests for gifts by their end.\n"
                        "# TYPE gateway_requests_total counter\n");
    for (int i = 0; i < OUTCOMES; i++) {
        evbuffer_add_printf(out, "gateway_requests_total{outcome=\"%s\"} %" PRIu64 "\n",
                            outcome_names[i], gateway->outcomes[i]);
    }
}

void metrics_reply(struct gateway *gateway, struct evhttp_request *http)
{
    struct evbuffer *out = evbuffer_new();

    if (out == NULL || add_statistics(out, gateway->client) < 0) {
        evhttp_send_error(http, HTTP_INTERNAL, NULL);
    } else {
        add_master(out, gateway);
        add_own(out, gateway);
        evhttp_add_header(evhttp_request_get_output_headers(http), "Content-Type",
                          "text/plain; version=0.0.4");
        evhttp_send_reply(http, HTTP_OK, NULL, out);
    }
    if (out != NULL) {
        evbuffer_free(out);
    }
}
