/* SPDX-License-Identifier: MIT */
/*
 * Texts that shall not stay in memory: keeps each of them in another form, so that it is
 * not itself what is found, and looks for it in all that this process can write. Must not
 * know who has it.
 *
 * Happy path: secret_give where a password is asked for, secret_copies.
 */
#ifndef TEST_SECRET_H
#define TEST_SECRET_H
#include <stdbool.h>
#include <stddef.h>

struct secret {
    unsigned char hidden[64];
    size_t length;
};

/* Of a short password, and of one with so much before the secret, which is its end, that
 * what is sent later does not cover it up. */
struct secret_password {
    struct secret secret;
    size_t before;
    const char *sha256;
};
#define SECRET_PASSWORDS 2
extern const struct secret_password secret_passwords[SECRET_PASSWORDS];

void secret_give(const struct secret_password *password, char *ret);
/* Takes these bytes, of which nothing is left here. */
void secret_take(struct secret *ret, char *bytes, size_t length);
/* False under a sanitizer or valgrind: their own memory is too much to look through, or
 * must not be. */
bool secret_can_look(void);
/* How often it stands in memory. */
int secret_copies(const struct secret *secret);

#endif
