/* SPDX-License-Identifier: MIT */
/* See server/scene.h. */
#include "server/scene.h"

#include <string.h>

void assert_says(const struct hold *hold, const char *text)
{
    if (strstr(lw_lock_errstr(hold->lock), text) == NULL) {
        stage_fail("errstr of %s: \"%s\" does not say %s", hold->label,
                   lw_lock_errstr(hold->lock), text);
    }
}
