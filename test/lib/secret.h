/* SPDX-License-Identifier: MIT */
/*
 * Texts that must not stay in memory. Stores each of them in another form, so that a
 * search does not find this copy, and searches all memory that this process can write.
 * Independent of who has the text.
 *
 * Usual course: secret_give when a password is requested, then secret_copies.
 */
#ifndef TEST_SECRET_H
#define TEST_SECRET_H
#include <stdbool.h>
#include <stddef.h>

struct secret {
    unsigned char hidden[64];
    size_t length;
};

/* A short password, and one that ends in the secret, with so much before it that data
 * sent later does not overwrite it. */
struct secret_password {
    struct secret secret;
    size_t before;
    const char *sha256;
};
#define SECRET_PASSWORDS 2
extern const struct secret_password secret_passwords[SECRET_PASSWORDS];

void secret_give(const struct secret_password *password, char *ret);
/* Takes these bytes, and wipes the buffer. */
void secret_take(struct secret *ret, char *bytes, size_t length);
/* Returns false under a sanitizer or valgrind: their own memory is too large to search,
 * or must not be read. */
bool secret_can_look(void);
/* Returns how many copies are in memory. */
int secret_copies(const struct secret *secret);

#endif
