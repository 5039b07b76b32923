/* SPDX-License-Identifier: MIT
 *
 * Ordinary sockets to a model server: unix or TCP, non-blocking, without delays. The
 * simulator has a network of its own. This one is for programs and tests that need a
 * running server. Independent of RESP.
 *
 * Usual course: transport_new(), transport_listen_*() or transport_adopt(). Then
 * transport_pump() whenever something may have arrived; it never blocks. transport_wait()
 * blocks until then.
 */
#ifndef LW_SIM_TRANSPORT_H
#define LW_SIM_TRANSPORT_H

#include "model_server.h"

struct transport;

struct transport *transport_new(struct model_server *server);
bool transport_listen_unix(struct transport *transport,
                           const char *path); /* sets errno */
bool transport_listen_tcp(struct transport *transport,
                          int port);                       /* 127.0.0.1; sets errno */
void transport_adopt(struct transport *transport, int fd); /* one end of a socketpair */
bool transport_pump(struct transport *transport);          /* true if it moved bytes */
void transport_wait(struct transport *transport, int timeout_ms); /* -1: no limit */
void transport_free(struct transport *transport);                 /* the server stays */

#endif
