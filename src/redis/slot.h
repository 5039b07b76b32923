/* SPDX-License-Identifier: MIT */
/* The slots of a cluster: which one a key is in, and what leads to each. Pure. */
#ifndef LW_SLOT_H
#define LW_SLOT_H
#include <stddef.h>

#define LW__SLOTS 16384

/* By the whole key, or by its tag: what stands between its first { and the next }, unless
 * that is nothing. */
unsigned lw__slot_of(const char *key, size_t length);

/* The tag that puts a key of ours into a slot, which is less than LW__SLOTS: 1 to 3
 * digits and letters, the same ones in every version. Its length. */
#define LW__SLOT_TAG_SIZE 4
size_t lw__slot_tag(unsigned slot, char ret[LW__SLOT_TAG_SIZE]);
#endif
