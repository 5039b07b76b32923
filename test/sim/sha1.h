/* SPDX-License-Identifier: MIT
 *
 * SHA-1, by which Redis names scripts.
 */
#ifndef LW_SIM_SHA1_H
#define LW_SIM_SHA1_H

#include <stddef.h>

#define SHA1_HEX_SIZE 41

void sha1_hex(const void *data, size_t len, char out[SHA1_HEX_SIZE]);

#endif
