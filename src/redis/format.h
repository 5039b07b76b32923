/* SPDX-License-Identifier: MIT */
/* The texts that are stored in Redis: tokens, members of queues, names of keys and
 * channels, records of holds, and the messages about them. No other file writes or reads
 * them. Independent of connections and of the state of a lock.
 *
 * This is wire version 2, which is part of the text of queues, channels, tokens and a
 * read-write lock's hash. A change of what any of them means needs another number. To
 * clients of another version a key of this one is foreign: it excludes them, they wait by
 * polling, and neither reads or writes the other's queues and messages. All versions
 * share the fence counter, so that fencing tokens increase whichever version draws them.
 */
#ifndef LW_FORMAT_H
#define LW_FORMAT_H
#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__buffer;

#define LW__FENCE_KEY "lockwire:fence"
#define LW__GUARD_KEY "lockwire:guard"

/* Everywhere below, `prefix` is the text before all keys and channels of a client, "" if
 * it has none; lw__check_prefix has accepted it. `name` is a lock's key, which begins
 * with the prefix. If the prefix has a tag, all of its keys are in one slot. */
#define LW__PREFIX_SIZE (LW__PREFIX_MOST + 1)

/* The key of the lock that the caller of the library calls `name`. Both together have at
 * most 512 bytes (lw__check_key). Returns the length. */
#define LW__NAME_SIZE (LW__NAME_MOST + 1)
size_t lw__format_name(const char *prefix, const char *name, char ret[LW__NAME_SIZE]);
/* Returns true if the text has a cluster tag. */
bool lw__format_has_tag(const char *text);

/* One acquisition, in Redis `<client uuid>:<n>:<claim window in ms>-`. Wire version 1 had
 * no - at the end. A mutex's value ends in + instead, the queue mark, while others may
 * queue (mutex.lua). */
struct lw__token {
    const char *uuid;
    uint64_t n;
    uint32_t window_ms;
};
/* A flag in `n`: it is written with leading zeros, so that the token is longer than 64
 * bytes and Redis never stores a queue with it as a list, which it would scan from one
 * end. To be set only while nothing in Redis can have the token without the zeros. */
#define LW__PADDED ((uint64_t)1 << 63)
#define LW__TOKEN_SIZE 80
/* Returns the length. So do the other functions below that return a size_t. */
size_t lw__format_token(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
void lw__format_put_token(struct lw__buffer *out, const struct lw__token *token);
/* The field of a lock shared with Redisson: `<client uuid>:<n>`. */
size_t lw__format_field(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
void lw__format_put_field(struct lw__buffer *out, const struct lw__token *token);
/* Checks a token that the caller of the library gave. Returns NULL if it is one of this
 * wire version; it is copied to `ret` then, without a queue mark. Else returns `why`,
 * filled with the reason. */
const char *lw__format_check_token(const char *text, char ret[LW__TOKEN_SIZE], char *why,
                                   size_t why_size);
/* Returns true if the text may be a token or a field of a lockwire client. Any other is
 * foreign. */
bool lw__format_is_token(const char *text);
/* Returns true if `given` is the token's text, with or without the queue mark. */
bool lw__format_token_matches(const char *given, const char *token);

/* A request for a read-write lock, with all that a hand-over needs to know. */
struct lw__rw {
    bool write;
    uint32_t permits;
    const char *owner; /* NULL if the owner is the token itself */
};
/* Appends `<r|w> <owner>`, an argument of rw_acquire. An owner that is the token is left
 * out, here and below, since the script knows it. */
void lw__format_put_rw_request(struct lw__buffer *out, const struct lw__rw *rw);
/* Appends the field of a token's hold, `h:<token>`. */
void lw__format_put_hold_field(struct lw__buffer *out, const struct lw__token *token);
/* Appends `<numbers> <r|w><permits> <owner>`, an argument of rw_release. */
void lw__format_put_rw_release(struct lw__buffer *out, const struct lw__rw *rw,
                               const char *numbers);
/* A member of a read-write lock's queue: `<r|w><permits> <token> <owner>`. */
struct lw__member {
    bool write;
    uint32_t permits;
    const char *token, *owner; /* inside the text */
    size_t token_length;
};
/* Returns false if the text has another form. The scripts will remove such a member. */
bool lw__format_read_member(const char *text, struct lw__member *ret);

/* A hold of a read-write lock, with a lease of its own: `<end ms> <r|w> <owner>`. */
struct lw__hold {
    int64_t ends_ms; /* by the server's clock; 0 if it ends with the key */
    bool write;
    const char *owner; /* inside the text */
};
/* Returns false if the text has another form: then it is no hold, for the scripts either.
 */
bool lw__format_read_hold(const char *text, struct lw__hold *ret);

/* The key of the fence counter: in a cluster that of a slot, unless the prefix has a tag.
 * LW__NO_SLOT: without a cluster. */
#define LW__NO_SLOT (-1)
#define LW__FENCE_SIZE (LW__PREFIX_SIZE + sizeof(LW__FENCE_KEY ":{abc}"))
size_t lw__format_fence(const char *prefix, int slot, char ret[LW__FENCE_SIZE]);
/* Appends the key of the guard record. */
void lw__format_put_guard(struct lw__buffer *out, const char *prefix);

/* Appends the key of a name's queue, which is in the name's slot. */
void lw__format_put_queue(struct lw__buffer *out, const char *prefix, const char *name,
                          bool rw);
/* Appends the key of the description of a mutex's hold, which is in the name's slot. */
void lw__format_put_holder(struct lw__buffer *out, const char *prefix, const char *name);
/* The key of a client's identity. Only the first LW__UUID_SIZE - 1 bytes of `uuid` are
 * used. */
#define LW__CLIENT_SIZE (LW__PREFIX_SIZE + 64)
void lw__format_client(const char *prefix, const char *uuid, char ret[LW__CLIENT_SIZE]);
void lw__format_put_client(struct lw__buffer *out, const char *prefix, const char *uuid);

/* The channel that a client subscribes to; in a cluster for messages about names in this
 * slot, else with LW__NO_SLOT. */
#define LW__CHANNEL_OF_OURS_SIZE (LW__PREFIX_SIZE + 64)
void lw__format_channel(const char *prefix, const char *uuid, int slot,
                        char ret[LW__CHANNEL_OF_OURS_SIZE]);
/* The channel of a single connection of a client. */
void lw__format_connection_channel(const char *prefix, const char *uuid, unsigned nonce,
                                   char ret[LW__CHANNEL_OF_OURS_SIZE]);
/* The argument `channel` of scripts: the parts of lw__format_channel before and after the
 * uuid, with a blank between them. */
void lw__format_channel_parts(const char *prefix, int slot,
                              char ret[LW__CHANNEL_OF_OURS_SIZE]);
/* The channel on which Redisson publishes the release of a name. */
#define LW__CHANNEL_SIZE 544 /* the longest name's */
void lw__format_redisson_channel(const char *name, char ret[LW__CHANNEL_SIZE]);

/* A server's short id, from its run_id; "" if that is unknown. */
#define LW__SERVER_SIZE 17
void lw__format_server(const char *run_id, char ret[LW__SERVER_SIZE]);

/* The argument `numbers` of scripts, `%d <server>`: Lua's format for the fencing token in
 * a message, and the server to be named there. `wide`: the server's integers have 64
 * bits. */
#define LW__NUMBERS_SIZE (LW__SERVER_SIZE + 5)
/* In place of it: the script must not hand over (guard.lua). */
#define LW__NO_HAND_OVER "- "
void lw__format_numbers(const char *server, bool wide, char ret[LW__NUMBERS_SIZE]);

/* A message on our channel: `t <token> <fence> <server> <s> <us> <name>` (a mutex was
 * handed over; `r`: a read-write lock), `s <token> <window ms> <name>` (stand by), `v
 * <token> <name>` (verify the hold: it was broken) or `y <token> <name>` (a client asks
 * for the release of the hold). */
struct lw__message {
    bool handed; /* t or r */
    bool verify; /* v */
    bool yield;  /* y; a message with none of these three is an s */
    bool rw;     /* r */
    struct lw__token token;
    uint64_t fence;
    int64_t handed_us;
    char server[LW__SERVER_SIZE]; /* the one that handed over */
    int64_t window_ms;
    const char *name; /* NUL-terminated, inside the text */
};
/* Returns false if the text is not a message to the client `uuid`. */
bool lw__format_read_message(const char *text, size_t length, const char *uuid,
                             struct lw__message *ret);
#endif
