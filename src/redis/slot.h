/* SPDX-License-Identifier: MIT */
/* The slots of a cluster: the one that a key is in, and a tag for each. Pure functions.
 */
#ifndef LW_SLOT_H
#define LW_SLOT_H
#include <stddef.h>

#define LW__SLOTS 16384

/* Returns the slot of a key. It is that of the whole key, or of its tag: the text between
 * the first { and the next }, unless it is empty. */
unsigned lw__slot_of(const char *key, size_t length);

/* Writes the tag that puts a key of ours into `slot`, which must be less than LW__SLOTS,
 * and returns its length. It has 1 to 3 digits and letters, and is the same in every
 * version. */
#define LW__SLOT_TAG_SIZE 4
size_t lw__slot_tag(unsigned slot, char ret[LW__SLOT_TAG_SIZE]);
#endif
