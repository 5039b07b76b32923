/* SPDX-License-Identifier: MIT */
/* Host names to addresses, by DNS and the hosts file. */
#ifndef LW_RESOLVE_H
#define LW_RESOLVE_H
#include <stdint.h>

struct lw__addresses;
struct lw__resolve;
struct lw__loop;

/* Called once, from the event loop only, with the addresses in order of preference, valid
 * during the call. `status` is LW_OK if there are any, LW_ESYSTEM if this process can
 * open no more files, so that no DNS server could be queried, else LW_ECONN; then `why`
 * explains it. The resolution is freed by then. */
typedef void lw__resolve_fn(void *arg, const struct lw__addresses *addresses, int status,
                            const char *why);
/* Resolves `host`: a numeric address, a name in /etc/hosts, or a name for DNS. Each DNS
 * server is queried within limit_ms; it gets 20 ms at least. Returns 0, or LW_ENOMEM. */
int lw__resolve_start(struct lw__loop *loop, const char *host, uint32_t limit_ms,
                      lw__resolve_fn *fn, void *arg, struct lw__resolve **ret);
/* Frees it; the callback is never called after that. NULL is fine. */
void lw__resolve_cancel(struct lw__resolve *resolve);
/* Adds the addresses of `host` in a file like /etc/hosts; none if the file cannot be
 * read. Returns 0, or LW_ESYSTEM if this process can open no more files. (evdns reads the
 * file only once, and answers from it in a way that does not allow freeing in between.)
 */
int lw__resolve_in_file(const char *file, const char *host, struct lw__addresses *ret);
#endif
