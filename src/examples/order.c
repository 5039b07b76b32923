/* SPDX-License-Identifier: MIT */
/*
 * An order that takes several articles from stock: all of them, or none. It holds the
 * locks of all its articles at once, so that orders which share articles run one after
 * another, and other orders run at the same time. In whatever order the articles are
 * named, no two orders ever wait for each other.
 *
 *     cc order.c $(pkg-config --cflags --libs lockwire) -o order
 *     LOCKWIRE_URL=redis://localhost ./order FOLDER ARTICLE COUNT [ARTICLE COUNT...]
 *
 * FOLDER has a file for each article, with the number in stock and the fencing token of
 * the order that wrote it last. Prints "ordered" and exits with 0, or reports what
 * prevented the order and exits with 1.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARTICLES 16
#define WAIT_MS 60000

struct order {
    struct lw_client *client;
    struct lw_all *all;
    const char *folder;
    const char *articles[ARTICLES];
    long wanted[ARTICLES], there[ARTICLES];
    char names[ARTICLES][80]; /* the names of the locks */
    size_t count;
    char why[LW_WHY_SIZE]; /* the library's explanation of a refused call */
    int code;              /* the exit code */
};

static void path_of(const struct order *order, size_t i, const char *suffix,
                    char path[300])
{
    (void)snprintf(path, 300, "%s/%s%s", order->folder, order->articles[i], suffix);
}

/* Reads the number in stock. Returns NULL, or the reason why the article cannot be taken.
 * A larger fencing token in the file means that this order no longer holds its locks. */
static const char *read_stock(struct order *order, size_t i, uint64_t fence)
{
    char path[300], line[100] = "", *rest;
    FILE *file;

    path_of(order, i, "", path);
    file = fopen(path, "r");
    if (file == NULL) {
        return "no such article";
    }
    (void)fgets(line, sizeof(line), file);
    (void)fclose(file);
    order->there[i] = strtol(line, &rest, 10);
    if (rest == line) {
        return "its file has no number";
    }
    if (strtoull(rest, NULL, 10) > fence) {
        return "a later order has changed it: the locks were lost";
    }
    return order->there[i] < order->wanted[i] ? "not enough of it" : NULL;
}

/* Replaces the file atomically. Returns false if it cannot be written. (A database would
 * do the whole order in one transaction, and compare the fencing tokens there.) */
static bool write_stock(const struct order *order, size_t i, uint64_t fence)
{
    char path[300], temporary[300];
    FILE *file;
    bool written;

    path_of(order, i, "", path);
    path_of(order, i, ".new", temporary);
    file = fopen(temporary, "w");
    if (file == NULL) {
        return false;
    }
    written =
        fprintf(file, "%ld %" PRIu64 "\n", order->there[i] - order->wanted[i], fence) > 0;
    return fclose(file) == 0 && written && rename(temporary, path) == 0;
}

static bool refuse(const struct order *order, size_t i, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", order->articles[i], why);
    return false;
}

/* Takes everything, or nothing. Returns false if an article prevents that. */
static bool take_from_stock(struct order *order)
{
    for (size_t i = 0; i < order->count; i++) {
        uint64_t fence = lw_lock_fence(lw_all_lock(order->all, i));
        const char *why = read_stock(order, i, fence);

        if (why != NULL) {
            return refuse(order, i, why);
        }
    }
    for (size_t i = 0; i < order->count; i++) {
        if (lw_all_remaining_ms(order->all) == 0) {
            return refuse(order, i, "the locks have expired: a write could be too late");
        }
        if (!write_stock(order, i, lw_lock_fence(lw_all_lock(order->all, i)))) {
            return refuse(order, i, "its file cannot be written");
        }
    }
    return true;
}

/* The last callback: with the client, the loop's last event is gone. */
static void closed(struct lw_client *client, void *arg)
{
    struct order *order = arg;

    lw_all_free(order->all);
    lw_client_free(client);
}

static void released(struct lw_all *all, int status, void *arg)
{
    struct order *order = arg;

    (void)all;
    if (status != LW_OK) {
        (void)fprintf(stderr, "release: %s\n", lw_strerror(status));
    }
    (void)lw_client_close(order->client, closed, order);
}

static void acquired(struct lw_all *all, int status, void *arg)
{
    struct order *order = arg;

    if (status != LW_OK) {
        (void)fprintf(stderr, "order: %s\n", lw_strerror(status));
        (void)lw_client_close(order->client, closed, order);
        return;
    }
    if (take_from_stock(order)) {
        (void)puts("ordered");
        order->code = EXIT_SUCCESS;
    }
    (void)lw_all_release(all, released, order);
}

static int request_locks(struct order *order)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    const char *names[ARTICLES];

    for (size_t i = 0; i < order->count; i++) {
        (void)snprintf(order->names[i], sizeof(order->names[i]), "stock:%s",
                       order->articles[i]);
        names[i] = order->names[i];
    }
    options.wait_ms = WAIT_MS;
    options.lease_ms = 5000;
    /* `lost` is NULL: the work is done within this callback's one turn of the loop. */
    return lw_acquire_all(order->client, names, order->count, &options, acquired, NULL,
                          order, &order->all);
}

static bool read_arguments(struct order *order, int argc, char **argv)
{
    if (argc < 4 || argc % 2 != 0 || argc > 2 + 2 * ARTICLES) {
        return false;
    }
    order->folder = argv[1];
    for (int i = 2; i < argc; i += 2) {
        order->articles[order->count] = argv[i];
        order->wanted[order->count] = strtol(argv[i + 1], NULL, 10);
        if (order->wanted[order->count] <= 0 || strlen(argv[i]) > 60 ||
            strchr(argv[i], '/') != NULL) {
            return false;
        }
        order->count++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */
    struct event_base *base = event_base_new();
    struct order order = {.why = "out of memory", .code = EXIT_FAILURE};

    if (base == NULL || !read_arguments(&order, argc, argv)) {
        (void)fprintf(stderr, "usage: order FOLDER ARTICLE COUNT [ARTICLE COUNT...]\n");
        return EXIT_FAILURE;
    }
    options.client_name = "order";
    options.errbuf = order.why;
    options.errbuf_size = sizeof(order.why);
    if (url == NULL || lw_client_new(base, url, &options, &order.client) < 0 ||
        request_locks(&order) < 0) { /* an article that is named twice, for example */
        (void)fprintf(stderr, "order: %s\n",
                      url != NULL ? order.why : "LOCKWIRE_URL is not set");
        lw_client_free(order.client);
        event_base_free(base);
        return EXIT_FAILURE;
    }
    event_base_dispatch(base);
    event_base_free(base);
    return order.code;
}
