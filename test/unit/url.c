/* SPDX-License-Identifier: MIT */
/*
 * URLs, names and words: which are accepted, which are refused, and how that is
 * explained. Also the other small texts of the library: errors, log, ids. Depends only on
 * their headers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/url.h"
#include "lockwire.h"

#include <stdio.h>
#include <string.h>

struct good {
    const char *text;
    struct lw__url url;
};

#define ONE(host_, path_, username_, password_, port_, db_, tls_)                        \
    {                                                                                    \
        .host = host_, .path = path_, .username = username_, .password = password_,      \
        .port = port_, .db = db_, .tls = tls_                                            \
    }
#define GUARDED(host_, path_, db_, guard_ms_)                                            \
    {                                                                                    \
        .host = host_, .path = path_, .port = (host_) != NULL ? 6379 : 0, .db = db_,     \
        .guard_ms = guard_ms_                                                            \
    }

static void assert_text(const char *got, const char *wanted)
{
    if (wanted == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, wanted);
    }
}

static void test_good_urls(void **state)
{
    static const struct good cases[] = {
        {"redis://h", ONE("h", NULL, NULL, NULL, 6379, -1, false)},
        {"REDIS://Host.example", ONE("Host.example", NULL, NULL, NULL, 6379, -1, false)},
        {"redis://h/", ONE("h", NULL, NULL, NULL, 6379, -1, false)},
        {"redis://h/0", ONE("h", NULL, NULL, NULL, 6379, 0, false)},
        {"redis://h:1/15", ONE("h", NULL, NULL, NULL, 1, 15, false)},
        {"redis://h:65535/2147483647",
         ONE("h", NULL, NULL, NULL, 65535, 2147483647, false)},
        {"redis://:pw@h", ONE("h", NULL, NULL, "pw", 6379, -1, false)},
        {"redis://:a:b@h", ONE("h", NULL, NULL, "a:b", 6379, -1, false)},
        {"redis://:a@b@h", ONE("h", NULL, NULL, "a@b", 6379, -1, false)},
        {"redis://u:pw@h:7/1", ONE("h", NULL, "u", "pw", 7, 1, false)},
        {"redis://u:@h", ONE("h", NULL, "u", "", 6379, -1, false)},
        {"redis://:@h", ONE("h", NULL, NULL, NULL, 6379, -1, false)},
        {"redis://u@h", ONE("h", NULL, "u", NULL, 6379, -1, false)},
        {"redis://u%3A@h:7/1", ONE("h", NULL, "u:", NULL, 7, 1, false)},
        {"redis://us%40er:p%2Fw%3f@h", ONE("h", NULL, "us@er", "p/w?", 6379, -1, false)},
        {"redis://127.0.0.1:6380", ONE("127.0.0.1", NULL, NULL, NULL, 6380, -1, false)},
        {"redis://[::1]", ONE("::1", NULL, NULL, NULL, 6379, -1, false)},
        {"redis://[fe80::1%25eth0]:7/2",
         ONE("fe80::1%eth0", NULL, NULL, NULL, 7, 2, false)},
        {"rediss://u:pw@h/3", ONE("h", NULL, "u", "pw", 6379, 3, true)},
        {"RedisS://[::1]:6380", ONE("::1", NULL, NULL, NULL, 6380, -1, true)},
        {"valkey://u:pw@h:7/1", ONE("h", NULL, "u", "pw", 7, 1, false)},
        {"Valkeys://h", ONE("h", NULL, NULL, NULL, 6379, -1, true)},
        {"unix:///run/r.sock", ONE(NULL, "/run/r.sock", NULL, NULL, 0, -1, false)},
        {"unix:///a%20b%3fc?db=3", ONE(NULL, "/a b?c", NULL, NULL, 0, 3, false)},
        {"redis://h?guard=15s", GUARDED("h", NULL, -1, 15000)},
        {"redis://h/?guard=600", GUARDED("h", NULL, -1, 600000)},
        {"redis://h/7?guard=0.5m", GUARDED("h", NULL, 7, 30000)},
        {"redis://h?guard=none", GUARDED("h", NULL, -1, LW_GUARD_NONE)},
        {"unix:///p?guard=45000ms", GUARDED(NULL, "/p", -1, 45000)},
        {"unix:///p?guard=15s&db=3", GUARDED(NULL, "/p", 3, 15000)},
        {"unix:///p?db=3&guard=none", GUARDED(NULL, "/p", 3, LW_GUARD_NONE)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[160] = "";
        struct lw__url url;
        int status = lw__url_parse(cases[i].text, &url, why, sizeof(why));
        if (status != 0) {
            fail_msg("%s: %s", cases[i].text, why);
        }
        assert_text(url.host, cases[i].url.host);
        assert_text(url.path, cases[i].url.path);
        assert_text(url.username, cases[i].url.username);
        assert_text(url.password, cases[i].url.password);
        assert_int_equal(url.port, cases[i].url.port);
        assert_int_equal(url.db, cases[i].url.db);
        assert_int_equal(url.tls, cases[i].url.tls);
        assert_int_equal(url.guard_ms, cases[i].url.guard_ms);
        lw__url_clear(&url);
        assert_null(url.host);
    }
}

/* The hosts as "a:1 b:2"; "~" before a part that is absent. */
static const char *const good_lists[][2] = {
    {"redis-cluster://h", "h:6379 / ~service ~user ~password db -1 plain"},
    {"redis-cluster://h?guard=15s",
     "h:6379 / ~service ~user ~password db -1 plain guard 15000"},
    {"redis-cluster://h1,h2/3?guard=20s",
     "h1:6379 h2:6379 / ~service ~user ~password db 3 plain guard 20000"},
    {"redis-sentinel://h/s?guard=1m",
     "h:26379 / s ~user ~password db -1 plain guard 60000"},
    {"redis-sentinel://h/s/?guard=1m",
     "h:26379 / s ~user ~password db -1 plain guard 60000"},
    {"redis-sentinel://u:p@h/s/2?guard=none",
     "h:26379 / s u p db 2 plain guard 4294967295"},
    {"redis-quorum://a,b,c?guard=15s",
     "a:6379 b:6379 c:6379 / ~service ~user ~password db -1 plain guard 15000"},
    {"redis-cluster://h1,h2/3", "h1:6379 h2:6379 / ~service ~user ~password db 3 plain"},
    {"valkeys-cluster://h/0", "h:6379 / ~service ~user ~password db 0 tls"},
    {"Redis-Cluster://h1,h2:7,[::1]/",
     "h1:6379 h2:7 ::1:6379 / ~service ~user ~password db -1 plain"},
    {"rediss-cluster://u:p%2Cw@[fe80::1%25e]:65535,h",
     "fe80::1%e:65535 h:6379 / ~service u p,w db -1 tls"},
    {"valkey-cluster://h1,h2:7", "h1:6379 h2:7 / ~service ~user ~password db -1 plain"},
    {"valkeys-cluster://h", "h:6379 / ~service ~user ~password db -1 tls"},
    {"valkey-sentinel://h1,h2:7/s/3", "h1:26379 h2:7 / s ~user ~password db 3 plain"},
    {"valkeys-sentinel://h/s", "h:26379 / s ~user ~password db -1 tls"},
    {"redis-cluster://:a,b@c", "c:6379 / ~service ~user a,b db -1 plain"},
    {"redis-sentinel://h/s", "h:26379 / s ~user ~password db -1 plain"},
    {"REDIS-Sentinel://h1,h2:7,h3/my.master-1_x/",
     "h1:26379 h2:7 h3:26379 / my.master-1_x ~user ~password db -1 plain"},
    {"redis-sentinel://h/s/0", "h:26379 / s ~user ~password db 0 plain"},
    {"redis-sentinel://h/3", "h:26379 / 3 ~user ~password db -1 plain"},
    {"rediss-sentinel://u:p%2Cw@[::1]:1,[fe80::1%25e],127.0.0.1:65535/a%2Fb/15",
     "::1:1 fe80::1%e:26379 127.0.0.1:65535 / a/b u p,w db 15 tls"},
    {"redis-sentinel://:a,b@c/s", "c:26379 / s ~user a,b db -1 plain"},
    {"redis-cluster://h?prefix=%7Bteam%7D:&guard=none",
     "h:6379 / ~service ~user ~password db -1 plain guard 4294967295 prefix {team}:"},
    {"redis-sentinel://h/s?guard=1m&prefix=team:",
     "h:26379 / s ~user ~password db -1 plain guard 60000 prefix team:"},
    {"redis-quorum://h1,h2:7,[::1]",
     "h1:6379 h2:7 ::1:6379 / ~service ~user ~password db -1 plain"},
    {"Redis-Quorum://a,b,c,d,e,f,g/",
     "a:6379 b:6379 c:6379 d:6379 e:6379 f:6379 g:6379 / ~service ~user ~password db -1 "
     "plain"},
    {"rediss-quorum://u:p%2Cw@h,h:1,h:2,h:3,h:4/15",
     "h:6379 h:1 h:2 h:3 h:4 / ~service u p,w db 15 tls"},
    {"redis-sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16/s",
     "1:26379 2:26379 3:26379 4:26379 5:26379 6:26379 7:26379 8:26379 9:26379 10:26379 "
     "11:26379 12:26379 13:26379 14:26379 15:26379 16:26379 / s ~user ~password db -1 "
     "plain"},
};

static void describe(const struct lw__url *url, char *text, size_t size)
{
    size_t length = 0;

    for (size_t i = 0; i < url->host_count; i++) {
        length += (size_t)snprintf(text + length, size - length, "%s:%u ",
                                   url->hosts[i].name, (unsigned)url->hosts[i].port);
    }
    (void)snprintf(text + length, size - length, "/ %s %s %s db %d %s",
                   url->service != NULL ? url->service : "~service",
                   url->username != NULL ? url->username : "~user",
                   url->password != NULL ? url->password : "~password", url->db,
                   url->tls ? "tls" : "plain");
    length = strlen(text);
    if (url->guard_ms != 0) {
        (void)snprintf(text + length, size - length, " guard %lu",
                       (unsigned long)url->guard_ms);
    }
    length = strlen(text);
    if (url->prefix != NULL) {
        (void)snprintf(text + length, size - length, " prefix %s", url->prefix);
    }
}

static void test_good_lists_of_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good_lists) / sizeof(*good_lists); i++) {
        char why[160] = "", text[512];
        struct lw__url url;

        if (lw__url_parse(good_lists[i][0], &url, why, sizeof(why)) != 0) {
            fail_msg("%s: %s", good_lists[i][0], why);
        }
        assert_null(url.host);
        assert_null(url.path);
        assert_int_equal(url.cluster + url.quorum, url.service == NULL);
        assert_int_equal(url.quorum, strcasestr(good_lists[i][0], "quorum") != NULL);
        describe(&url, text, sizeof(text));
        assert_string_equal(text, good_lists[i][1]);
        lw__url_clear(&url);
        assert_null(url.service);
        assert_int_equal(url.host_count, 0);
    }
}

/* Each with a part of its explanation. */
static const char *const bad_urls[][2] = {
    {NULL, "NULL"},
    {"", "must begin with redis://, redis-sentinel://, redis-cluster:// or "
         "redis-quorum:// (rediss for TLS, the same with valkey), or unix://"},
    {"localhost", "must begin with"},
    {"http://h", "must begin with"},
    {"redis:/h", "must begin with"},
    {"valkey:/h", "must begin with"},
    {"valkeyss://h", "must begin with"},
    {"valkey-unix:///h", "must begin with"},
    {"valkey://redis://h", "\"://\" occurs twice"},
    {"valkey://h/x", "database \"x\""},
    {"valkey-sentinel://h", "the service is missing"},
    {"valkeys-cluster://h/x", "database \"x\""},
    {"redis://", "host is missing"},
    {"redis://:6379", "host is missing"},
    {"redis://h:70000", "port \"70000\" is not between 1 and 65535"},
    {"redis://h:0", "port \"0\""},
    {"redis://h:", "port \"\""},
    {"redis://h:+1", "port \"+1\""},
    {"redis://h:99999999999999999999", "port \"9999"},
    {"redis://h/x", "database \"x\" is not a number from 0 to 2147483647"},
    {"redis://h/-1", "database \"-1\""},
    {"redis://h/2147483648", "database \"2147483648\""},
    {"redis://h/1/2", "database \"1/2\""},
    {"redis://h?db=1", "only one \"?guard=\" with a time or \"none\", and one "
                       "\"?prefix=\", may follow the host "},
    {"redis://h/1#x", "only one \"?guard=\""},
    {"redis://h1,h2", "byte 0x2c at position 3 of host \"h1,h2\""},
    {"redis://redis://h", "\"://\" occurs twice"},
    {"redis://h\n", "byte 0x0a at position 2 of host \"h\\x0a\" is not allowed"},
    {"redis://h:6379\r\n", "port \"6379\\x0d\\x0a\" is not between"},
    {"redis://h/1\n", "database \"1\\x0a\" is not a number"},
    {"redis://h?guard=15s\n", "guard \"15s\\x0a\" is neither"},
    {"redis://h h", "byte 0x20 at position 2"},
    {"redis://h%zz", "host: the \"%\" at byte 2"},
    {"redis://h%-0", "host: the \"%\" at byte 2"},
    {"redis://h%0g", "host: the \"%\" at byte 2"},
    {"redis://h%0", "host: the \"%\" at byte 2"},
    {"redis://[::1", "\"]\""},
    {"redis://[::1]x", "only \":\" and a port may follow"},
    {"redis://[localhost]", "is not an IPv6 address"},
    {"redis://[]", "host is missing"},
    {"redis://@h", "the user is missing before the \"@\""},
    {"redis://u%zz@h", "user: the \"%\" at byte 2"},
    {"redis://u%zz:p@h", "user: the \"%\" at byte 2"},
    {"redis://hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
     "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
     "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
     "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh",
     "longer than 253 bytes"},
    {"redis://[1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24:25]",
     "is not an IPv6 address"},
    {"redis://h/12345678901234567890123456789012345678901234567890",
     "database \"1234567890123456789012345678901234567890\" is not"},
    {"redis-sentinel://", "the host is missing"},
    {"redis-sentinel:///s", "the host is missing"},
    {"redis-sentinel://h", "the service is missing"},
    {"redis-sentinel://h1,h2/", "the service is missing"},
    {"redis-sentinel://h//1", "the service is missing"},
    {"redis-sentinel://h/a b", "service: byte 0x20 at position 2"},
    {"redis-sentinel://h/a%20b", "service: byte 0x20 at position 2"},
    {"redis-sentinel://h/a%zzb", "service: the \"%\" at byte 2"},
    {"redis-sentinel://h/s/x", "database \"x\" is not a number"},
    {"redis-sentinel://h/s/1/2", "database \"1/2\" is not a number"},
    {"redis-sentinel://h/s?db=1", "only one \"?guard=\""},
    {"redis-sentinel://h1,,h3/s", "host 2 of the list: the host is missing"},
    {"redis-sentinel://h1,/s", "host 2 of the list: the host is missing"},
    {"redis-sentinel://,h2/s", "host 1 of the list: the host is missing"},
    {"redis-sentinel://h:0/s", "port \"0\" is not between 1 and 65535"},
    {"redis-sentinel://h1,h2:65536/s", "host 2 of the list: port \"65536\" is not"},
    {"redis-sentinel://h1,[::1/s", "host 2 of the list: the \"]\" after"},
    {"redis-sentinel://h1,::1/s", "host 2 of the list: the host is missing"},
    {"redis-sentinel://h1,[h2]/s", "host 2 of the list: host \"[h2]\" is not an IPv6"},
    {"redis-sentinel://h1, h2/s", "host 2 of the list: byte 0x20 at position 1"},
    {"redis-sentinel://h1;h2/s", "byte 0x3b at position 3 of host \"h1;h2\""},
    {"redis-sentinel://redis://h/s", "\"://\" occurs twice"},
    {"redis-sentinel://h1,redis-sentinel://h2/s", "\"://\" occurs twice"},
    {"redis-sentinel+tls://h/s", "must begin with"},
    {"redis-sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/s",
     "more than 16 hosts"},
    {"redis-cluster://", "the host is missing"},
    {"redis-cluster:///", "the host is missing"},
    {"redis-cluster://h1,h2/s", "database \"s\" is not a number"},
    {"rediss-cluster://h//", "database \"/\" is not a number"},
    {"redis-cluster://h?db=1", "only one \"?guard=\""},
    {"redis-cluster://h1,,h3", "host 2 of the list: the host is missing"},
    {"redis-cluster://h1,h2:0", "host 2 of the list: port \"0\" is not"},
    {"redis-cluster://h1,redis-cluster://h2", "\"://\" occurs twice"},
    {"redis-cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16 hosts"},
    {"redis-clusters://h", "must begin with"},
    {"redis-quorum://", "the host is missing"},
    {"redis-quorum://h", "a quorum has 3, 5 or 7 servers; 1 is listed"},
    {"redis-quorum://h1,h2", "a quorum has 3, 5 or 7 servers; 2 are listed"},
    {"redis-quorum://h1,h2,h3,h4", "a quorum has 3, 5 or 7 servers; 4 are listed"},
    {"redis-quorum://1,2,3,4,5,6,7,8,9", "a quorum has 3, 5 or 7 servers; 9 are listed"},
    {"redis-quorum://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16 hosts"},
    {"redis-quorum://h1,h2,H1:6379", "host 3 of the list is the same as host 1: h1:6379"},
    {"redis-quorum://h1:7,[::1]:7,a,b,[::1]:7",
     "host 5 of the list is the same as host 2: ::1:7"},
    {"redis-quorum://h1,,h3", "host 2 of the list: the host is missing"},
    {"redis-quorum://h1,h2,h3/s", "database \"s\" is not a number"},
    {"redis-quorum://h1/0,h2/1,h3/2", "a quorum has 3, 5 or 7 servers; 1 is listed"},
    {"redis-quorum://h1,h2,h3?db=1",
     "only one \"?guard=\" with a time or \"none\", and one \"?prefix=\", may follow the "
     "hosts or database"},
    {"redis://h?guard=", "guard \"\" is neither \"none\" nor a time between 15s and 10m"},
    {"redis://h?guard=14999ms", "guard \"14999ms\" is neither"},
    {"redis://h?guard=10.001m", "guard \"10.001m\" is neither"},
    {"redis://h?guard=15s/3", "guard \"15s/3\" is neither"},
    {"redis://h?guard=None", "guard \"None\" is neither"},
    {"redis://h?prefix=a&prefix=a", "only one \"?guard=\""},
    {"redis://h?prefix=%0", "prefix: the \"%\" at byte 1"},
    {"redis://h?guard=15s&guard=15s", "only one \"?guard=\""},
    {"redis://h?guard=15s#x", "only one \"?guard=\""},
    {"redis://h&guard=15s", "byte 0x26"},
    {"redis://h#guard=15s", "only one \"?guard=\""},
    {"redis://h?Guard=15s", "only one \"?guard=\""},
    {"redis-sentinel://h?guard=15s", "the service is missing"},
    {"unix:///p?db=1?guard=15s", "database \"1?guard=15s\" is not a number"},
    {"unix:///p?db=1&db=2", "only \"?db=\" with a number, one \"?guard=\""},
    {"redis-quorum://unix:///a,h2,h3", "\"://\" occurs twice"},
    {"unix://", "path after unix:// must begin"},
    {"unix://host/path", "path after unix:// must begin"},
    {"unix:///p?database=1", "only \"?db=\" with a number, one \"?guard=\""},
    {"unix:///p?db=", "database \"\""},
    {"unix:///p#x", "only \"?db=\" with a number, one \"?guard=\""},
    {"unix:///%00", "path: the \"%\" at byte 2"},
    {"unix:///"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaa"
     "aaaaaaaaaaaaaaaaaaaaaa",
     "the path has 107 bytes; a unix socket allows at most 106"},
};

static void test_bad_urls_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_urls) / sizeof(bad_urls[0]); i++) {
        char why[160] = "";
        struct lw__url url = {0};
        assert_int_equal(lw__url_parse(bad_urls[i][0], &url, why, sizeof(why)),
                         LW_EINVAL);
        if (strstr(why, bad_urls[i][1]) == NULL) {
            fail_msg("%s: \"%s\" does not say \"%s\"", bad_urls[i][0], why,
                     bad_urls[i][1]);
        }
        assert_null(url.host);
        assert_null(url.service);
        assert_null(url.password);
    }
}

static void test_no_explanation_shows_a_password(void **state)
{
    static const char *const cases[] = {
        "redis://:se/cret@h",
        "redis://se#cret@h",
        "redis://u:se%cret@h",
        "redis://u:secret@",
        "redis://:secret@h:x",
        "redis://:secret@h/secret@",
        "redis://:sec?ret@h",
        "unix://:secret@/p",
        "unix:///p?password=secret",
        "redis://:secret@h,i",
        "rediss://:secret@h:x",
        "redis://:secret@[::1",
        "redis-sentinel://:secret@h1,h2",
        "redis-sentinel://:se,cret@h1,,h2/s",
        "redis-sentinel://se://cret@h1/s",
        "redis-sentinel://u:secret@h/s@x",
        "redis-cluster://:secret@h1,,h2",
        "redis-cluster://u:secret@h1/secret@x",
        "redis-quorum://u:secret@h1,h2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[160] = "";
        struct lw__url url;
        assert_int_equal(lw__url_parse(cases[i], &url, why, sizeof(why)), LW_EINVAL);
        assert_true(strlen(why) > 0);
        assert_null(strstr(why, "sec"));
        assert_null(strstr(why, "cret"));
    }
}

static void test_explanations_fit_any_buffer(void **state)
{
    struct lw__url url;
    char why[4] = "abc";

    (void)state;
    assert_int_equal(lw__url_parse("x", &url, NULL, 0), LW_EINVAL);
    assert_int_equal(lw__url_parse("x", &url, why, 4), LW_EINVAL);
    assert_int_equal(strlen(why), 3);
}

static void test_names(void **state)
{
    static const char *const good[] = {
        "a",   "job:42", "{tag}", "a{b}c",    "a{b}c{d",  "{a{b}",
        "a{b", "a b",    "{{}",   "\xc3\xa4", "lockwire", "Lockwire:x",
    };
    static const char *const bad[][2] = {
        {NULL, "NULL"},
        {"", "empty"},
        {"a\nb", "byte 0x0a at position 2"},
        {"\x7f", "byte 0x7f at position 1"},
        {"lockwire:x", "the name begins with \"lockwire:\", which is reserved"},
        {"a}", "position 2 has no \"{\""},
        {"a}{b", "position 2 has no \"{\""},
        {"a}{b}", "position 2 has no \"{\""},
        {"x{}y", "name: the tag \"{}\" at position 2 is empty"},
        {"{a}b}", "name: second \"}\" at position 5, only one is allowed"},
        {"{a}{b}", "name: second \"}\" at position 6, only one is allowed"},
    };
    char name[515], why[160];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(lw__check_name(good[i], why, sizeof(why)));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *said = lw__check_name(bad[i][0], why, sizeof(why));
        assert_non_null(said);
        assert_non_null(strstr(said, bad[i][1]));
    }
    memset(name, 'n', sizeof(name));
    name[512] = '\0';
    assert_null(lw__check_name(name, why, sizeof(why)));
    name[512] = 'n';
    name[513] = '\0';
    assert_non_null(lw__check_name(name, why, sizeof(why)));
}

static void test_words(void **state)
{
    char word[130], why[160];

    (void)state;
    assert_null(lw__check_word("a!~", "owner", why, sizeof(why)));
    assert_string_equal(lw__check_word("a b", "owner", why, sizeof(why)),
                        "owner: byte 0x20 at position 2 is not allowed");
    assert_non_null(lw__check_word("\x80", "owner", why, sizeof(why)));
    assert_non_null(lw__check_word("", "owner", why, sizeof(why)));
    assert_non_null(lw__check_word(NULL, "owner", why, sizeof(why)));
    memset(word, 'w', sizeof(word));
    word[128] = '\0';
    assert_null(lw__check_word(word, "owner", why, sizeof(why)));
    word[128] = 'w';
    word[129] = '\0';
    assert_non_null(lw__check_word(word, "owner", why, sizeof(why)));
}

static void test_notes(void **state)
{
    static const char *const wrong[][2] = {
        {"a\nb",
         "the note has a control character, or no UTF-8, at position 2: byte 0x0a"},
        {"\x7f",
         "the note has a control character, or no UTF-8, at position 1: byte 0x7f"},
        {"\xc2\x85",
         "the note has a control character, or no UTF-8, at position 1: byte 0xc2"},
        {"ab\xc3",
         "the note has a control character, or no UTF-8, at position 3: byte 0xc3"},
    };
    char note[LW__NOTE_MOST + 2], why[160];

    (void)state;
    assert_null(lw__check_note("", why, sizeof(why)));
    assert_null(lw__check_note("migration \xe2\x86\x92 v2, \xc3\xa4sk J\xc3\xbcrgen", why,
                               sizeof(why)));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_string_equal(lw__check_note(wrong[i][0], why, sizeof(why)), wrong[i][1]);
    }
    memset(note, 'n', sizeof(note));
    note[LW__NOTE_MOST] = '\0';
    assert_null(lw__check_note(note, why, sizeof(why)));
    note[LW__NOTE_MOST] = 'n';
    note[LW__NOTE_MOST + 1] = '\0';
    assert_string_equal(lw__check_note(note, why, sizeof(why)),
                        "the note is longer than 100 bytes");
}

static void test_every_error_has_its_text(void **state)
{
    char numbers[64];

    (void)state;
#define LW_CHECK(name, value, text) assert_string_equal(lw_strerror(name), text);
    LW_ERROR_MAP(LW_CHECK)
#undef LW_CHECK
    assert_string_equal(lw_strerror(-999), "unknown error");
    assert_string_equal(lw_strerror(2), "unknown error");
    (void)snprintf(numbers, sizeof(numbers), "%d.%d.%d", LW_VERSION_MAJOR,
                   LW_VERSION_MINOR, LW_VERSION_PATCH);
    assert_string_equal(numbers, LW_VERSION);
    assert_string_equal(lw_version(), LW_VERSION);
}

static void keep_message(int level, const char *message, void *arg)
{
    char *kept = arg;

    kept[0] = (char)('0' + level);
    strncpy(kept + 1, message, 1000);
}

static void test_the_log_is_filtered_and_cut(void **state)
{
    char kept[1100] = "", text[1000];
    struct lw__log log = {keep_message, 4, kept, NULL, NULL};

    (void)state;
    lw__log(&log, 5, "%s", "hidden");
    assert_string_equal(kept, "");
    lw__log(&log, 4, "%s %d", "shown", 1);
    assert_string_equal(kept, "4shown 1");
    memset(text, 'x', sizeof(text));
    text[999] = '\0';
    lw__log(&log, 3, "%s", text);
    assert_int_equal(strlen(kept), 1 + 511);
    log.fn = NULL;
    lw__log(&log, 3, "nobody listens");
}

static void test_ids_differ_and_jitter_keeps_its_bounds(void **state)
{
    char one[LW__UUID_SIZE], two[LW__UUID_SIZE];
    struct lw__random random;
    bool low = false, high = false;

    (void)state;
    assert_true(lw__random_uuid(one));
    assert_true(lw__random_uuid(two));
    assert_int_equal(strlen(one), 36);
    assert_string_not_equal(one, two);
    lw__random_seed(&random, 0);
    for (int i = 0; i < 1000; i++) {
        int64_t number = lw__random_between(&random, -2, 2);
        assert_true(number >= -2 && number <= 2);
        low = low || number == -2;
        high = high || number == 2;
    }
    assert_true(low && high);
    assert_true(lw__random_between(&random, 7, 7) == 7);
    assert_true(lw__random_between(&random, 7, 3) == 7);
    (void)lw__random_between(&random, INT64_MIN, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls),
        cmocka_unit_test(test_good_lists_of_hosts),
        cmocka_unit_test(test_bad_urls_are_explained),
        cmocka_unit_test(test_no_explanation_shows_a_password),
        cmocka_unit_test(test_explanations_fit_any_buffer),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_every_error_has_its_text),
        cmocka_unit_test(test_the_log_is_filtered_and_cut),
        cmocka_unit_test(test_ids_differ_and_jitter_keeps_its_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
