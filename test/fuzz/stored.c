/* SPDX-License-Identifier: MIT */
/*
 * Runs a target with stored inputs: every file of the given folders, and for each file
 * its beginnings and a damaged copy. Replaces the fuzzer on machines without it, so that
 * bugs it once found stay fixed. Independent of the target.
 *
 * Usual course: fuzz_reply test/fuzz/corpus/reply: "123 inputs".
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

#define INPUT_MAX 65536

static size_t runs;

static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer knows its end */

    CHECK(exact != NULL);
    if (size) {
        memcpy(exact, data, size);
    }
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    runs++;
}

static void run_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;

    CHECK(file != NULL);
    size = fread(data, 1, sizeof(data), file);
    CHECK(!ferror(file));
    (void)fclose(file);
    run(data, size);
    for (size_t cut = 0; cut < size; cut += 1 + size / 32) {
        run(data, cut);
    }
    for (size_t at = 0; at < size; at += 1 + size / 16) {
        data[at] ^= (uint8_t)(1 + at);
    }
    run(data, size);
}

static size_t run_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];
    size_t files = 0;

    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        run_file(path);
        files++;
    }
    closedir(dir);
    return files;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (run_folder(argv[i]) == 0) {
            (void)fprintf(stderr, "%s: no input is stored there\n", argv[i]);
            return 1;
        }
    }
    (void)printf("%zu inputs\n", runs);
    return argc > 1 ? 0 : 64;
}
