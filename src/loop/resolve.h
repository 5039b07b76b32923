/* SPDX-License-Identifier: MIT */
/* Host names to addresses. */
#ifndef LW_RESOLVE_H
#define LW_RESOLVE_H
#include <stdint.h>

struct lw__addresses;
struct lw__resolve;
struct lw__loop;

/* Resolves a host name (evdns, never blocking; numeric addresses and /etc/hosts too) to
 * addresses, in order of preference; or to none, and why. Within `patience_ms`, of which
 * a name server is given 20 at least, each has been asked once. Calls back once, from the
 * loop alone; the lookup is gone then, the addresses when the call returns. `status` is
 * LW_OK if there are addresses; LW_ESYSTEM if this process may open no more files, so
 * that no name server could be asked; else LW_ECONN. */
typedef void lw__resolve_fn(void *arg, const struct lw__addresses *addresses, int status,
                            const char *why);
int lw__resolve_start(struct lw__loop *loop, const char *host, uint32_t patience_ms,
                      lw__resolve_fn *fn, void *arg, struct lw__resolve **ret);
/* No callback any more; NULL is fine. */
void lw__resolve_cancel(struct lw__resolve *lookup);
/* Adds what a file like /etc/hosts says of the host; nothing if the file cannot be read.
 * Returns 0, or LW_ESYSTEM if this process may open no more files. evdns reads the file
 * too, but only once, and answers from it in a way that is not safe to free in the
 * middle. */
int lw__resolve_in_file(const char *file, const char *host, struct lw__addresses *ret);
#endif
