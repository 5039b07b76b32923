/* SPDX-License-Identifier: MIT */
/*
 * Shared by cluster_slots.c and cluster_nodes.c: commands at one node of a cluster of
 * three masters, and its replies as text. Independent of what the replies mean.
 *
 * Usual course: cluster_set(3, 0, ""), give_keys(owner), answer_of(other, "GET " NAME).
 */
#ifndef SERVER_CLUSTER_SCENE_H
#define SERVER_CLUSTER_SCENE_H
#include "cluster.h"
#include "stage.h"

/* Keys in one slot; give_keys creates all of them. */
#define NAME "job"
#define QUEUE "queue:{job}"
#define FENCE "fence:{job}"
/* THREE is a script that returns how many of its three keys exist; ONE, whether its only
 * key exists. %s is a blank (at all other blanks the command is split into words). */
#define THREE                                                                            \
    "EVAL return%sredis.call('EXISTS',KEYS[1],KEYS[2],KEYS[3]) 3 " NAME " " QUEUE        \
    " " FENCE
#define ONE "EVAL return%sredis.call('EXISTS',KEYS[1]) 1 " NAME

/* Returns the reply, also the text of an error, "" for nil; valid until the next call. */
const char *answer_of(int node, const char *command);
/* The same after ASKING, in one write. */
const char *answer_if_asking(int node, const char *command);
/* Returns "MOVED 7638 127.0.0.1:7001"; valid until the call after the next. */
const char *redirect(const char *word, int slot, int to);
void assert_begins(const char *text, const char *with);
void give_keys(int node);
/* Returns another one of the three masters. */
int other_than(int master);

#endif
