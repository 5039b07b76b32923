/* SPDX-License-Identifier: MIT */
/* See known.h. The scripts are the library's own, embedded once more. */
#include "known.h"

#include "scripts.h"
#include "server.h"

void make_scripts_known(void)
{
    for (int id = 0; id < LW__SCRIPT_COUNT; id++) {
        redis_ok("SCRIPT LOAD %s", lw__scripts[id].text);
    }
}
