/* SPDX-License-Identifier: MIT */
/* Small things that every module may use: ids and random numbers (id.c), a keyed hash
 * (hash.c), the operator's log (log.c), whether the process was forked (forked.c). */
#ifndef LW_BASE_H
#define LW_BASE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* id.c: up to 256 bytes of the system's randomness (getrandom(2), where there is Linux);
 * the host's own generators are left alone. false: the system has none to give. */
bool lw__random_bytes(void *ret, size_t size);
/* A random UUID as 36 characters of text and a NUL. false: see above. */
#define LW__UUID_SIZE 37
bool lw__uuid(char ret[LW__UUID_SIZE]);
/* A small seeded generator (xorshift64*, Vigna 2014) for jitter only, never for
 * identity. */
struct lw__random {
    uint64_t state;
};
void lw__random_seed(struct lw__random *random, uint64_t seed);
/* A number in [low, high]. */
int64_t lw__random_between(struct lw__random *random, int64_t low, int64_t high);

/* hash.c: SipHash-1-3. Who does not know the key cannot choose texts that collide. */
struct lw__hash_key {
    uint64_t half[2];
};
uint64_t lw__hash(const struct lw__hash_key *key, const char *text, size_t length);

/* forked.c: a mark of this process; in its children it says so. */
struct lw__fork_mark {
    pid_t pid;
    volatile char *page; /* 1; 0 in a child. NULL: the pid tells */
};
void lw__fork_mark_set(struct lw__fork_mark *mark);
bool lw__fork_mark_is_childs(const struct lw__fork_mark *mark);
void lw__fork_mark_drop(struct lw__fork_mark *mark);

/* log.c: formats into a local buffer (no allocation, no stdio streams) and calls the
 * host's function if `level` is urgent enough. */
struct lw__log {
    void (*fn)(int level, const char *message, void *arg);
    int level;
    void *arg;
};
void lw__log(const struct lw__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
