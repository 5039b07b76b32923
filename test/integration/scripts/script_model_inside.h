/* SPDX-License-Identifier: MIT
 *
 * What the two locks of script_model.h share. */
#ifndef SCRIPT_MODEL_INSIDE_H
#define SCRIPT_MODEL_INSIDE_H

#include "script_model.h"

const struct model_token *model_token_of(const struct model *model, int token);
/* Its client is. */
bool model_dead(const struct model *model, int token);
void model_remove_at(struct model_list *list, int i);
/* At the place of its ticket, unless it is in there; the answer says which ticket. */
void model_join(struct model *model, struct model_list *list, int token, long long ticket,
                struct model_answer *answer);
/* Returns true if the limit keeps the token out of the list. */
bool model_full(const struct model *model, const struct model_list *list, int token);
/* The dead are told nothing. */
void model_tell(struct model *model, struct model_answer *answer,
                struct model_event event);
/* An answer that says nothing yet. */
void model_begin(struct model_answer *answer, long long ticket);

#endif
