/* SPDX-License-Identifier: MIT
 *
 * A cluster's nodes, for who has roles change, has slots move, has hosts connect, and
 * judges. See nodes.c, nodes_roles.c, slots.c and nodes_trouble.c.
 */
#ifndef LW_SIM_NODES_H
#define LW_SIM_NODES_H

#include "world.h"

#define NODES_NOWHERE (SERVERS + SENTINELS) /* an address that nobody has */

enum node_trouble {
    NODE_AWAY,   /* its connections end, it takes none */
    NODE_FROZEN, /* it stands still */
    NODE_DEAF,   /* it hears of no change */
    NODE_VILE,   /* what it says of slots makes no sense */
    NODE_DOWN,   /* it takes the cluster for down */
    NODE_HALF,   /* of some slots all nodes know nobody */
    NODE_LOOP,   /* it and another one send to each other */
    NODE_TROUBLES,
    NODE_NONE = NODE_TROUBLES
};

struct node {
    bool in; /* of the cluster */
    bool paused, dead, apart, cut;
    uintptr_t stream;   /* counts, so that an earlier one's steps are void */
    int64_t arrives_us; /* the last of them */
    int64_t refuses_until_us, frozen_until_us;
    unsigned epoch; /* that it knows of */
    unsigned char masters[SERVERS];
    struct model_map map;
    enum node_trouble trouble;
    unsigned troubles; /* counts, so that an earlier one's end is void */
};

/* Whose each slot is, and who follows whom: what is true since a change. */
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
struct epoch *nodes_change(void); /* a copy of that, which is true from now on */
void nodes_know(unsigned node);   /* it knows all, at once */
void nodes_learn(unsigned node);  /* or some time later */
void nodes_show(unsigned node);   /* what it knows, afresh */
bool nodes_is_master(unsigned node);
bool nodes_stands(unsigned node);     /* it is there, and answers */
bool nodes_is_well(unsigned node);    /* a master to which nothing happens */
unsigned nodes_any_master(void);      /* such a one; SERVERS: there is none */
unsigned nodes_slot(const char *key); /* its slot */
unsigned nodes_with(const char *key); /* who has it, or would have */
bool nodes_succeeds(const struct model_server *old,
                    const char *name); /* the owner does */
const char *nodes_url(void);           /* what hosts are given */
unsigned nodes_place(const char *host, int port);

/* ---- nodes_roles.c ---- */

void nodes_follow(unsigned node, unsigned master); /* as its replica */
void nodes_ran(unsigned node);                     /* it did what it was asked for */
void nodes_restart(unsigned node);
void nodes_swap(void);
void nodes_split(void);
void nodes_fail_over(void);
void nodes_heal(void);

/* ---- slots.c ---- */

void slots_begin(void);
void slots_heal(void);
void slots_move(void);          /* one of them, to another node */
void slots_change_member(void); /* a node joins, or leaves and takes its leave of all */
bool slots_involve(unsigned node);
/* Of a slot that moves: who gives it, and who gets it. false: it does not. */
bool slots_way(unsigned slot, unsigned *from, unsigned *to);

/* ---- nodes_trouble.c ---- */

void nodes_trouble(void); /* one of them is in trouble, or all are */
void nodes_end_troubles(void);

#endif
