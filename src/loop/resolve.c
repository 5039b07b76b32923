/* SPDX-License-Identifier: MIT */
/* Resolves host names with evdns, without blocking. Independent of connections.
 *
 * A numeric address, localhost and a name in the hosts file are resolved at once, and
 * reported by a deferred call. For any other name A and AAAA are queried. The result is
 * reported when both queries have been answered, or when one has been answered and the
 * other takes too long.
 *
 * Each resolution has an evdns base of its own, so that resolv.conf is read each time.
 * evdns calls back once for each query, also after its cancellation or the end of its
 * base, in a later turn of the loop: the queries therefore have a record of their own,
 * which may outlive the resolution and the loop. The evdns base also runs in a forked
 * child, until the child's loop has ended the resolution: the child may read an answer,
 * and the parent then repeats its query. */
#include "loop/resolve.h"

#include "base/address.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* How long an answer waits for the other address family, at most, and as a part of all
 * the time that there is. */
#define WAIT_MAX_US 250000
#define WAIT_PART 4

struct query {
    struct queries *all;
    int family;
    struct evdns_request *request; /* NULL: not sent, or answered */
    struct lw__addresses found;
    int error;
};

struct queries {
    struct evdns_base *dns;
    struct lw__resolve *resolve; /* NULL: it has ended */
    unsigned pending;
    struct query v4, v6;
};

struct lw__resolve {
    struct lw__loop *loop;
    lw__resolve_fn *fn;
    void *arg;
    struct lw__deferred done;
    struct lw__timer wait; /* for the other family */
    int64_t wait_us;
    struct queries *queries;
    struct lw__addresses result;
    int failure; /* errno, if the system has no more files; else 0 */
    char host[256];
    char why[320];
};

/* How long a DNS server may take before the next one is queried. */
#define EACH_MIN_MS 20
#define EACH_MAX_MS 1000

/* Divides the time so that a server that does not answer leaves time for the others and
 * for connecting, and so that a slow server is waited for as long as there is time. */
static void divide_time(struct evdns_base *dns, uint32_t limit_ms)
{
    unsigned servers = (unsigned)evdns_base_count_nameservers(dns);
    unsigned each_ms = limit_ms / (servers + 1);
    char text[32];

    each_ms = each_ms < EACH_MIN_MS ? EACH_MIN_MS : each_ms;
    each_ms = each_ms > EACH_MAX_MS ? EACH_MAX_MS : each_ms;
    (void)snprintf(text, sizeof(text), "%ue-3", each_ms); /* no locale's decimal point */
    (void)evdns_base_set_option(dns, "timeout:", text);
    (void)snprintf(text, sizeof(text), "%u", servers + 1 + limit_ms / each_ms);
    (void)evdns_base_set_option(dns, "attempts:", text);
}

/* Returns true if this process, or the system, can open no more files or sockets. */
static bool is_exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS;
}

/* Creates an evdns base for the servers in `file`; without any, this machine's own server
 * is used, as in libc. Returns NULL if there is no memory. Sets `failure` to errno if no
 * socket can be opened. */
static struct evdns_base *new_resolver(struct event_base *base, const char *file,
                                       uint32_t limit_ms, int *failure)
{
    const int what = DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC;
    struct evdns_base *dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);

    if (dns != NULL) {
        (void)evdns_base_resolv_conf_parse(dns, what, file);
        if (evdns_base_count_nameservers(dns) == 0) {
            errno = 0;
            if (evdns_base_nameserver_ip_add(dns, "127.0.0.1") != 0 &&
                is_exhausted(errno)) {
                *failure = errno;
            }
        }
        divide_time(dns, limit_ms);
    }
    return dns;
}

static void end_queries(struct lw__resolve *resolve)
{
    struct queries *queries = resolve->queries;

    if (queries == NULL) {
        return;
    }
    resolve->queries = NULL;
    queries->resolve = NULL;
    if (lw__loop_shares_set(resolve->loop)) {
        return; /* evdns would delete the parent's registrations: leave it to exit */
    }
    if (queries->v4.request != NULL) {
        evdns_cancel_request(queries->dns, queries->v4.request);
    }
    if (queries->v6.request != NULL) {
        evdns_cancel_request(queries->dns, queries->v6.request);
    }
    evdns_base_free(queries->dns, 1); /* 1: calls back for each query */
    if (queries->pending == 0) {
        free(queries);
    }
}

/* Takes addresses from the two families alternately, so that the first two that are tried
 * differ in their family. */
static void gather(struct lw__resolve *resolve)
{
    const struct query *v4 = &resolve->queries->v4, *v6 = &resolve->queries->v6;

    for (size_t i = 0; i < LW__ADDRESSES; i++) {
        if (i < v4->found.count) {
            lw__address_add(&resolve->result, &v4->found.list[i]);
        }
        if (i < v6->found.count) {
            lw__address_add(&resolve->result, &v6->found.list[i]);
        }
    }
    if (resolve->result.count == 0 && resolve->failure == 0) {
        int error = v4->error != DNS_ERR_NONE ? v4->error : v6->error;
        (void)snprintf(resolve->why, sizeof(resolve->why), "cannot resolve \"%s\": %s",
                       resolve->host,
                       error != DNS_ERR_NONE ? evdns_err_to_string(error) : "no address");
    }
}

static void on_done(void *arg)
{
    struct lw__resolve *resolve = arg;
    int status;

    if (resolve->queries != NULL) {
        gather(resolve);
        end_queries(resolve);
    }
    status = resolve->result.count > 0 ? LW_OK : LW_ECONN;
    lw__timer_cancel(resolve->loop, &resolve->wait);
    lw__timer_unreserve(resolve->loop, 1);
    if (resolve->result.count == 0 && resolve->failure != 0) {
        status = LW_ESYSTEM;
        (void)snprintf(resolve->why, sizeof(resolve->why), "cannot resolve \"%s\": %s",
                       resolve->host, strerror(resolve->failure));
    }
    resolve->fn(resolve->arg, &resolve->result, status, resolve->why);
    free(resolve);
}

static void on_wait_timeout(void *arg)
{
    struct lw__resolve *resolve = arg;

    lw__defer(resolve->loop, &resolve->done, false);
}

static void on_answer(int error, char type, int count, int ttl, void *addresses,
                      void *arg)
{
    struct query *query = arg;
    struct queries *queries = query->all;
    const size_t size = query->family == AF_INET ? sizeof(struct in_addr)
                                                 : sizeof(struct in6_addr);
    struct lw__resolve *resolve = queries->resolve;
    struct lw__address found;

    (void)type;
    (void)ttl;
    query->request = NULL;
    query->error = error;
    queries->pending--;
    if (resolve == NULL) {
        if (queries->pending == 0) {
            free(queries);
        }
        return;
    }
    for (int i = 0; error == DNS_ERR_NONE && i < count; i++) {
        const char *address = (const char *)addresses + (size_t)i * size;
        if (inet_ntop(query->family, address, found.text, sizeof(found.text)) != NULL) {
            lw__address_add(&query->found, &found);
        }
    }
    if (queries->pending == 0) {
        lw__defer(resolve->loop, &resolve->done, false);
    } else if (query->found.count > 0) {
        lw__timer_set(resolve->loop, &resolve->wait, lw__now_us() + resolve->wait_us);
    }
}

/* Sends the queries. Returns 0, or LW_ENOMEM. */
static int send_queries(struct lw__resolve *resolve, uint32_t limit_ms)
{
    struct queries *queries = calloc(1, sizeof(*queries));
    struct query *v4, *v6;

    if (queries == NULL) {
        return LW_ENOMEM;
    }
    v4 = &queries->v4;
    v6 = &queries->v6;
    queries->dns = new_resolver(lw__loop_base(resolve->loop),
                                *lw__loop_resolv_conf(resolve->loop), limit_ms,
                                &resolve->failure);
    if (queries->dns == NULL) {
        free(queries);
        return LW_ENOMEM;
    }
    queries->resolve = resolve;
    *v4 = (struct query){.all = queries, .family = AF_INET};
    *v6 = (struct query){.all = queries, .family = AF_INET6};
    v4->request = evdns_base_resolve_ipv4(queries->dns, resolve->host, 0, on_answer, v4);
    v6->request = evdns_base_resolve_ipv6(queries->dns, resolve->host, 0, on_answer, v6);
    queries->pending = (v4->request != NULL) + (v6->request != NULL);
    resolve->queries = queries;
    if (queries->pending == 0 || resolve->failure != 0) {
        v4->error = DNS_ERR_FORMAT; /* evdns rejects the name */
        lw__defer(resolve->loop, &resolve->done, false);
    }
    return 0;
}

static void read_line(char *line, const char *host, struct lw__addresses *ret)
{
    static const char blank[] = " \t\r";
    struct lw__address address;
    char *rest = NULL, *first, *name;

    line[strcspn(line, "#")] = '\0';
    first = strtok_r(line, blank, &rest);
    if (first == NULL || !lw__address_parse(first, &address)) {
        return;
    }
    while ((name = strtok_r(NULL, blank, &rest)) != NULL) {
        if (strcasecmp(name, host) == 0) {
            lw__address_add(ret, &address);
            return;
        }
    }
}

int lw__resolve_in_file(const char *file, const char *host, struct lw__addresses *ret)
{
    char chunk[4096], line[1024];
    size_t length = 0;
    ssize_t got;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return is_exhausted(errno) ? LW_ESYSTEM : 0;
    }
    while ((got = read(fd, chunk, sizeof(chunk))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                line[length] = chunk[i];
                length += length + 1 < sizeof(line) ? 1 : 0;
                continue;
            }
            line[length] = '\0';
            read_line(line, host, ret);
            length = 0;
        }
    }
    line[length] = '\0';
    read_line(line, host, ret);
    (void)close(fd);
    return 0;
}

/* Adds the addresses that need no query. */
static void find_locally(struct lw__resolve *resolve)
{
    struct lw__address address;

    if (lw__address_parse(resolve->host, &address)) {
        lw__address_add(&resolve->result, &address);
        return;
    }
    if (lw__resolve_in_file("/etc/hosts", resolve->host, &resolve->result) != 0) {
        resolve->failure = errno;
    }
    /* Both addresses, whatever the hosts file has. */
    if (strcasecmp(resolve->host, "localhost") == 0) {
        lw__address_add(&resolve->result, &(struct lw__address){"127.0.0.1"});
        lw__address_add(&resolve->result, &(struct lw__address){"::1"});
    }
}

int lw__resolve_start(struct lw__loop *loop, const char *host, uint32_t limit_ms,
                      lw__resolve_fn *fn, void *arg, struct lw__resolve **ret)
{
    struct lw__resolve *resolve = calloc(1, sizeof(*resolve));

    if (resolve == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(loop, 1) < 0) {
        free(resolve);
        return LW_ENOMEM;
    }
    resolve->loop = loop;
    resolve->fn = fn;
    resolve->arg = arg;
    lw__defer_init(&resolve->done, on_done, resolve);
    lw__timer_init(&resolve->wait, on_wait_timeout, resolve);
    resolve->wait_us = (int64_t)limit_ms * 1000 / WAIT_PART;
    if (resolve->wait_us > WAIT_MAX_US) {
        resolve->wait_us = WAIT_MAX_US;
    }
    (void)snprintf(resolve->host, sizeof(resolve->host), "%s", host);
    find_locally(resolve);
    if (resolve->result.count > 0 || resolve->failure != 0) {
        lw__defer(loop, &resolve->done, false);
    } else if (send_queries(resolve, limit_ms) < 0) {
        lw__resolve_cancel(resolve);
        return LW_ENOMEM;
    }
    *ret = resolve;
    return 0;
}

void lw__resolve_cancel(struct lw__resolve *resolve)
{
    if (resolve != NULL) {
        end_queries(resolve);
        lw__defer_cancel(resolve->loop, &resolve->done);
        lw__timer_cancel(resolve->loop, &resolve->wait);
        lw__timer_unreserve(resolve->loop, 1);
        free(resolve);
    }
}
