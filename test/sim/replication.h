/* SPDX-License-Identifier: MIT
 *
 * What a master has done and its replica does not know yet. A step is what one command
 * did, a script as a whole: what each key that it touched has become, and what it
 * published. See replication.c.
 */
#ifndef LW_SIM_REPLICATION_H
#define LW_SIM_REPLICATION_H

#include "keyspace.h"

struct step;

struct stream {
    struct step *oldest, *newest; /* under way */
    struct step *open;            /* of the command that runs */
};

/* Of the command that runs: a key that it is about to change, a message. */
void stream_note_key(struct stream *stream, int space, struct bytes name);
void stream_note_message(struct stream *stream, struct bytes channel,
                         struct bytes message, bool of_slot);
void stream_clear(struct stream *stream);

#endif
