/* SPDX-License-Identifier: MIT */
/* Calls of lw_list, lw_inspect, lw_break, lw_ask_to_yield and lw_watch: the structs that
 * the files of src/look share, then the functions that each file offers. */
#ifndef LW_LOOK_H
#define LW_LOOK_H
#include "lock/lock_private.h"

#include "look/inspect_reply.h"
#include "redis/resp.h"

struct lw__list;

/* A call of lw_inspect, lw_break or lw_ask_to_yield, or a look of lw_list or lw_watch at
 * one name. */
struct lw__inspect_call {
    struct lw__command command;
    struct lw__notice notice;
    struct lw__inspect_call *next, *prev; /* of the client, except those of a watch */
    struct lw_client *client;
    lw_inspect_cb *inspected; /* one of these five is set */
    lw_break_cb *broken;
    lw_yield_cb *yielded;
    struct lw__list *list;
    struct lw_watcher *watch;
    void *arg;
    char *name;  /* the key, with the prefix */
    char *token; /* the only holder to break, or NULL */
    struct lw__inspect_reply look;
    size_t naming;   /* in a cluster: the client whose identity is requested */
    size_t breaking; /* the holder whose release is in flight */
    size_t hinted;   /* the holder whose client is sent a message */
    size_t reached;  /* by lw_ask_to_yield: so many holders' clients got the message */
    bool one_key;    /* the slot is migrating: only the name's own key is read */
    bool any_broken;
    bool untracked; /* of a watch: without CLIENT CACHING, since that look failed */
    bool tracked;   /* of a watch: a message will report the next change of these keys */
    char why[LW_WHY_SIZE], server[LW__TEXT_MAX];
};

#define LW__LIST_LOOKS 8 /* names that one lw_list inspects at the same time */

/* A call of lw_list. */
struct lw__list {
    struct lw__command command; /* the next SCAN */
    struct lw__notice notice;   /* a lock was found, or the end */
    struct lw__list *next, *prev;
    struct lw_client *client; /* NULL: it was freed, or the call has ended */
    lw_found_cb *found;
    lw_listed_cb *done;
    void *arg;
    char *pattern; /* or NULL */
    struct lw_listing listing;
    uint64_t keys_before; /* scanned on the servers before this one */
    char cursor[LW__DIGITS];
    unsigned link;    /* connection of the scanned server: a cursor is valid on it only */
    char *names;      /* found by the last SCAN, each with its NUL */
    const char *name; /* the next of them to inspect */
    size_t names_left; /* from there on */
    size_t looking;
    struct lw__inspect_call *looks[LW__LIST_LOOKS]; /* NULL: free */
    bool over, in_callback;
    char why[LW_WHY_SIZE];
    unsigned map; /* number of the slot map that it waits for; 0: none */
    bool checked; /* against a fresh slot map: no scanned slot was at another node */
    unsigned slots;
    unsigned scans[]; /* the state of each slot (list.c) */
};

/* A watch. Its call is used for one look after another. */
struct lw_watcher {
    struct lw__inspect_call call;   /* call.client is NULL once the client has ended */
    struct lw__timer timer;         /* the next look */
    struct lw_watcher *next, *prev; /* of the client */
    lw_watch_cb *changed;
    void *arg;
    uint32_t interval_ms;
    bool every_look;
    struct lw__inspect_reply last; /* the state that was seen last */
    bool seen;                     /* there is one */
    int status;      /* of the last look; 1 before the first one has ended */
    bool looking;    /* the call is in flight, or its notice is queued */
    bool again;      /* something changed since that look began */
    bool again_soon; /* the server has changed: that look need not wait */
    int64_t looked_us;
    int64_t spacing_us; /* the least time until a look that a message calls for */
    bool in_callback, freed;
};

/* ---- watch.c ---- */

/* A look has ended. Returns true if `changed` is to be called. */
bool lw__watch_looked(struct lw_watcher *watch, int status);
/* After that, and after `changed`: plans the next look. Frees a watch that the caller has
 * freed. */
void lw__watch_continue(struct lw_watcher *watch);
/* Names may lead to another server, or a link or a subscription has changed: looks at
 * each name of this node, or of all nodes if it is NULL. */
void lw__watch_look_again(struct lw_client *client, const struct lw__node *node);
/* A key has changed at a server; NULL: any may have. */
void lw__watch_key_changed(struct lw_client *client, const char *key);
/* The client ends: its watches call back no more. */
void lw__watch_end_all(struct lw_client *client);

/* ---- list.c ---- */

/* An inspection of the list was answered. Returns true if there is a lock to report;
 * lw__list_delivered follows then, else lw__list_continue. */
bool lw__list_inspected(struct lw__list *list, struct lw__inspect_call *call, int status);
void lw__list_continue(struct lw__list *list);
/* After `found`, which may have ended anything. `stops`: the caller wants no more. */
void lw__list_delivered(struct lw__list *list, bool stops);
/* The call is about to end: removes it from its client, which may be freed now. */
void lw__list_take_out(struct lw__list *list);
void lw__list_free(struct lw__list *list);
/* Slots have moved to other nodes, or to none. */
void lw__list_remapped(struct lw_client *client);
/* Slot map number `map`, or any map, is not available: ends the lists that wait for it.
 */
void lw__list_map_unavailable(struct lw_client *client, unsigned map, const char *why);
void lw__list_close(struct lw_client *client); /* ends all with LW_ECLOSED */

/* ---- inspect.c ---- */

/* Prepares a call for the looks of a watch. Returns 0, or LW_ENOMEM. */
int lw__inspect_init(struct lw__inspect_call *call, struct lw_client *client,
                     const char *name);
/* Starts a look of a watch. */
void lw__inspect_look(struct lw__inspect_call *call);
/* Drops what is in flight. */
void lw__inspect_stop(struct lw__inspect_call *call);
/* Frees the memory of a call. */
void lw__inspect_clear(struct lw__inspect_call *call);
/* Starts an inspection for a list. Returns NULL if memory is short. */
struct lw__inspect_call *lw__inspect_for(struct lw_client *client, const char *name,
                                         struct lw__list *list);
/* As lw__list_take_out. */
void lw__inspect_take_out(struct lw__inspect_call *call);
void lw__inspect_free(struct lw__inspect_call *call);
void lw__inspect_close(struct lw_client *client); /* ends all with LW_ECLOSED */
#endif
