/* SPDX-License-Identifier: MIT */
/* history.h's files, also as text, and the checker: it merges the files, and makes one
 * pass over the records with a table of the present claims. */
#include "history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 64
#define ASKING_MAX 8 /* requests of one client */

struct lane {
    struct record *records;
    size_t count, next;
    int open; /* operations without a result: begun, not ended */
    struct record asking[ASKING_MAX];
};

int64_t history_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void path_of(const char *dir, uint32_t client, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s/history-%u", dir, client);
}

int history_open(const char *dir, uint32_t client)
{
    char path[256];
    int fd;

    path_of(dir, client, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        abort();
    }
    return fd;
}

void history_note(int fd, const struct record *record)
{
    if (write(fd, record, sizeof(*record)) != sizeof(*record)) {
        abort();
    }
}

static void load(const char *dir, uint32_t client, struct lane *lane)
{
    char path[256];
    struct stat about;
    int fd;

    path_of(dir, client, path, sizeof(path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &about) < 0 ||
        (lane->records = malloc((size_t)about.st_size + 1)) == NULL ||
        read(fd, lane->records, (size_t)about.st_size) != about.st_size) {
        abort();
    }
    lane->count = (size_t)about.st_size / sizeof(*lane->records);
    close(fd);
}

static struct record *next_record(struct lane *lanes, uint32_t count)
{
    struct lane *first = NULL;

    for (uint32_t i = 0; i < count; i++) {
        struct lane *lane = &lanes[i];
        if (lane->next < lane->count &&
            (first == NULL ||
             lane->records[lane->next].time_us < first->records[first->next].time_us)) {
            first = lane;
        }
    }
    return first != NULL ? &first->records[first->next++] : NULL;
}

/* ---- as text ---- */

static void print(FILE *file, const char *name, int64_t lease_us,
                  const struct record *record)
{
    static const char *const words[] = {
        [BEGIN] = "begin",      [GRANTED] = "granted", [TOUCHED] = "touched",
        [ENDED] = "ended",      [FAILED] = "failed",   [LOSS_BEGINS] = "loss begins",
        [READS] = "reads",      [READ] = "read",       [LOSS_ENDS] = "loss ends",
        [WRITES] = "writes",    [WRITTEN] = "written", [REFUSED] = "refused",
        [DETACHED] = "detached"};

    (void)fprintf(
        file,
        "{\"time\": %lld, \"lock\": \"%s\", \"client\": %u, \"operation\": %u, "
        "\"what\": \"%s\", \"shared\": %s, \"until\": %lld, \"lease\": %lld, "
        "\"fence\": %llu, \"value\": %u, \"of_client\": %u, \"of_operation\": %u}\n",
        (long long)record->time_us, name, record->client, record->operation,
        words[record->what], record->shared ? "true" : "false",
        (long long)record->until_us, (long long)lease_us,
        (unsigned long long)record->fence, record->value, record->of_client,
        record->of_operation);
}

void history_write(const char *dir, uint32_t count, int64_t lease_us, const char *name,
                   const char *path)
{
    struct lane lanes[CLIENTS_MAX] = {0};
    FILE *file = fopen(path, "w");
    struct record *record;

    if (file == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < count && i < CLIENTS_MAX; i++) {
        load(dir, i, &lanes[i]);
    }
    while ((record = next_record(lanes, count)) != NULL) {
        print(file, name, lease_us, record);
    }
    for (uint32_t i = 0; i < count && i < CLIENTS_MAX; i++) {
        free(lanes[i].records);
    }
    if (fclose(file) != 0) {
        abort();
    }
}

/* ---- one pass over the merged records ---- */

#define CLAIMS_MAX 256 /* holds without a recorded end, also of dead processes */

struct claim {
    struct record grant;
    int64_t until_us; /* as far as known */
    bool superseded;  /* a hold that it excludes was granted, and no loss explains it */
    struct record by; /* the first such hold */
    bool is_detached;
    int64_t adoption_us; /* when its first adoption began */
};

struct check {
    struct verdict verdict;
    struct claim claims[CLAIMS_MAX];
    size_t count;
    uint64_t read_fence, write_fence; /* the largest so far */
    int64_t loss_begin_us, loss_end_us, lease_us;
};

static void found(struct verdict *verdict, const char *what, const struct record *before,
                  const struct record *record)
{
    if (verdict->first[0] == '\0') {
        (void)snprintf(
            verdict->first, sizeof(verdict->first),
            "%s: client %u op %u fence %llu, then client %u op %u fence %llu at %lld",
            what, before->client, before->operation, (unsigned long long)before->fence,
            record->client, record->operation, (unsigned long long)record->fence,
            (long long)record->time_us);
    }
}

/* Returns true if Redis may have granted `one` before the loss, and `other` after it. */
static bool may_straddle(const struct check *check, const struct record *one,
                         const struct record *other)
{
    return one->until_us - check->lease_us < check->loss_end_us &&
           other->time_us > check->loss_begin_us;
}

/* Records a grant that excludes `claim`, whose process may no longer rely on its own
 * hold. */
static void supersede(struct check *check, struct claim *claim,
                      const struct record *record)
{
    bool believes = claim->until_us > record->time_us;

    if (may_straddle(check, &claim->grant, record) ||
        may_straddle(check, record, &claim->grant)) {
        check->verdict.forgiven += believes;
        return;
    }
    if (believes && !claim->superseded) {
        check->verdict.overlaps++;
        found(&check->verdict, "two hold", &claim->grant, record);
    }
    if (!claim->superseded) {
        claim->by = *record;
    }
    claim->superseded = true;
}

/* A grant from before the loss may be recorded after other holds were granted. */
static void fell(struct check *check, uint64_t before, const struct record *record)
{
    if (may_straddle(check, record, record)) {
        check->verdict.excused++;
        return;
    }
    check->verdict.fences++;
    found(&check->verdict, "the fence did not grow", &(struct record){.fence = before},
          record);
}

/* Checks that a fencing token is larger than those of all earlier holds that its hold
 * excludes. A process that did not run between its grant and this record, and so does not
 * rely on the hold, is not checked. */
static void check_fence(struct check *check, const struct record *record)
{
    uint64_t *mine = record->shared ? &check->read_fence : &check->write_fence;
    uint64_t before = check->write_fence;

    if (!record->shared && check->read_fence > before) {
        before = check->read_fence;
    }
    if (record->fence <= before && record->until_us > record->time_us) {
        fell(check, before, record);
    }
    if (record->fence > *mine) {
        *mine = record->fence;
    }
}

static void granted(struct check *check, const struct record *record)
{
    size_t kept = 0;

    check->verdict.grants++;
    check_fence(check, record);
    for (size_t i = 0; i < check->count; i++) {
        struct claim *claim = &check->claims[i];

        if (record->shared && claim->grant.shared) {
            check->verdict.together += claim->until_us > record->time_us;
        } else {
            supersede(check, claim, record);
        }
        /* A claim that ended long ago belongs to a killed process. */
        if (claim->until_us + 100 * check->lease_us > record->time_us) {
            check->claims[kept++] = *claim;
        }
    }
    check->count = kept;
    if (kept == CLAIMS_MAX) {
        abort();
    }
    check->claims[check->count++] = (struct claim){
        .grant = *record, .until_us = record->until_us, .adoption_us = INT64_MAX};
}

static struct claim *find_claim(struct check *check, uint32_t client, uint32_t operation)
{
    for (size_t i = 0; i < check->count; i++) {
        if (check->claims[i].grant.client == client &&
            check->claims[i].grant.operation == operation) {
            return &check->claims[i];
        }
    }
    return NULL;
}

static struct claim *claim_of(struct check *check, const struct record *record)
{
    return find_claim(check, record->client, record->operation);
}

/* Counts an overlap if a process still relies on its hold although another one that it
 * excludes was granted in the meantime. */
static void touched(struct check *check, const struct record *record)
{
    struct claim *claim = claim_of(check, record);

    if (claim == NULL || record->until_us <= record->time_us) {
        return;
    }
    if (claim->superseded) {
        check->verdict.overlaps++;
        found(&check->verdict, "one still holds", &claim->grant, &claim->by);
    }
    claim->until_us = record->until_us;
}

static void ended(struct check *check, const struct record *record)
{
    struct claim *claim = claim_of(check, record);

    if (claim != NULL) {
        *claim = check->claims[--check->count];
    }
}

/* ---- holds that are detached and adopted ---- */

static int64_t earlier_of(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* A detach is recorded at the call, and again when the server has confirmed it. Another
 * hold may have been granted in between. */
static void detached(struct check *check, const struct record *record)
{
    struct claim *claim = claim_of(check, record);

    if (claim == NULL) {
        return;
    }
    check->verdict.detached += !claim->is_detached;
    claim->is_detached = true;
    claim->until_us = earlier_of(record->until_us, claim->adoption_us);
    if (claim->superseded && claim->by.time_us < claim->until_us) {
        check->verdict.overlaps++;
        found(&check->verdict, "it was detached", &claim->grant, &claim->by);
    }
}

/* An adopter that gives up releases the hold if it was granted. */
static void adoption_begun(struct check *check, const struct record *record)
{
    struct claim *claim = find_claim(check, record->of_client, record->of_operation);

    if (claim != NULL) {
        claim->adoption_us = earlier_of(claim->adoption_us, record->time_us);
        claim->until_us = earlier_of(claim->until_us, record->time_us);
    }
}

/* An adopter that did not run since its grant, and no longer relies on the hold, is not
 * checked. */
static void adopted(struct check *check, const struct record *record)
{
    struct claim *claim = find_claim(check, record->of_client, record->of_operation);
    bool believes = record->until_us > record->time_us;
    struct record of = {.client = record->of_client, .operation = record->of_operation};

    check->verdict.adopted++;
    if (believes && (claim == NULL || claim->superseded) &&
        !may_straddle(check, record, record)) {
        check->verdict.overlaps++;
        found(&check->verdict, claim == NULL ? "adopted twice" : "adopted too late",
              claim == NULL ? &of : &claim->by, record);
    }
    if (claim != NULL) {
        *claim = check->claims[--check->count];
    }
}

/* ---- requests and their results ---- */

static void begun(struct lane *lane, const struct record *record)
{
    struct record *place = lane->asking;

    lane->open++;
    while (place < &lane->asking[ASKING_MAX - 1] && place->operation != 0) {
        place++;
    }
    *place = *record;
}

static void answered(struct verdict *verdict, struct lane *lane,
                     const struct record *record)
{
    verdict->repeated += lane->open-- <= 0;
    verdict->failed += record->what == FAILED && record->of_operation == 0;
    for (int i = 0; i < ASKING_MAX; i++) {
        struct record *begin = &lane->asking[i];

        if (begin->operation != record->operation) {
            continue;
        }
        if (record->what == GRANTED &&
            record->time_us - begin->time_us > verdict->longest_wait_us) {
            verdict->longest_wait_us = record->time_us - begin->time_us;
        }
        begin->operation = 0;
    }
}

static void take(struct check *check, struct lane *lane, const struct record *record)
{
    check->verdict.records++;
    if (record->what == BEGIN) {
        begun(lane, record);
        adoption_begun(check, record);
    }
    if (record->what == GRANTED || record->what == FAILED) {
        answered(&check->verdict, lane, record);
    }
    if (record->what == GRANTED) {
        if (record->of_operation != 0) {
            adopted(check, record);
        }
        granted(check, record);
    } else if (record->what == DETACHED) {
        detached(check, record);
    } else if (record->what == TOUCHED) {
        touched(check, record);
    } else if (record->what == ENDED) {
        ended(check, record);
    } else if (record->what == LOSS_BEGINS) {
        check->loss_begin_us = record->time_us, check->loss_end_us = INT64_MAX;
    } else if (record->what == LOSS_ENDS) {
        check->loss_end_us = record->time_us;
    }
}

/* ---- all fencing tokens together ---- */

static int compare(const void *one, const void *other)
{
    uint64_t a = ((const struct record *)one)->fence,
             b = ((const struct record *)other)->fence;

    return a < b ? -1 : a > b;
}

static bool has_number(const struct record *record)
{
    return record->what == GRANTED && record->fence != 0;
}

/* Finds repeated fencing tokens, also among readers, whose tokens check_fence does not
 * order. */
static void check_numbers(struct verdict *verdict, const struct lane *lanes,
                          uint32_t count)
{
    struct record *grants = calloc(verdict->grants + 1, sizeof(*grants));
    size_t used = 0;

    if (grants == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < count; i++) {
        for (size_t j = 0; j < lanes[i].count; j++) {
            if (has_number(&lanes[i].records[j])) {
                grants[used++] = lanes[i].records[j];
            }
        }
    }
    qsort(grants, used, sizeof(*grants), compare);
    for (size_t i = 1; i < used; i++) {
        if (grants[i - 1].fence != grants[i].fence) {
            continue;
        }
        verdict->doubled++;
        found(verdict, "a number was given twice", &grants[i - 1], &grants[i]);
    }
    free(grants);
}

struct verdict history_check(const char *dir, uint32_t count, int64_t lease_us)
{
    static struct lane lanes[CLIENTS_MAX];
    static struct check check;
    struct record *record;

    memset(lanes, 0, sizeof(lanes));
    check = (struct check){
        .lease_us = lease_us, .loss_begin_us = INT64_MAX, .loss_end_us = INT64_MIN};
    for (uint32_t i = 0; i < count && i < CLIENTS_MAX; i++) {
        load(dir, i, &lanes[i]);
    }
    while ((record = next_record(lanes, count)) != NULL) {
        take(&check, &lanes[record->client], record);
    }
    check_numbers(&check.verdict, lanes, count);
    for (uint32_t i = 0; i < count && i < CLIENTS_MAX; i++) {
        free(lanes[i].records);
    }
    return check.verdict;
}
