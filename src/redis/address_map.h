/* SPDX-License-Identifier: MIT */
/* The address map of a client: which endpoint to connect to in place of one that a
 * sentinel or a node announces. The announced endpoint stays the identity of the server.
 * Independent of connections.
 *
 * lw__address_map_parse reads the option; lw__address_map_apply replaces an endpoint
 * before a connection is made. */
#ifndef LW_ADDRESS_MAP_H
#define LW_ADDRESS_MAP_H
#include "redis/endpoint.h"

#include <stdbool.h>
#include <stddef.h>

struct lw__address_map;

/* The size of the longest note. */
#define LW__ADDRESS_MAP_NOTE_SIZE (LW__HOST_SIZE + sizeof(" (mapped from []:65535)"))

/* Parses HOST:PORT=HOST:PORT and HOST=HOST, separated by commas; see address_map in
 * lockwire.h. Returns 0, LW_EINVAL or LW_ENOMEM; then `why` says what is wrong and in
 * which pair. */
int lw__address_map_parse(const char *text, struct lw__address_map **ret, char *why,
                          size_t why_size);
/* NULL is fine. */
void lw__address_map_free(struct lw__address_map *map);
/* Replaces the endpoint. Returns false, without any effect, if the map does not have it,
 * or is NULL. */
bool lw__address_map_apply(const struct lw__address_map *map,
                           struct lw__endpoint *endpoint);
/* Writes " (mapped to HOST:PORT)" with what this announced endpoint is replaced by, or ""
 * if it is not. */
void lw__address_map_note_target(const struct lw__address_map *map,
                                 const struct lw__endpoint *announced,
                                 char ret[LW__ADDRESS_MAP_NOTE_SIZE]);
/* Writes " (mapped from HOST:PORT)" with this announced endpoint, or "" if it is not
 * replaced. */
void lw__address_map_note_origin(const struct lw__address_map *map,
                                 const struct lw__endpoint *announced,
                                 char ret[LW__ADDRESS_MAP_NOTE_SIZE]);
#endif
