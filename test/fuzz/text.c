/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: texts from callers and people: URLs, names, words and durations. A refusal
 * has a reason, which does not contain the user part of a URL. An accepted text obeys the
 * rules, and the keys of a name are in its slot.
 *
 * Usual course: the input as one string, passed to each of the parsers.
 */
#include "base/duration.h"
#include "fuzz.h"
#include "lockwire.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/url.h"
#include "redis/format.h"
#include "redis/slot.h"

#include <string.h>

#define WHY 160

static void check_list(const struct lw__url *url)
{
    char why[WHY];

    CHECK((url->host_count > 0) == (url->service != NULL || url->cluster || url->quorum));
    CHECK(url->host_count <= LW__URL_HOSTS);
    CHECK(!url->quorum || url->host_count == 3 || url->host_count == 5 ||
          url->host_count == 7);
    CHECK(url->service == NULL ||
          lw__check_word(url->service, "service", why, sizeof(why)) == NULL);
    for (size_t i = 0; i < url->host_count; i++) {
        CHECK(*url->hosts[i].name && strlen(url->hosts[i].name) < LW__HOST_SIZE);
        CHECK(url->hosts[i].port > 0);
    }
}

static void check_url(const char *text)
{
    char why[WHY] = "";
    struct lw__url url = {0};
    int status = lw__url_parse(text, &url, why, sizeof(why));

    CHECK(status == 0 || status == LW_EINVAL);
    if (status == 0) {
        CHECK((url.host != NULL) + (url.path != NULL) + (url.service != NULL) +
                  url.cluster + url.quorum ==
              1);
        CHECK(url.host == NULL || *url.host);
        CHECK(url.path == NULL || *url.path);
        CHECK(url.username == NULL || *url.username);
        CHECK(url.db >= -1);
        CHECK(url.host == NULL || url.port > 0);
        CHECK(url.guard_ms == 0 || url.guard_ms == LW_GUARD_NONE ||
              (url.guard_ms >= LW__GUARD_LEAST_MS && url.guard_ms <= LW__GUARD_MOST_MS));
        check_list(&url);
        lw__url_clear(&url);
    } else {
        CHECK(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
    }
}

/* Parses `text` after a user and password. Returns 0, or the error with its text in
 * `why`. */
static int parse_behind(const char *scheme, const char *user, const char *text, char *why)
{
    char whole[2048];
    struct lw__url url = {0};
    int status;

    why[0] = '\0';
    (void)snprintf(whole, sizeof(whole), "%s://%s@%s", scheme, user, text);
    status = lw__url_parse(whole, &url, why, WHY);
    if (status == 0) {
        lw__url_clear(&url);
    }
    return status;
}

/* The error text of a URL must not depend on the user and password. (It would be wrong to
 * search it for the password: a host may be the same word, with %XX in it.) */
static void check_secret(const char *scheme, const char *text)
{
    char one[WHY], other[WHY];

    if (strlen(text) > 1024) {
        return;
    }
    CHECK(parse_behind(scheme, "user:s3cretw0rd", text, one) ==
          parse_behind(scheme, "name:p4ssphras3", text, other));
    CHECK(strcmp(one, other) == 0);
}

/* Checks that the keys that a script is to write for a name are in the name's slot. */
static void check_slot(const char *name, bool rw)
{
    struct lw__buffer word = {0};
    const char *key;

    lw__format_put_queue(&word, "", name, rw);
    CHECK(!word.failed);
    key = memchr(word.data, '\n', word.length);
    CHECK(key != NULL);
    key++;
    CHECK(lw__slot_of(key, (size_t)(word.data + word.length - key) - strlen("\r\n")) ==
          lw__slot_of(name, strlen(name)));
    lw__buffer_clear(&word);
}

static void check_name(const char *text)
{
    char why[WHY] = "";
    size_t length = strlen(text);

    if (lw__check_name(text, why, sizeof(why)) != NULL) {
        CHECK(why[0] != '\0');
        return;
    }
    CHECK(length >= 1 && length <= 512);
    CHECK(strncmp(text, "lockwire:", 9) != 0);
    for (size_t i = 0; i < length; i++) {
        CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
    }
    check_slot(text, false);
    check_slot(text, true);
}

static void check_word(const char *text)
{
    char why[WHY] = "";
    size_t length = strlen(text);

    if (lw__check_word(text, "owner", why, sizeof(why)) != NULL) {
        CHECK(strstr(why, "owner") != NULL);
        return;
    }
    CHECK(length >= 1 && length <= 128);
    for (size_t i = 0; i < length; i++) {
        CHECK(text[i] > ' ' && text[i] < 0x7f);
    }
}

static void check_duration(const char *text)
{
    char why[WHY] = "";
    int64_t ms = -77;

    if (lw__duration_parse(text, &ms, why, sizeof(why)) == 0) {
        CHECK(ms >= 0 && why[0] == '\0');
    } else {
        CHECK(ms == -77 && why[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    CHECK(text != NULL);
    if (size) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    CHECK(lw__slot_of(text, size) < LW__SLOTS);
    check_url(text);
    check_secret("redis", text);
    check_secret("redis-sentinel", text);
    check_secret("redis-cluster", text);
    check_secret("valkeys", text);
    check_name(text);
    check_word(text);
    check_duration(text);
    free(text);
    return 0;
}
