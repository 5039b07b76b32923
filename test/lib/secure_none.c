/* SPDX-License-Identifier: MIT */
/* secure.h in a build without TLS: it is never wanted, and never made. */
#include "secure.h"

#include <stdlib.h>

bool secure_wanted(void)
{
    return false;
}

struct secure *secure_new(const char *certificate)
{
    (void)certificate;
    abort();
}

void secure_free(struct secure *secure)
{
    (void)secure;
}

void secure_feed(struct secure *secure, const char *bytes, size_t length)
{
    (void)secure, (void)bytes, (void)length;
}

ssize_t secure_take(struct secure *secure, char *bytes, size_t size)
{
    (void)secure, (void)bytes, (void)size;
    return 0;
}

bool secure_ready(const struct secure *secure)
{
    (void)secure;
    return true;
}

void secure_put(struct secure *secure, const char *bytes, size_t length)
{
    (void)secure, (void)bytes, (void)length;
}

void secure_put_end(struct secure *secure)
{
    (void)secure;
}

size_t secure_fetch(struct secure *secure, char *bytes, size_t size)
{
    (void)secure, (void)bytes, (void)size;
    return 0;
}
