/* SPDX-License-Identifier: MIT
 *
 * The writes of a master that its replica does not have yet. A step is the effect of one
 * command, or of one script as a whole: the new content of each key, and the messages
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

/* Record, for the running command, a key that is about to change, or a message. */
void stream_note_key(struct stream *stream, int space, struct bytes name);
void stream_note_message(struct stream *stream, struct bytes channel,
                         struct bytes message, bool of_slot);
void stream_clear(struct stream *stream);

#endif
