/* SPDX-License-Identifier: MIT */
/* secret.h's secrets. */
#include "secret.h"

#include "stage.h"

#include <stdio.h>
#include <string.h>

#define HIDDEN_BY 0x55
#define HIDDEN                                                                           \
    {                                                                                    \
        {0x39, 0x3a, 0x36, 0x3e, 0x22, 0x3c, 0x27, 0x30, 0x78, 0x22, 0x3c,               \
         0x25, 0x30, 0x31, 0x78, 0x26, 0x30, 0x36, 0x27, 0x30, 0x21, 0x78,               \
         0x65, 0x64, 0x67, 0x66, 0x61, 0x60, 0x63, 0x62, 0x6d, 0x6c},                    \
            32                                                                           \
    }

const struct secret_password secret_passwords[SECRET_PASSWORDS] = {
    {HIDDEN, 0, "cadd75ec319155a2d1487213e6bb609d816095e69a7529e3488e17ed5e1bee2f"},
    {HIDDEN, 4000, "73cb4288c2ddd1995cbd2aad0160a1fc9b6d23e99150d5bf9e833d11fd1fa082"},
};

void secret_give(const struct secret_password *password, char *ret)
{
    volatile char *at = ret + password->before;

    memset(ret, 'x', password->before);
    for (size_t i = 0; i < password->secret.length; i++) {
        at[i] = (char)(password->secret.hidden[i] ^ HIDDEN_BY);
    }
}

void secret_take(struct secret *ret, char *bytes, size_t length)
{
    assert_true(length <= sizeof(ret->hidden));
    ret->length = length;
    for (size_t i = 0; i < length; i++) {
        ret->hidden[i] = (unsigned char)((unsigned char)bytes[i] ^ HIDDEN_BY);
    }
    explicit_bzero(bytes, length);
}

bool secret_can_look(void)
{
    const char *preloaded = getenv("LD_PRELOAD");

#ifdef __SANITIZE_ADDRESS__
    return false;
#endif
    return preloaded == NULL || strstr(preloaded, "vgpreload") == NULL;
}

static bool is_it(const struct secret *secret, const volatile unsigned char *at)
{
    for (size_t i = 0; i < secret->length; i++) {
        if ((at[i] ^ HIDDEN_BY) != secret->hidden[i]) {
            return false;
        }
    }
    return true;
}

int secret_copies(const struct secret *secret)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    unsigned long from, to;
    int count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 ||
            strcmp(rights, "rw-p") != 0) {
            continue;
        }
        for (; from + secret->length <= to; from++) {
            /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
            count += is_it(secret, (const volatile unsigned char *)from);
        }
    }
    (void)fclose(maps);
    return count;
}
