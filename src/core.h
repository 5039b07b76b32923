/* SPDX-License-Identifier: MIT */
/*
 * The private structs of the upper half, and what its files offer each other. Calls go
 * down:
 *
 *   client.c   options, life of a client, statistics      lock.c   the calls on a handle
 *   turns.c    the handles that share a token: whose turn it is
 *   redisson.c what LW_REDISSON alone has: holds of one owner, Redisson's channels
 *   line.c     those who wait in that mode: who asks for all of them
 *   token.c    one token in Redis: drives machine.c, sends its commands
 *   renewal.c  who is due when, in batches; lw_renew      wait.c   messages to their
 * waiters inspect.c  lw_inspect and lw_break                    note.c   who this client
 * is notify.c   the only caller of user callbacks          name.c   names and who uses
 * them
 *
 * and events come up through the functions registered in struct lw__token_events and
 * struct lw__node_events.
 */
#ifndef LW_CORE_H
#define LW_CORE_H
#include "lockwire.h"
#include "machine.h"
#include "node.h"
#include "told.h"

#include <sys/types.h>
#define HASH_NONFATAL_OOM 1 /* else uthash ends the process when memory is out */
#include <uthash.h>
/* Remote users choose names: what is found by them is hashed with the client's key. */
#undef HASH_FUNCTION
#define HASH_FUNCTION(text, length, hash)                                                \
    _Static_assert(0, "lw__hash() and the macros _BYHASHVALUE are to be used")

#define LW__MS 1000
#define LW__CONTENDED_SLOTS 256
#if defined(__SANITIZE_ADDRESS__)
#define LW__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LW__SANITIZED 1
#endif
#endif
#ifdef LW__SANITIZED
#define LW__POOLED 0 /* so that a use after free is seen */
#else
#define LW__POOLED 1024 /* freed objects of one kind that a client keeps for reuse */
#endif

struct lw__token;

/* ---- notify.c ---- */

enum lw__notice_kind {
    LW__NOTICE_NONE,
    LW__NOTICE_DONE, /* of lw_acquire */
    LW__NOTICE_LOST,
    LW__NOTICE_RELEASED,
    LW__NOTICE_RENEWED,
    LW__NOTICE_INQUIRED, /* lw_inspect, lw_break */
    LW__NOTICE_LINK,
    LW__NOTICE_CLOSED
};

/* A callback to be made; embedded in what it is about. */
struct lw__notice {
    struct lw__notice *next, *prev; /* utlist */
    enum lw__notice_kind kind;      /* NONE: not queued */
    bool urgent;                    /* in which queue */
    int status;
};

struct lw__link_notice {
    struct lw__notice notice;
    int up;
    char why[LW__WHY];
};

struct lw__notify {
    struct lw__notice *urgent; /* losses, and what must come right after them */
    struct lw__notice *normal;
    struct lw__deferred call;
};

/* ---- the structs ---- */

/* A name in use, found by its text. The tokens of one client for it, in order of
 * making. */
struct lw__name {
    UT_hash_handle hh;
    struct lw__token *tokens;
    struct lw__token *shared; /* that further handles may join, or NULL */
    unsigned references;      /* tokens and handles */
    char text[];
};

/* A call of lw_renew in flight. */
struct lw__extension {
    struct lw__command command; /* first */
    struct lw__notice notice;
    struct lw__extension *next, *prev;
    struct lw_lock *lock;
    lw_lock_cb *done;
    void *arg;
    uint32_t lease_ms;
};

struct lw_lock {
    struct lw_client *client;              /* NULL: inert */
    struct lw_lock *next, *prev;           /* all handles of the client */
    struct lw_lock *turn_next, *turn_prev; /* those who wait for the same token */
    struct lw__token *token;               /* NULL: it has nothing in Redis */
    struct lw__name *name;
    struct lw__extension *extensions;
    lw_lock_cb *done, *lost, *released;
    void *arg, *released_arg;
    char *owner;      /* as given, or NULL */
    char *owner_text; /* of lw_lock_owner, made when asked for */
    char *errstr;     /* or NULL */
    struct lw__notice notice;
    struct lw__timer timer; /* waiting: give up; held: lost; releasing: LW_EUNKNOWN */
    uint64_t fence;
    uint64_t token_n; /* of the token it holds or held */
    int64_t asked_us;
    int64_t give_up_us;    /* LW__NEVER: waits for ever */
    int64_t hold_until_us; /* by max_hold_ms; LW__NEVER */
    int64_t max_hold_us;
    int64_t lost_at_us; /* its deadline, once it has no token any more */
    int64_t retry_ms;
    uint32_t lease_ms, margin_ms, permits, window_ms;
    uint8_t mode, flags, state;
    bool once;    /* wait_ms 0 */
    bool granted; /* LW_OK is on its way to the callback */
    bool freed, in_callback;
};

struct lw__token {
    struct lw__command command; /* first; at most one in flight */
    struct lw_client *client;
    struct lw__name *name;
    struct lw__token *next, *prev; /* of its name */
    struct lw__machine machine;
    struct lw__timer timer;       /* machine.due_us */
    struct lw__heap_node renewal; /* when it is due */
    struct lw__batch *batch;      /* the renewal in flight that it is part of */
    struct lw_lock *holder;       /* holds, or lost and not freed yet */
    struct lw_lock *releasing;    /* wants to be told of the release */
    struct lw_lock *waiting;      /* in order of arrival */
    struct lw_lock *others;       /* LW_REDISSON: hold as well, beside `holder` */
    struct lw__rw rw;             /* read-write modes; owner is the handle's, copied */
    char *rw_owner;               /* LW_REDISSON's, too */
    int64_t
        entered_us; /* LW_REDISSON: whose lease is to be had from then on, 0: nobody's */
    uint64_t n, previous_n;
    uint32_t window_ms, previous_window_ms;
    int64_t pair_sent_us, pair_server_us; /* of the last answer: see hand-over */
    unsigned pair_connection;
    int64_t remaining_ms; /* of the holder, as last heard */
    unsigned drawn_on;    /* the connection that its grant's numbers came on */
    unsigned tries;       /* of those in `waiting`, how many try once */
    uint8_t numbers;      /* fencing tokens that its grant drew */
    uint8_t served;       /* handles that it served */
    uint8_t mode;
    bool asked_to_join;          /* the ask in flight joins the queue */
    bool trying;                 /* the plain try is in flight */
    bool set_answered, set_done; /* its SET */
    bool stranger_told;
    bool error_told;        /* to one of its handles, and no ordinary answer came since */
    bool renewing_for_next; /* between two handles: the next wants a fresh lease */
};

/* A name that was released in LW_REDISSON and is left to others. */
struct lw__rest {
    int64_t until_us;
    uint32_t hash; /* of the name */
    bool own;      /* the message of that release is still to come to us, too */
    bool heard;    /* a message came while a release was in flight */
};

/* A call of lw_inspect or lw_break on its way. */
struct lw__inquiry {
    struct lw__command command; /* first */
    struct lw__notice notice;
    struct lw__inquiry *next, *prev; /* all of the client */
    struct lw_client *client;
    lw_inspect_cb *inspected; /* or */
    lw_break_cb *broken;
    void *arg;
    char *name, *token; /* token: the only one to break, or NULL */
    struct lw_inspection found;
    struct lw_inspected *entries; /* holders, then waiters */
    char *texts, *notes;          /* what their strings point into */
    size_t breaking;              /* the holder whose release is in flight */
    bool any_broken;
    char why[LW__WHY];
};

struct lw__batch {
    struct lw__command command; /* first */
    struct lw__batch *next;     /* free ones */
    struct lw__batch *older;    /* all of the client's, in flight or free */
    struct lw_client *client;
    unsigned count;
    uint8_t mode;                 /* of its tokens; LW_EXCLUSIVE: or LW_SHARED */
    struct lw__token *tokens[32]; /* NULL: gone meanwhile */
    uint32_t lease_ms[32];
};

struct lw__token_events {
    void (*granted)(struct lw__token *token);
    void (*busy)(struct lw__token *token);
    void (*failed)(struct lw__token *token, int status);
    void (*said)(struct lw__token *token, const char *text); /* an error, for errstr */
    /* The outcome is unknown; the token goes on by itself. */
    void (*open)(struct lw__token *token, int status, const char *why);
    void (*released)(struct lw__token *token, int status);
    void (*lost)(struct lw__token *token);
    void (*renewed)(struct lw__token *token, bool sure);
    void (*ended)(struct lw__token *token); /* frees it */
};

struct lw_client {
    struct lw_client_options options; /* with every default filled in; strings copied */
    struct lw__url url;
    char *strings[3]; /* copies: username, password, client_name */
    struct lw__log log;
    struct lw__loop *loop;
    struct lw__node *node;
    struct lw__random random;
    struct lw__hash_key hash_key; /* of all its tables */
    char uuid[LW__UUID_SIZE];
    struct lw__fork_mark fork_mark;
    uint64_t next_n;
    const struct lw__token_events *events; /* turns.c's */
    struct lw__name *names;
    struct lw_lock *locks;
    struct lw__inquiry *inquiries;
    struct lw__listener *listener; /* redisson.c's; NULL: nobody waited lately */
    bool channels_forbidden_told, cluster_told;
    struct lw__rest rests[16];
    struct lw__command note_command;
    struct lw__timer note_timer;
    int64_t note_due_us;
    bool note_kept; /* it stands in Redis */
    struct lw__token *free_tokens;
    struct lw_lock *free_locks;
    unsigned free_token_count, free_lock_count, open_tokens;
    struct lw__batch *free_batches, *all_batches;
    struct lw__heap renewals;
    struct lw__timer renewal_timer, close_timer;
    struct lw__notify notify;
    struct {
        unsigned hash;
        int64_t until_us;
    } contended[LW__CONTENDED_SLOTS]; /* names that somebody else had lately */
    int64_t pair_sent_us, pair_server_us;
    unsigned pair_connection;
    char set_error[LW__WHY]; /* the last SET's error, until its pair's second reply */
    char down_why[LW__WHY];  /* why there is no link, "" before the first attempt ended */
    lw_close_cb *closed;
    void *closed_arg;
    struct lw__notice closed_notice;
    struct lw_stats stats;
    unsigned references; /* callbacks that run */
    bool told_up;        /* what the link callback was told last */
    bool closing, freed;
};

/* ---- name.c ---- */

/* The name, new or known; NULL: no memory. Each get wants a put. */
struct lw__name *lw__name_get(struct lw_client *client, const char *text);
struct lw__name *lw__name_find(struct lw_client *client, const char *text);
/* client NULL: it is gone, the name is nobody's but its handles'. */
void lw__name_put(struct lw_client *client, struct lw__name *name);

/* ---- notify.c ---- */

void lw__notify_init(struct lw_client *client);
/* Queues the lock's next callback, in place of one that is queued. */
void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status);
void lw__notify_cancel(struct lw_client *client, struct lw__notice *notice);
void lw__notify_extension(struct lw__extension *extension, int status);
void lw__notify_inquiry(struct lw__inquiry *inquiry, int status);
void lw__notify_link(struct lw_client *client, int up, const char *why);
void lw__notify_closed(struct lw_client *client);
void lw__notify_clear(struct lw_client *client); /* forgets all that is queued */
/* Ends a handle's or client's memory as soon as no callback of it runs. */
void lw__lock_unref(struct lw_lock *lock);
void lw__client_unref(struct lw_client *client);

/* ---- wait.c ---- */

void lw__wait_message(struct lw_client *client, const char *text, size_t length);
/* Remembers what an answer told of the server's clock. */
void lw__wait_note_clock(struct lw__token *token, int64_t sent_us, int64_t server_us);
/* The best pair for judging a hand-over at handed_us; server_us 0: none. */
void lw__wait_clock(const struct lw__token *token, int64_t handed_us, int64_t *sent_us,
                    int64_t *server_us);
void lw__wait_note_contended(struct lw_client *client, const struct lw__name *name);
bool lw__wait_is_contended(const struct lw_client *client, const struct lw__name *name);

/* ---- renewal.c ---- */

void lw__renewal_init(struct lw_client *client);
void lw__renewal_clear(struct lw_client *client);
/* Looks at the token anew: when is it due? */
void lw__renewal_plan(struct lw__token *token);
void lw__renewal_now(struct lw__token *token);
void lw__renewal_forget(struct lw__token *token);
int lw__extension_new(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                      void *arg);
/* All pending lw_renew calls of the handle end with this status. */
void lw__extension_end_all(struct lw_lock *lock, int status);
void lw__extension_free(struct lw__extension *extension);

/* ---- token.c ---- */

struct lw__token *lw__token_new(struct lw_client *client, struct lw_lock *lock);
void lw__token_free(struct lw__token *token);
void lw__token_step(struct lw__token *token, struct lw__input *input);
void lw__token_event(struct lw__token *token, enum lw__event event); /* of no arguments */
/* A fresh token takes the place of the one held: LW__EV_TURN. */
void lw__token_turn(struct lw__token *token);
void lw__token_give_back(struct lw_client *client, const char *text,
                         const struct lw__message *message);

/* ---- inspect.c ---- */

void lw__inquiry_free(struct lw__inquiry *inquiry);
void lw__inquiries_close(struct lw_client *client); /* all end with LW_ECLOSED */

/* ---- note.c ---- */

void lw__note_init(struct lw_client *client);
/* The client is in use: its note in Redis shall be there. Costs nothing while it is. */
void lw__note_keep(struct lw_client *client, int64_t now_us);
void lw__note_renew(struct lw_client *client); /* a link came up: is it still there? */
void lw__note_drop(struct lw_client *client);  /* the client closes */

/* ---- turns.c ---- */

extern const struct lw__token_events lw__turns_events;
int lw__turns_join(struct lw_lock *lock);
void lw__turns_let_go(struct lw_lock *lock);   /* held: passes on, or releases */
void lw__turns_withdraw(struct lw_lock *lock); /* waiting: leaves */
void lw__turns_timer(void *arg);               /* a lock */
void lw__turns_append(struct lw__token *token, struct lw_lock *lock); /* it waits, too */
void lw__turns_unlist(struct lw__token *token, struct lw_lock *lock); /* no longer */
void lw__turns_begin(struct lw__token *token, struct lw_lock *lock);  /* it holds */
void lw__turns_arm_loss(struct lw_lock *lock); /* its deadline moved */
/* Every waiter asks at once (behind a sibling's try: when that is over), every release
 * still open is sent; `verify`: every hold is renewed, since its server may be another
 * one. */
void lw__turns_ask_all(struct lw_client *client, bool verify);
void lw__turns_link_down(struct lw_client *client);
/* A waiting handle's end: `done` will be called with this; why may be NULL. */
void lw__turns_finish(struct lw_lock *lock, int status, const char *why);
int64_t lw__lock_deadline_us(
    const struct lw_lock *lock); /* min of D and max_hold's end */

/* ---- redisson.c ---- */

/* true: its owner has the lock already, or asks for it; the handle joins in, or was
 * told. */
bool lw__redisson_join(struct lw_lock *lock);
/* Lets in who waits for the token that is held. */
void lw__redisson_admit(struct lw__token *token);
/* One of those who hold together (token->others is not NULL) does no more. */
void lw__redisson_leave(struct lw_lock *lock);
/* The longest lease of those who hold or wait. */
int64_t lw__redisson_lease_us(const struct lw__token *token);
/* It was refused: from now on it asks again when the name's channel says so. */
void lw__redisson_await(struct lw__token *token);
/* How long who is refused may sleep: less where its channel is not heard. */
int64_t lw__redisson_poll_ms(const struct lw__token *token);
/* Is the name's channel listened to, as far as the server confirmed? */
bool lw__redisson_hears(const struct lw_client *client, const char *name);
void lw__redisson_close(struct lw_client *client); /* listens no more */

/* ---- line.c ---- */

/* Who asks for all that wait for the name in LW_REDISSON; NULL: nobody waits. */
struct lw__token *lw__line_first(const struct lw__name *name);
bool lw__line_is_behind(const struct lw__token *token); /* another one asks for it */
/* Of a token that is new: may it not ask yet? lw__line_moved will have it ask. */
bool lw__line_must_wait(const struct lw__token *token);
/* How long the name stays with who has it, as far as is known, in ms. */
int64_t lw__line_busy_ms(const struct lw__name *name);
/* A token of the name has made a step; `freed`: it has the lock no more. */
void lw__line_moved(struct lw__name *name, bool freed);
/* A release told so many listeners (-1: it found nothing to release), us among them?
 * Asking rests where there are others. */
void lw__line_released(struct lw_client *client, const char *name, int64_t told,
                       bool told_us);
/* The channel of the name `text` is not heard any more: who asks for it asks sooner. */
void lw__line_unheard(struct lw_client *client, const char *text);
/* The channel of the name `text` says that it was released. */
void lw__line_message(struct lw_client *client, const char *text);

/* ---- lock.c ---- */

void lw__lock_set_errstr(struct lw_lock *lock, const char *why);
void lw__lock_free_memory(struct lw_lock *lock);
void lw__lock_make_inert(struct lw_lock *lock); /* its client goes */
void lw__lock_close(struct lw_lock *lock);      /* its client closes */

/* ---- client.c ---- */

void lw__client_drained(
    struct lw_client *client); /* a token ended: closing may be over */
void lw__client_closed(
    struct lw_client *client); /* closing is over: lets go of the loop */
void lw__client_free_memory(struct lw_client *client);
/* Copies a caller's options struct by its size; false: it is too small or too new. */
bool lw__copy_options(void *ret, size_t size, const void *given, size_t given_size);
bool lw__client_in_child(const struct lw_client *client); /* after fork */
void lw__client_explain(struct lw_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* into errbuf */
#endif
