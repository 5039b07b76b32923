/* SPDX-License-Identifier: MIT */
/*
 * What goes over the wire: each command's and script's arguments out, each reply to a
 * typed result, strictly: what does not fit exactly is refused. Pure; knows no connection
 * and no lock's state. The names of keys, tokens, members and channels are made here
 * alone.
 *
 * This is wire version 2. Queues, channels, tokens and a read-write lock's hash say so,
 * and a change of what any of them means takes another number: clients of two versions
 * then exclude each other on a name as strangers do, by its key alone, wait for each
 * other by polling, and never read or write what is the other's. The fence counter is
 * common to all versions, so that numbers rise whoever draws them.
 */
#ifndef LW_PROTOCOL_H
#define LW_PROTOCOL_H
#include "base.h"
#include "link.h"
#include "scripts.h" /* generated: the embedded scripts */

/* Bytes to send. An allocation that failed sticks, and makes all later puts void. */
struct lw__buffer {
    char *data;
    size_t length, capacity;
    bool failed;
};
void lw__buffer_clear(struct lw__buffer *buffer);

/* One acquisition as Redis sees it: `<client uuid>:<n>:<claim window in ms>-`. The end
 * mark is of wire version 2; version 1 had none. */
struct lw__token_id {
    const char *uuid;
    uint64_t n;
    uint32_t window_ms;
};
#define LW__TOKEN_SIZE 80
void lw__token_text(const struct lw__token_id *id, char ret[LW__TOKEN_SIZE]);

/* The channel that a client listens to, and the one of a single connection of it. */
#define LW__CHANNEL_OF_OURS_SIZE 64
void lw__own_channel(const char *uuid, char ret[LW__CHANNEL_OF_OURS_SIZE]);
void lw__connection_channel(const char *uuid, unsigned nonce,
                            char ret[LW__CHANNEL_OF_OURS_SIZE]);

/* A server's short id, from its run_id; "" where it does not tell that. */
#define LW__SERVER_SIZE 17
void lw__server_id(const char *run_id, char ret[LW__SERVER_SIZE]);

/* A request in a queue of a read-write lock, all that a hand-over needs to know. */
struct lw__rw {
    bool write;
    uint32_t permits;
    const char *owner; /* NULL: the token */
};

void lw__put_command(struct lw__buffer *out, size_t words); /* the array's header */
void lw__put_text(struct lw__buffer *out, const char *text);
void lw__put_number(struct lw__buffer *out, int64_t number);

/* `eval`: send the script's text, because the server does not know its SHA-1
 * (NOSCRIPT). */
/* SET NX PX, and INCR where `fence`; returns where that begins. */
size_t lw__put_try(struct lw__buffer *out, const char *name,
                   const struct lw__token_id *token, uint32_t lease_ms, bool fence);
struct lw__acquire_args {
    const char *name;
    struct lw__token_id token;
    const struct lw__token_id *previous; /* to be released in the same script; or NULL */
    const struct lw__rw *rw;             /* NULL: a mutex */
    const char *server;                  /* its id, for the messages of a hand-over */
    uint32_t lease_ms;
    int64_t ticket; /* -1: none yet */
    bool wait, fence;
};
void lw__put_acquire(struct lw__buffer *out, bool eval,
                     const struct lw__acquire_args *args);
void lw__put_release(struct lw__buffer *out, bool eval, const char *name,
                     const struct lw__token_id *token, const struct lw__rw *rw,
                     const char *server);
struct lw__renew_args {
    const char *name;
    struct lw__token_id token;
    uint32_t lease_ms;
};
/* One lease goes out for all where they are alike, else one for each. `server` NULL:
 * mutexes, whose renewal hands nothing over; else a read-write lock's holds. */
void lw__put_renew(struct lw__buffer *out, bool eval, size_t count,
                   const struct lw__renew_args *args, const char *server);

/* A lock shared with Redisson: its hash's field, `<client uuid>:<n>`, and its channel. */
#define LW__CHANNEL_SIZE 544 /* the longest name's */
void lw__redisson_field(const struct lw__token_id *id, char ret[LW__TOKEN_SIZE]);
void lw__redisson_channel(const char *name, char ret[LW__CHANNEL_SIZE]);
void lw__put_redisson_acquire(struct lw__buffer *out, bool eval, const char *name,
                              const struct lw__token_id *token, uint32_t lease_ms);
void lw__put_redisson_release(struct lw__buffer *out, bool eval, const char *name,
                              const struct lw__token_id *token);
void lw__put_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                            const struct lw__renew_args *args);

/* Takes the lock from this token, whosever it is, and hands it over. */
void lw__put_break(struct lw__buffer *out, bool eval, const char *name, const char *token,
                   bool rw, const char *server);
void lw__put_inspect(struct lw__buffer *out, bool eval, const char *name,
                     int most_holders, int most_waiters);
void lw__put_note(struct lw__buffer *out, const char *uuid,
                  const char *note); /* NULL: DEL */
/* The notes of `count` clients, by the first LW__UUID_SIZE - 1 bytes of each uuid. */
void lw__put_get_notes(struct lw__buffer *out, size_t count, const char *const *uuids);
void lw__put_fence_seed(struct lw__buffer *out, bool eval);
void lw__put_fence_keep(struct lw__buffer *out); /* PEXPIRE: the counter lives on */

/* How many subscribe to a channel at the server that is asked: PUBSUB NUMSUB. */
void lw__put_count(struct lw__buffer *out, const char *channel);

/* How an error reply is to be taken, by its code (classify.c). */
enum lw__error_class {
    LW__ERR_NOSCRIPT,  /* send the text */
    LW__ERR_LINK,      /* this connection is of no use: LOADING, NOAUTH, READONLY ... */
    LW__ERR_TRANSIENT, /* the outcome is open, try again: BUSY, OOM, MISCONF ... */
    LW__ERR_REFUSED    /* for good: NOPERM and all else */
};
enum lw__error_class lw__classify(const char *error);
/* Is it NOPERM: a command, key or channel that this user may not use? */
bool lw__denied(const char *error);

/* Numbers out of this range mean that the counter was lost and must be seeded from TIME;
 * a script cannot count beyond it. */
#define LW__FENCE_MIN ((int64_t)1 << 50)
#define LW__FENCE_END ((int64_t)1 << 53)

struct lw__acquired {
    enum { LW__ANSWER_GRANTED, LW__ANSWER_QUEUED, LW__ANSWER_DEADLOCK } kind;
    uint64_t fence;
    int64_t remaining_ms, position, ticket, server_us;
    bool again;
    const char *stranger; /* the TYPE of a key that is not ours to understand, or NULL */
    bool released;        /* of a turn's previous token */
};
struct lw__released {
    bool released, again;
    int64_t holds_left;
    int64_t told; /* Redisson's: how many heard of it */
};
/* false: not what the script can have answered. */
bool lw__get_acquired(const struct lw__reply *reply, bool turn, struct lw__acquired *ret);
bool lw__get_count(const struct lw__reply *reply, int64_t *ret);
bool lw__get_released(const struct lw__reply *reply, bool rw, struct lw__released *ret);
bool lw__get_redisson_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__get_renewed(const struct lw__reply *reply, size_t count, bool *renewed);

/* A message on our channel: `t <token> <fence> <us> <server> <name>` (a mutex was handed
 * over; `r`: a read-write lock) or `s <token> <window ms> <name>`. */
struct lw__message {
    bool handed; /* else standby */
    bool rw;     /* handed: in a read-write lock */
    uint64_t n;
    uint32_t token_window_ms;
    uint64_t fence;
    int64_t handed_us;
    char server[LW__SERVER_SIZE]; /* where it was handed over */
    int64_t window_ms;
    const char *name; /* NUL-terminated, inside `text` */
};
bool lw__get_message(const char *text, size_t length, const char *uuid,
                     struct lw__message *ret);
#endif
