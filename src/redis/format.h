/* SPDX-License-Identifier: MIT */
/* The texts that stand in Redis: tokens, members of queues, names of keys and channels,
 * records of holds, and messages about them. All are made and read here alone. Knows no
 * connection and no lock's state.
 *
 * This is wire version 2. Queues, channels, tokens and a read-write lock's hash say so,
 * and a change of what any of them means takes another number: clients of two versions
 * then exclude each other on a name as strangers do, by its key alone, wait for each
 * other by polling, and never read or write what is the other's. The fence counter is
 * common to all versions, so that numbers rise whoever draws them. */
#ifndef LW_FORMAT_H
#define LW_FORMAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__buffer;

#define LW__FENCE_KEY "lockwire:fence"

/* One acquisition as Redis sees it: `<client uuid>:<n>:<claim window in ms>-`. The end
 * mark is of wire version 2; version 1 had none. A mutex's value ends in + in its place
 * while others may queue (mutex.lua). */
struct lw__token {
    const char *uuid;
    uint64_t n;
    uint32_t window_ms;
};
/* Of an n: it is written with zeros before it, so that the token is longer than 64 bytes
 * and a queue that it is in never the list that Redis would go through from one end. For
 * a token of which nothing can be in Redis under its other name. */
#define LW__PADDED ((uint64_t)1 << 63)
#define LW__TOKEN_SIZE 80
size_t lw__format_token(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
void lw__format_put_token(struct lw__buffer *out, const struct lw__token *token);
/* The field of a lock shared with Redisson: `<client uuid>:<n>`. */
size_t lw__format_field(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
void lw__format_put_field(struct lw__buffer *out, const struct lw__token *token);
/* Whether it may be a token or field of some client's; else a stranger's. */
bool lw__format_is_token(const char *text);
/* Whether somebody means this token: by its text, or as it stands in Redis where it is
 * marked (mutex.lua). */
bool lw__format_means(const char *given, const char *token);

/* A request in a queue of a read-write lock, all that a hand-over needs to know. */
struct lw__rw {
    bool write;
    uint32_t permits;
    const char *owner; /* NULL: the token */
};
/* `<r|w> <owner>`, for rw_acquire. An owner that is the token is not named, here and
 * below: the script knows it. */
void lw__format_put_asker(struct lw__buffer *out, const struct lw__rw *rw);
/* `<numbers> <r|w><permits> <owner>`, for rw_release. */
void lw__format_put_leaver(struct lw__buffer *out, const struct lw__rw *rw,
                           const char *numbers);
/* `<r|w><permits> <token> <owner>`, as the queue holds it. */
struct lw__member {
    bool write;
    uint32_t permits;
    const char *token, *owner; /* inside the text */
    size_t token_length;
};
/* false: of no such form, the scripts will drop it. */
bool lw__format_read_member(const char *text, struct lw__member *ret);

/* `<end ms> <r|w> <owner>`: one hold's own lease. */
struct lw__hold {
    int64_t ends_ms; /* by the server's clock; 0: with the key */
    bool write;
    const char *owner; /* inside the text */
};
/* false: of no such form, and so no hold, as for the scripts. */
bool lw__format_read_hold(const char *text, struct lw__hold *ret);

/* What LW__FENCE_KEY is on a single server, for all names in a slot of a cluster. */
#define LW__FENCE_SIZE (sizeof(LW__FENCE_KEY ":{abc}"))
size_t lw__format_fence(unsigned slot, char ret[LW__FENCE_SIZE]);

/* The queue of a name stands in the name's cluster slot. */
void lw__format_put_queue(struct lw__buffer *out, const char *name, bool rw);
/* The key of who a client is, by the first LW__UUID_SIZE - 1 bytes of its uuid. */
#define LW__CLIENT_SIZE 64
void lw__format_client(const char *uuid, char ret[LW__CLIENT_SIZE]);
void lw__format_put_client(struct lw__buffer *out, const char *uuid);

/* The channel that a client listens to, and the one of a single connection of it. */
#define LW__CHANNEL_OF_OURS_SIZE 64
void lw__format_own_channel(const char *uuid, char ret[LW__CHANNEL_OF_OURS_SIZE]);
/* In a cluster, for what is said of names in this slot. */
void lw__format_shard_channel(const char *uuid, unsigned slot,
                              char ret[LW__CHANNEL_OF_OURS_SIZE]);
void lw__format_connection_channel(const char *uuid, unsigned nonce,
                                   char ret[LW__CHANNEL_OF_OURS_SIZE]);
/* The channel on which Redisson tells that a name was released. */
#define LW__CHANNEL_SIZE 544 /* the longest name's */
void lw__format_redisson_channel(const char *name, char ret[LW__CHANNEL_SIZE]);

/* A server's short id, from its run_id; "" where it does not tell that. */
#define LW__SERVER_SIZE 17
void lw__format_server(const char *run_id, char ret[LW__SERVER_SIZE]);

/* How the scripts write the number of a message, and which server they are to name:
 * `%d <server>`, for Lua. `wide`: its integers have 64 bits. */
#define LW__NUMBERS_SIZE (LW__SERVER_SIZE + 5)
void lw__format_numbers(const char *server, bool wide, char ret[LW__NUMBERS_SIZE]);

/* A message on our channel: `t <token> <fence> <us> <server> <name>` (a mutex was handed
 * over; `r`: a read-write lock), `s <token> <window ms> <name>` (stand by) or
 * `v <token> <name>` (verify the hold: it was broken). */
struct lw__message {
    bool handed; /* t or r */
    bool verify; /* v; with neither it is s */
    bool rw;     /* handed: in a read-write lock */
    struct lw__token token;
    uint64_t fence;
    int64_t handed_us;
    char server[LW__SERVER_SIZE]; /* where it was handed over */
    int64_t window_ms;
    const char *name; /* NUL-terminated, inside `text` */
};
/* Returns false if the text is no message of ours to the client `uuid`. */
bool lw__format_read_message(const char *text, size_t length, const char *uuid,
                             struct lw__message *ret);
#endif
