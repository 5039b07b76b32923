/* SPDX-License-Identifier: MIT */
/*
 * evdns and its file: see resolver.h. Must not know the loop's other parts.
 *
 * Happy path: the first lookup has evdns made and the file read; later ones find it as it
 * was. Where the file has changed since, or the last lookup found nothing, evdns is made
 * anew. No file, or one that names nobody: the name server of this host, as libc does.
 */
#include "loop/resolver.h"

#include "lockwire.h"

#include <event2/dns.h>
#include <stdio.h>
#include <sys/stat.h>

/* How long a name server may take before the next one is asked. */
#define EACH_MIN_MS 20
#define EACH_MAX_MS 1000

static struct lw__edition edition_of(const char *file)
{
    struct lw__edition edition = {0};
    struct stat status;

    if (stat(file, &status) == 0) {
        edition.device = status.st_dev;
        edition.inode = status.st_ino;
        edition.size = status.st_size;
        edition.modified = status.st_mtim;
    }
    return edition;
}

static bool is_same(const struct lw__edition *a, const struct lw__edition *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec;
}

/* 0, LW_ENOMEM. */
static int read_file(struct lw__resolver *resolver, struct event_base *base)
{
    const int what = DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC;

    resolver->dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (resolver->dns == NULL) {
        return LW_ENOMEM;
    }
    resolver->failed = false;
    resolver->read = edition_of(resolver->file);
    (void)evdns_base_resolv_conf_parse(resolver->dns, what, resolver->file);
    if (evdns_base_count_nameservers(resolver->dns) == 0) {
        (void)evdns_base_nameserver_ip_add(resolver->dns, "127.0.0.1"); /* as libc does */
    }
    return 0;
}

void lw__resolver_clear(struct lw__resolver *resolver)
{
    if (resolver->dns != NULL) {
        evdns_base_free(resolver->dns, 1); /* 1: each question gets its call */
    }
    resolver->dns = NULL;
}

/* The sockets of questions under way are in the parent's epoll, and cannot be closed
 * first. */
void lw__resolver_abandon(struct lw__resolver *resolver)
{
    if (resolver->lookups == 0) {
        lw__resolver_clear(resolver);
    }
    resolver->dns = NULL;
}

/* So that a server that does not answer leaves time to ask the others, and to connect. */
static void share_patience(struct evdns_base *dns, uint32_t patience_ms)
{
    unsigned servers = (unsigned)evdns_base_count_nameservers(dns);
    unsigned each_ms = patience_ms / (servers + 1);
    char text[32];

    each_ms = each_ms < EACH_MIN_MS ? EACH_MIN_MS : each_ms;
    each_ms = each_ms > EACH_MAX_MS ? EACH_MAX_MS : each_ms;
    (void)snprintf(text, sizeof(text), "%ue-3", each_ms); /* no locale's decimal point */
    (void)evdns_base_set_option(dns, "timeout:", text);
    (void)snprintf(text, sizeof(text), "%u", servers + 2);
    (void)evdns_base_set_option(dns, "attempts:", text);
}

int lw__resolver_prepare(struct lw__resolver *resolver, struct event_base *base,
                         uint32_t patience_ms)
{
    struct lw__edition now;

    if (resolver->dns != NULL && resolver->lookups == 0) {
        now = edition_of(resolver->file);
        if (resolver->failed || !is_same(&now, &resolver->read)) {
            lw__resolver_clear(resolver);
        }
    }
    if (resolver->dns == NULL && read_file(resolver, base) != 0) {
        return LW_ENOMEM;
    }
    share_patience(resolver->dns, patience_ms);
    return 0;
}
