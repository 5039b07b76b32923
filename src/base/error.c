/* SPDX-License-Identifier: MIT */
/* The texts of the library's results, and its version. Knows nothing but the public
 * header. */
#include "lockwire.h"

const char *lw_strerror(int error)
{
    switch (error) {
#define LW_ERROR_CASE(name, value, text)                                                 \
    case value:                                                                          \
        return text;
        LW_ERROR_MAP(LW_ERROR_CASE)
#undef LW_ERROR_CASE
    default:
        return "unknown error";
    }
}

const char *lw_version(void)
{
    return LW_VERSION;
}
