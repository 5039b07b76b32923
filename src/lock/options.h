/* SPDX-License-Identifier: MIT */
/* A client's options: defaults, ranges, copies. */
#ifndef LW_OPTIONS_H
#define LW_OPTIONS_H

struct lw_client;
struct lw_client_options;

/* Fills in client->options, url and log: 0, LW_EINVAL and LW_ENOMEM, explained. */
int lw__options_take(struct lw_client *client, const char *url,
                     const struct lw_client_options *given);
/* Where there is no client yet. */
void lw__options_explain(const struct lw_client_options *given, const char *why);
void lw__options_clear(struct lw_client *client);
#endif
