/* SPDX-License-Identifier: MIT
 *
 * The nodes of a cluster, for the files that change roles, move slots, connect hosts and
 * check. See nodes.c, nodes_roles.c, slots.c and nodes_trouble.c.
 */
#ifndef LW_SIM_NODES_H
#define LW_SIM_NODES_H

#include "world.h"

#define NODES_NOWHERE (SERVERS + SENTINELS) /* an address without a server */

enum node_trouble {
    NODE_AWAY,   /* its connections end, and it accepts none */
    NODE_FROZEN, /* it is frozen */
    NODE_DEAF,   /* it learns of no change */
    NODE_VILE,   /* its reply to CLUSTER SLOTS is malformed */
    NODE_DOWN,   /* it takes the cluster for down */
    NODE_BOASTS, /* its reply to ROLE is that of a master */
    NODE_HALF,   /* all nodes report that some slots are unassigned */
    NODE_LOOP,   /* it and another node redirect to each other */
    NODE_TROUBLES,
    NODE_NONE = NODE_TROUBLES
};

struct node {
    bool in; /* it is a member of the cluster */
    bool paused, dead, apart, cut;
    uintptr_t stream;   /* a counter, so that the steps of an earlier one are void */
    int64_t arrives_us; /* when the last step arrives */
    int64_t refuses_until_us, frozen_until_us;
    unsigned epoch; /* the latest that it knows */
    unsigned char masters[SERVERS];
    struct model_map map;
    enum node_trouble trouble;
    unsigned troubles; /* a counter, so that the end of an earlier one is void */
};

/* The owner of each slot and the master of each node, from one change to the next. */
struct epoch {
    unsigned char owners[MODEL_SLOTS], masters[SERVERS];
};

extern struct node nodes[SERVERS];

/* ---- nodes.c ---- */

void nodes_begin(void);
void nodes_end(void);
bool nodes_refuse(unsigned node);
int64_t nodes_frozen_until(unsigned node);
const struct epoch *nodes_now(void);
/* Returns a copy of the last epoch, which becomes the last one. */
struct epoch *nodes_change(void);
void nodes_know(unsigned node);  /* it learns everything at once */
void nodes_learn(unsigned node); /* the same, some time later */
void nodes_show(unsigned node);  /* updates its map from what it knows */
bool nodes_is_master(unsigned node);
bool nodes_stands(unsigned node);     /* it is up and replies */
bool nodes_is_well(unsigned node);    /* it is a master, is up, and takes writes */
unsigned nodes_any_master(void);      /* returns such a node; SERVERS if there is none */
unsigned nodes_slot(const char *key); /* returns its slot */
unsigned nodes_with(const char *key); /* the node that has the key, or would have it */
/* Returns true if the name's owner is the successor of `old`. */
bool nodes_succeeds(const struct model_server *old, const char *name);
const char *nodes_url(void); /* the URL that hosts are given */
unsigned nodes_place(const char *host, int port);

/* ---- nodes_roles.c ---- */

void nodes_follow(unsigned node, unsigned master); /* as its replica */
void nodes_ran(unsigned node);                     /* it has executed a command */
void nodes_restart(unsigned node);
void nodes_swap(void);
void nodes_split(void);
void nodes_fail_over(void);
void nodes_heal(void);

/* ---- slots.c ---- */

void slots_begin(void);
void slots_heal(void);
void slots_move(void);          /* moves a slot to another node */
void slots_change_member(void); /* a node joins, or hands over its slots and leaves */
bool slots_involve(unsigned node);
/* Returns true if the slot is moving; stores the source and the target of the move. */
bool slots_way(unsigned slot, unsigned *from, unsigned *to);

/* ---- nodes_trouble.c ---- */

void nodes_trouble(void); /* puts one node, or all, into trouble */
void nodes_end_troubles(void);

#endif
