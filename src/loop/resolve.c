/* SPDX-License-Identifier: MIT */
/* Host names to addresses without blocking. Knows evdns and nothing of connections.
 *
 * Happy path: a numeric address, localhost or a name in the hosts file is answered by a
 * deferred call; any other is asked for as A and AAAA, and the deferred call is made when
 * both have been answered, or one and the other is not quick. Where nothing is found, it
 * says why.
 *
 * Each lookup that asks has a resolver of its own, so that what resolv.conf says is never
 * older than the lookup. evdns owes one call back for each question, also after its
 * cancellation or the resolver's end, in a later turn of the loop: so the questions have
 * a record of their own, which outlives the lookup and the loop until then. The resolver
 * also runs in a forked child, until the child's loop has ended the lookup: it may read
 * an answer there, for which the parent then repeats its question. */
#include "loop/resolve.h"

#include "base/address.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* How long an answer waits for the other family's, and which part of the time for all. */
#define PATIENCE_US 250000
#define PATIENCE_PART 4

struct question {
    struct questions *all;
    int family;
    struct evdns_request *request; /* NULL: not asked, or answered */
    struct lw__addresses found;
    int error;
};

struct questions {
    struct evdns_base *dns;
    struct lw__resolve *lookup; /* NULL: nobody wants to know any more */
    unsigned pending;
    struct question v4, v6;
};

struct lw__resolve {
    struct lw__loop *loop;
    lw__resolve_fn *fn;
    void *arg;
    struct lw__deferred done;
    struct lw__timer patience;
    int64_t patience_us;
    struct questions *questions;
    struct lw__addresses result;
    int failure; /* of the system; else 0 */
    char host[256];
    char why[320];
};

/* How long a name server may take before the next one is asked. */
#define EACH_MIN_MS 20
#define EACH_MAX_MS 1000

/* So that a server that does not answer leaves time to ask the others, and to connect;
 * and that a slow one is waited for as long as there is time. */
static void share_patience(struct evdns_base *dns, uint32_t patience_ms)
{
    unsigned servers = (unsigned)evdns_base_count_nameservers(dns);
    unsigned each_ms = patience_ms / (servers + 1);
    char text[32];

    each_ms = each_ms < EACH_MIN_MS ? EACH_MIN_MS : each_ms;
    each_ms = each_ms > EACH_MAX_MS ? EACH_MAX_MS : each_ms;
    (void)snprintf(text, sizeof(text), "%ue-3", each_ms); /* no locale's decimal point */
    (void)evdns_base_set_option(dns, "timeout:", text);
    (void)snprintf(text, sizeof(text), "%u", servers + 1 + patience_ms / each_ms);
    (void)evdns_base_set_option(dns, "attempts:", text);
}

/* True if this process, or the system, can open no more files or sockets. */
static bool is_exhausted(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS;
}

/* By what the file says now; one that is not there, or names nobody, leads to this
 * machine's own server, as in libc. NULL: no memory. `failure` becomes the system's error
 * if no socket can be opened. */
static struct evdns_base *new_resolver(struct event_base *base, const char *file,
                                       uint32_t patience_ms, int *failure)
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
        share_patience(dns, patience_ms);
    }
    return dns;
}

static void stop_asking(struct lw__resolve *lookup)
{
    struct questions *questions = lookup->questions;

    if (questions == NULL) {
        return;
    }
    lookup->questions = NULL;
    questions->lookup = NULL;
    if (lw__loop_shares_set(lookup->loop)) {
        return; /* its end would delete what is registered: left to the child's end */
    }
    if (questions->v4.request != NULL) {
        evdns_cancel_request(questions->dns, questions->v4.request);
    }
    if (questions->v6.request != NULL) {
        evdns_cancel_request(questions->dns, questions->v6.request);
    }
    evdns_base_free(questions->dns, 1); /* 1: each question gets its call */
    if (questions->pending == 0) {
        free(questions);
    }
}

/* The families in turn, so that the third address tried is no neighbour of the first. */
static void gather(struct lw__resolve *lookup)
{
    const struct question *v4 = &lookup->questions->v4, *v6 = &lookup->questions->v6;

    for (size_t i = 0; i < LW__ADDRESSES; i++) {
        if (i < v4->found.count) {
            lw__address_add(&lookup->result, &v4->found.list[i]);
        }
        if (i < v6->found.count) {
            lw__address_add(&lookup->result, &v6->found.list[i]);
        }
    }
    if (lookup->result.count == 0 && lookup->failure == 0) {
        int error = v4->error != DNS_ERR_NONE ? v4->error : v6->error;
        (void)snprintf(lookup->why, sizeof(lookup->why), "cannot resolve \"%s\": %s",
                       lookup->host,
                       error != DNS_ERR_NONE ? evdns_err_to_string(error) : "no address");
    }
}

static void on_done(void *arg)
{
    struct lw__resolve *lookup = arg;
    int status;

    if (lookup->questions != NULL) {
        gather(lookup);
        stop_asking(lookup);
    }
    status = lookup->result.count > 0 ? LW_OK : LW_ECONN;
    lw__timer_cancel(lookup->loop, &lookup->patience);
    lw__timer_unreserve(lookup->loop, 1);
    if (lookup->result.count == 0 && lookup->failure != 0) {
        status = LW_ESYSTEM;
        (void)snprintf(lookup->why, sizeof(lookup->why), "cannot resolve \"%s\": %s",
                       lookup->host, strerror(lookup->failure));
    }
    lookup->fn(lookup->arg, &lookup->result, status, lookup->why);
    free(lookup);
}

static void on_patience(void *arg)
{
    struct lw__resolve *lookup = arg;

    lw__defer(lookup->loop, &lookup->done, false);
}

static void on_answer(int error, char type, int count, int ttl, void *addresses,
                      void *arg)
{
    struct question *question = arg;
    struct questions *questions = question->all;
    const size_t size = question->family == AF_INET ? sizeof(struct in_addr)
                                                    : sizeof(struct in6_addr);
    struct lw__resolve *lookup = questions->lookup;
    struct lw__address found;

    (void)type;
    (void)ttl;
    question->request = NULL;
    question->error = error;
    questions->pending--;
    if (lookup == NULL) {
        if (questions->pending == 0) {
            free(questions);
        }
        return;
    }
    for (int i = 0; error == DNS_ERR_NONE && i < count; i++) {
        const char *address = (const char *)addresses + (size_t)i * size;
        if (inet_ntop(question->family, address, found.text, sizeof(found.text)) !=
            NULL) {
            lw__address_add(&question->found, &found);
        }
    }
    if (questions->pending == 0) {
        lw__defer(lookup->loop, &lookup->done, false);
    } else if (question->found.count > 0) {
        lw__timer_set(lookup->loop, &lookup->patience,
                      lw__now_us() + lookup->patience_us);
    }
}

/* 0, LW_ENOMEM. */
static int ask(struct lw__resolve *lookup, uint32_t patience_ms)
{
    struct questions *questions = calloc(1, sizeof(*questions));
    struct question *v4, *v6;

    if (questions == NULL) {
        return LW_ENOMEM;
    }
    v4 = &questions->v4;
    v6 = &questions->v6;
    questions->dns = new_resolver(lw__loop_base(lookup->loop),
                                  *lw__loop_resolv_conf(lookup->loop), patience_ms,
                                  &lookup->failure);
    if (questions->dns == NULL) {
        free(questions);
        return LW_ENOMEM;
    }
    questions->lookup = lookup;
    *v4 = (struct question){.all = questions, .family = AF_INET};
    *v6 = (struct question){.all = questions, .family = AF_INET6};
    v4->request = evdns_base_resolve_ipv4(questions->dns, lookup->host, 0, on_answer, v4);
    v6->request = evdns_base_resolve_ipv6(questions->dns, lookup->host, 0, on_answer, v6);
    questions->pending = (v4->request != NULL) + (v6->request != NULL);
    lookup->questions = questions;
    if (questions->pending == 0 || lookup->failure != 0) {
        v4->error = DNS_ERR_FORMAT; /* not a name that could be asked for */
        lw__defer(lookup->loop, &lookup->done, false);
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

/* What is known without asking anybody. */
static void find_locally(struct lw__resolve *lookup)
{
    struct lw__address address;

    if (lw__address_parse(lookup->host, &address)) {
        lw__address_add(&lookup->result, &address);
        return;
    }
    if (lw__resolve_in_file("/etc/hosts", lookup->host, &lookup->result) != 0) {
        lookup->failure = errno;
    }
    if (strcasecmp(lookup->host, "localhost") == 0) { /* both, whatever the file says */
        lw__address_add(&lookup->result, &(struct lw__address){"127.0.0.1"});
        lw__address_add(&lookup->result, &(struct lw__address){"::1"});
    }
}

int lw__resolve_start(struct lw__loop *loop, const char *host, uint32_t patience_ms,
                      lw__resolve_fn *fn, void *arg, struct lw__resolve **ret)
{
    struct lw__resolve *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(loop, 1) < 0) {
        free(lookup);
        return LW_ENOMEM;
    }
    lookup->loop = loop;
    lookup->fn = fn;
    lookup->arg = arg;
    lw__defer_init(&lookup->done, on_done, lookup);
    lw__timer_init(&lookup->patience, on_patience, lookup);
    lookup->patience_us = (int64_t)patience_ms * 1000 / PATIENCE_PART;
    if (lookup->patience_us > PATIENCE_US) {
        lookup->patience_us = PATIENCE_US;
    }
    (void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    find_locally(lookup);
    if (lookup->result.count > 0 || lookup->failure != 0) {
        lw__defer(loop, &lookup->done, false);
    } else if (ask(lookup, patience_ms) < 0) {
        lw__resolve_cancel(lookup);
        return LW_ENOMEM;
    }
    *ret = lookup;
    return 0;
}

void lw__resolve_cancel(struct lw__resolve *lookup)
{
    if (lookup != NULL) {
        stop_asking(lookup);
        lw__defer_cancel(lookup->loop, &lookup->done);
        lw__timer_cancel(lookup->loop, &lookup->patience);
        lw__timer_unreserve(lookup->loop, 1);
        free(lookup);
    }
}
