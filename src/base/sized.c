/* SPDX-License-Identifier: MIT */
/* Structs by their size: see sized.h. */
#include "base/sized.h"

#include <string.h>

bool lw__sized_take(void *ret, size_t size, const void *given, size_t given_size)
{
    const unsigned char *bytes = given;

    if (given_size < sizeof(size_t)) {
        return false;
    }
    for (size_t i = size; i < given_size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    memcpy(ret, given, given_size < size ? given_size : size);
    return true;
}

bool lw__sized_give(void *ret, size_t ret_size, const void *from, size_t size)
{
    if (ret_size < sizeof(size_t)) {
        return false;
    }
    if (ret_size > size) {
        memset((char *)ret + size, 0, ret_size - size);
    }
    memcpy(ret, from, ret_size < size ? ret_size : size);
    memcpy(ret, &ret_size, sizeof(ret_size));
    return true;
}
