/* SPDX-License-Identifier: MIT */
/* A client's options: defaults, ranges, copies. */
#ifndef LW_OPTIONS_H
#define LW_OPTIONS_H

struct lw_client;
struct lw_client_options;

/* Fills in client->options, url and log: 0, LW_EINVAL and LW_ENOMEM, explained. */
int lw__options_take(struct lw_client *client, const char *url,
                     const struct lw_client_options *given);
/* Why a call was refused, into the caller's errbuf as far as it has room. */
void lw__options_explain(struct lw_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same where there is no client yet. */
void lw__options_explain_given(const struct lw_client_options *given, const char *why);
void lw__options_clear(struct lw_client *client);
#endif
