/* SPDX-License-Identifier: MIT
 *
 * The plain way to a model server: unix or TCP sockets, non-blocking, everything passed
 * on at once. The simulator has its own network between them; this is for programs and
 * for tests that need a server that answers. Knows no RESP.
 *
 * Happy path: transport_new(), transport_listen_*() or transport_adopt(), then
 * transport_pump() whenever something may have come; it never blocks. transport_wait()
 * blocks until then.
 */
#ifndef LW_SIM_TRANSPORT_H
#define LW_SIM_TRANSPORT_H

#include "model_server.h"

struct transport;

struct transport *transport_new(struct model_server *server);
bool transport_listen_unix(struct transport *transport,
                           const char *path); /* errno is set */
bool transport_listen_tcp(struct transport *transport,
                          int port);                       /* 127.0.0.1; errno is set */
void transport_adopt(struct transport *transport, int fd); /* one end of a socketpair */
bool transport_pump(struct transport *transport);          /* true: something was moved */
void transport_wait(struct transport *transport, int timeout_ms); /* -1: for ever */
void transport_free(struct transport *transport); /* hangs up; the server stays */

#endif
