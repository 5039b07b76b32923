/* SPDX-License-Identifier: MIT */
/* See codes.h. */
#include "codes.h"

#include "lockwire.h"

static int code_of_cause(int cause, int otherwise)
{
    switch (cause) {
    case LW_ECONN:
        return STATUS_NO_SERVER;
    case LW_EREDIS:
        return STATUS_REFUSED;
    case LW_ESYSTEM:
    case LW_ENOMEM:
        return STATUS_SYSTEM;
    default:
        return otherwise;
    }
}

int codes_for(int status, int cause, int busy)
{
    switch (status) {
    case LW_EINVAL:
        return STATUS_USAGE;
    case LW_EBUSY:
    case LW_EDEADLOCK:
        return busy;
    case LW_ETIMEOUT: /* busy until the end, or never asked for with success */
        return code_of_cause(cause, busy);
    case LW_ELOST:
    case LW_ENOTHELD:
        return code_of_cause(cause == LW_EREDIS ? cause : LW_OK, STATUS_LOST);
    case LW_ECONN:
        return code_of_cause(cause, STATUS_NO_SERVER);
    case LW_EREDIS: /* a cluster without the slot, a server that loads ... */
        return code_of_cause(cause, STATUS_REFUSED);
    default:
        return STATUS_SYSTEM;
    }
}
