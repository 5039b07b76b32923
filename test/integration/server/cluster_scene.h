/* SPDX-License-Identifier: MIT */
/*
 * What cluster_slots.c and cluster_nodes.c share: commands at one node of a cluster of
 * three masters, and what it answers, as text. Must not know what the answers mean.
 *
 * Happy path: cluster_set(3, 0, ""), give_keys(owner), answer_of(other, "GET " NAME).
 */
#ifndef SERVER_CLUSTER_SCENE_H
#define SERVER_CLUSTER_SCENE_H
#include "cluster.h"
#include "stage.h"

/* Keys of one slot, each of which give_keys makes. */
#define NAME "job"
#define QUEUE "queue:{job}"
#define FENCE "fence:{job}"
/* A script tells how many of its three keys there are, another whether its only one is;
 * %s is a blank (at all others the command is parted in words). */
#define THREE                                                                            \
    "EVAL return%sredis.call('EXISTS',KEYS[1],KEYS[2],KEYS[3]) 3 " NAME " " QUEUE        \
    " " FENCE
#define ONE "EVAL return%sredis.call('EXISTS',KEYS[1]) 1 " NAME

/* Its answer, an error's text as well, "" for nil; until the next call. */
const char *answer_of(int node, const char *command);
/* The same behind ASKING, in one write. */
const char *answer_if_asking(int node, const char *command);
/* "MOVED 7638 127.0.0.1:7001"; until the call after the next. */
const char *redirect(const char *word, int slot, int to);
void assert_begins(const char *text, const char *with);
void give_keys(int node);
/* Another master than this one, of three. */
int other_than(int master);

#endif
