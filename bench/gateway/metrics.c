/* SPDX-License-Identifier: MIT */
/*
 * GET /metrics: the library's statistics and the gateway's own in Prometheus' text
 * format.
 *
 * Happy path: lw_client_stats, one table walked, the histogram, the answer.
 */
#include "gateway.h"

#include "lockwire.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <inttypes.h>
#include <stddef.h>

static const struct metric {
    const char *name, *type, *help;
    size_t offset;
} metrics[] = {
#define GAUGE(field, help)                                                               \
    {                                                                                    \
#field, "gauge", help, offsetof(struct lw_stats, field)                          \
    }
#define COUNTER(field, help)                                                             \
    {                                                                                    \
#field "_total", "counter", help, offsetof(struct lw_stats, field)               \
    }
    GAUGE(held, "Handles that hold a lock."),
    GAUGE(waiting, "Handles that wait for a lock."),
    COUNTER(granted, "Acquisitions granted."),
    COUNTER(busy, "Acquisitions refused because somebody else holds the lock."),
    COUNTER(timed_out, "Acquisitions whose wait ended."),
    COUNTER(failed, "Acquisitions ended by any other error."),
    COUNTER(released, "Holds released."),
    COUNTER(lost_deadline, "Holds lost because the lease could not be renewed in time."),
    COUNTER(lost_taken, "Holds lost because the server says so."),
    COUNTER(lost_max_hold, "Holds ended by their cap."),
    COUNTER(handed_over, "Grants handed over by the previous holder."),
    COUNTER(passed, "Grants passed on inside this process without a command."),
    COUNTER(renewed, "Leases renewed."),
    COUNTER(renewals_late, "Renewals sent late."),
    COUNTER(commands, "Commands sent to Redis."),
    COUNTER(resent, "Commands sent again after an unknown outcome."),
    COUNTER(reconnects, "Connections made after the first."),
    COUNTER(failovers, "How often sentinels named another master than before."),
    COUNTER(redirects, "Commands that a cluster's node sent on to another one."),
    COUNTER(refreshes, "How often a cluster was asked which slots its nodes have."),
#undef GAUGE
#undef COUNTER
};

static const char *const outcome_names[OUTCOMES] = {
    [GIVEN] = "given", [ALREADY] = "already",
    [BUSY] = "busy",   [UNAVAILABLE] = "unavailable",
    [GONE] = "gone",   [REJECTED] = "rejected"};

static void add_metrics(struct evbuffer *out, const struct lw_stats *stats)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
        const struct metric *metric = &metrics[i];
        const void *field = (const char *)stats + metric->offset;

        evbuffer_add_printf(out,
                            "# HELP lockwire_%s %s\n# TYPE lockwire_%s %s\n"
                            "lockwire_%s %" PRIu64 "\n",
                            metric->name, metric->help, metric->name, metric->type,
                            metric->name, *(const uint64_t *)field);
    }
}

static void add_histogram(struct evbuffer *out, const struct lw_stats *stats)
{
    static const char name[] = "lockwire_wait_seconds";
    uint64_t count = 0;

    evbuffer_add_printf(out,
                        "# HELP %s How long granted acquisitions waited.\n"
                        "# TYPE %s histogram\n",
                        name, name);
    for (int i = 0; i < LW_WAIT_BUCKETS - 1; i++) {
        count += stats->wait_histogram[i];
        evbuffer_add_printf(out, "%s_bucket{le=\"%.3f\"} %" PRIu64 "\n", name,
                            (double)(1 << i) / 1000, count);
    }
    count += stats->wait_histogram[LW_WAIT_BUCKETS - 1];
    evbuffer_add_printf(out,
                        "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n"
                        "%s_count %" PRIu64 "\n",
                        name, count, name, (double)stats->wait_us / 1e6, name, count);
}

/* Its name stands in a label, since it is no number; none where there are no sentinels.
 */
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
                        "# HELP lockwire_link_up Whether the server can be reached.\n"
                        "# TYPE lockwire_link_up gauge\n"
                        "lockwire_link_up %d\n"
                        "# HELP gateway_requests_total Requests for gifts by their end.\n"
                        "# TYPE gateway_requests_total counter\n",
                        gateway->link_up);
    for (int i = 0; i < OUTCOMES; i++) {
        evbuffer_add_printf(out, "gateway_requests_total{outcome=\"%s\"} %" PRIu64 "\n",
                            outcome_names[i], gateway->outcomes[i]);
    }
}

void metrics_reply(struct gateway *gateway, struct evhttp_request *http)
{
    struct lw_stats stats = LW_STATS_INIT;
    struct evbuffer *out = evbuffer_new();

    if (out == NULL || lw_client_stats(gateway->client, &stats) < 0) {
        evhttp_send_error(http, HTTP_INTERNAL, NULL);
    } else {
        add_metrics(out, &stats);
        add_histogram(out, &stats);
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
