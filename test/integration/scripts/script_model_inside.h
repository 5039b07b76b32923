/* SPDX-License-Identifier: MIT
 *
 * Functions that the two locks of script_model.h share. */
#ifndef SCRIPT_MODEL_INSIDE_H
#define SCRIPT_MODEL_INSIDE_H

#include "script_model.h"

const struct model_token *model_token_of(const struct model *model, int token);
/* Returns true if the token's client is dead. */
bool model_dead(const struct model *model, int token);
void model_remove_at(struct model_list *list, int i);
/* Inserts the token at the place of its ticket, unless it is in the list; sets the
 * answer's ticket. */
void model_join(struct model *model, struct model_list *list, int token, long long ticket,
                struct model_answer *answer);
/* Returns true if the limit keeps the token out of the list. */
bool model_full(const struct model *model, const struct model_list *list, int token);
/* Appends the event, unless it is a message to a dead client. */
void model_tell(struct model *model, struct model_answer *answer,
                struct model_event event);
/* Initializes an answer. */
void model_begin(struct model_answer *answer, long long ticket);

#endif
