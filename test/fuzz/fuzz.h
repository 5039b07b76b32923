/* SPDX-License-Identifier: MIT */
/*
 * The entry point of a fuzz target, and what its body may use: a cursor that takes
 * numbers from the input, and a check that ends the process, which the fuzzer and
 * stored.c both notice. Independent of the target.
 *
 * Usual course: LLVMFuzzerTestOneInput takes a few numbers, feeds the rest, CHECKs.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                 \
    ((condition) ? (void)0                                                               \
                 : ((void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,     \
                                  #condition),                                           \
                    abort()))

struct input {
    const uint8_t *data;
    size_t left;
};

/* Returns the next number of so many bytes; zeros after the end of the input. */
static inline uint64_t input_number(struct input *input, unsigned bytes)
{
    uint64_t number = 0;

    for (; bytes > 0; bytes--) {
        number = number << 8;
        if (input->left > 0) {
            number |= *input->data++;
            input->left--;
        }
    }
    return number;
}
#endif
