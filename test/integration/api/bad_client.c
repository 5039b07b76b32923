/* SPDX-License-Identifier: MIT */
/* Arguments that lw_client_new and lw_client_stats refuse at the call: URLs, options,
 * sizes of structs. Each call returns its error, and a text that says what is wrong and
 * where, but never a password. Independent of the order of the checks.
 *
 * Usual course: a bad argument, LW_EINVAL, the text; nothing is leaked. */
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void client_refused(const char *url, const struct lw_client_options *wanted,
                           const char *text)
{
    struct lw_client_options options = *wanted;
    struct lw_client *client = NULL;
    char error[256] = "";

    options.errbuf = error;
    options.errbuf_size = sizeof(error);
    int result = lw_client_new(stage.base, url, &options, &client);
    if (result != LW_EINVAL || client != NULL) {
        stage_fail("lw_client_new %s: %s", url != NULL ? url : "NULL",
                   status_name(result));
    }
    if (strstr(error, text) == NULL) {
        stage_fail("lw_client_new %s: \"%s\" does not say \"%s\"",
                   url != NULL ? url : "NULL", error, text);
    }
    if (strstr(error, "hunter2") != NULL) {
        stage_fail("lw_client_new tells the password: %s", error);
    }
}

static void url_that_is_none(void **state)
{
    (void)state;
    client_refused(NULL, client_of(), "URL");
    client_refused("", client_of(), "redis://");
    client_refused("localhost:6379", client_of(), "redis://");
    client_refused("http://localhost", client_of(), "redis://");
    client_refused("redis://", client_of(), "host");
    client_refused("redis://h:0", client_of(), "\"0\"");
    client_refused("redis://h:70000", client_of(), "70000");
    client_refused("redis://h:port", client_of(), "port");
    client_refused("redis://h/x", client_of(), "database");
    client_refused("redis://user:hunter2@h:99999", client_of(), "99999");
    client_refused("redis://:hunter2%zz@h", client_of(), "%");
    client_refused("redis://hunter2@h", client_of(), "username"); /* the ":" is missing */
    client_refused("redis://@h", client_of(), "\"@\"");
    client_refused("redis://:hunter2@more@h:x", client_of(), "");
    client_refused("unix://relative", client_of(), "/");
    client_refused("unix:///path?x=1", client_of(), "db");
}

static void client_option_out_of_range(void **state)
{
    const char *url = stage.server.url;

    (void)state;
    client_refused(url, client_of(.claim_ms = 99), "claim_ms 99");
    client_refused(url, client_of(.claim_ms = 60001), "claim_ms 60001");
    client_refused(url, client_of(.local_turns = 17), "local_turns 17");
    client_refused(url, client_of(.busy_poll_us = 101),
                   "busy_poll_us 101 is not between 0 and 100");
    client_refused(url, client_of(.db = -1), "db -1");
    client_refused(url, client_of(.username = "u"), "username");
    client_refused(url, client_of(.client_name = "with blank"), "client_name");
    client_refused(url, client_of(.client_name = ""), "client_name");
    client_refused(url, client_of(.backoff_min_ms = 500, .backoff_max_ms = 100),
                   "backoff");
}

static void client_guard(void **state)
{
    struct lw_client *client;

    (void)state;
    client_refused("redis://h?guard=15s", client_of(.guard_ms = 20000),
                   "guard_ms 20000ms differs from guard=15000ms in the URL");
    client_refused("redis-sentinel://h/s?guard=15s", client_of(.guard_ms = LW_GUARD_NONE),
                   "guard_ms none differs from guard=15000ms in the URL");
    client_refused("redis-quorum://h,i,j?guard=none", client_of(.guard_ms = 20000),
                   "guard_ms 20000ms differs from guard=none in the URL");
    client_refused("redis-quorum://h,i,j?guard=none", client_of(.guard_ms = 0),
                   "not supported by a quorum");
    client_refused("redis-cluster://h?guard=15s", client_of(.guard_ms = 0),
                   "guard_ms is not supported in a cluster");
    client_refused("redis://h?guard=15s", client_of(.request_timeout_ms = 7451),
                   "guard_ms 15000 leaves no time for a lease");
    assert_int_equal(lw_client_new(stage.base, "redis-cluster://h?guard=none",
                                   client_of(.guard_ms = 0), &client),
                     LW_OK);
    lw_client_free(client);
    assert_int_equal(lw_client_new(stage.base, "redis-quorum://h,i,j?guard=20s",
                                   client_of(.guard_ms = 20000), &client),
                     LW_OK);
    lw_client_free(client);
}

static void client_address_map(void **state)
{
    const char *sentinel = "redis-sentinel://h/s", *cluster = "valkey-cluster://h";
    const char *needs =
        "address_map needs a URL that begins with redis-sentinel://, rediss-sentinel://, "
        "redis-cluster:// or rediss-cluster:// (or with valkey in place of redis)";

    (void)state;
    client_refused(stage.server.url, client_of(.address_map = "a=b"), needs);
    client_refused("redis://h", client_of(.address_map = ""), needs);
    client_refused(sentinel, client_of(.address_map = ""), "address_map: pair 1 \"\"");
    client_refused(cluster, client_of(.address_map = "a:1=b"),
                   "address_map: pair 1 \"a:1=b\": only one side has a port");
    client_refused(
        cluster, client_of(.address_map = "a:1=b:1,a:1=c:1"),
        "address_map: pair 2 \"a:1=c:1\": the left side is also that of pair 1");
    client_refused(sentinel, client_of(.address_map = "a:1=b:1,b:1=a:1"),
                   "address_map: pair 1 \"a:1=b:1\": the right side is the left side of "
                   "pair 2");
}

static int no_credentials(struct lw_client *client, struct lw_credentials *ret, void *arg)
{
    (void)client;
    (void)ret;
    (void)arg;
    return LW_EINVAL;
}

static void a_url_with_tls_in_a_build_without(void **state)
{
    (void)state;
#ifdef HAVE_TLS
    skip();
#endif
    client_refused("rediss://h", client_of(), "it needs hiredis_ssl 1.1 or later");
    client_refused("rediss://h", client_of(.tls_ca = "/nowhere"),
                   "it needs hiredis_ssl 1.1 or later");
}

/* One of them would be ignored. */
static void credentials_beside_a_user_or_a_password(void **state)
{
    const char *beside = "credentials is set together with";

    (void)state;
    client_refused("redis://h", client_of(.credentials = no_credentials, .username = "u"),
                   beside);
    client_refused("redis://h",
                   client_of(.credentials = no_credentials, .password = "hunter2"),
                   beside);
    client_refused("redis://u@h", client_of(.credentials = no_credentials), beside);
    client_refused("redis://:hunter2@h", client_of(.credentials = no_credentials),
                   beside);
}

static void what_sentinels_are_logged_in_to_with(void **state)
{
    struct lw_client *client = NULL;

    (void)state;
    client_refused("redis://h", client_of(.sentinel_password = "hunter2"),
                   "sentinel_password needs a URL that begins with redis-sentinel://");
    client_refused("unix:///h",
                   client_of(.sentinel_username = "u", .sentinel_password = "hunter2"),
                   "sentinel_username needs a URL that begins with redis-sentinel://");
    client_refused("redis-sentinel://h/s", client_of(.sentinel_username = "u"),
                   "sentinel_username is given without sentinel_password");
    assert_int_equal(lw_client_new(stage.base, "redis-sentinel://h,h:1/s/3",
                                   client_of(.sentinel_password = "hunter2"), &client),
                     LW_OK);
    lw_client_free(client);
}

static void passwords_in_files(void **state)
{
    const char *sentinels = "redis-sentinel://h/s";
    char file[64];
    struct lw_client *client = NULL;
    FILE *out;

    (void)state;
    (void)snprintf(file, sizeof(file), "/tmp/lockwire-%ld-password", (long)getpid());
    client_refused("redis://h", client_of(.password_file = "/none"),
                   "password_file '/none': cannot read the file: ");
    client_refused(sentinels, client_of(.sentinel_password_file = "/dev/null"),
                   "sentinel_password_file '/dev/null': it is no regular file");
    client_refused("redis://h", client_of(.password = "p", .password_file = file),
                   "password and password_file are both given");
    client_refused(sentinels,
                   client_of(.sentinel_password = "p", .sentinel_password_file = file),
                   "sentinel_password and sentinel_password_file are both given");
    client_refused("redis://h",
                   client_of(.credentials = no_credentials, .password_file = file),
                   "credentials is set together with");
    client_refused("redis://h", client_of(.sentinel_password_file = file),
                   "sentinel_password_file needs a URL that begins with redis-sentinel");
    assert_int_equal(mkfifo(file, 0600), 0); /* to read it would block */
    client_refused("redis://h", client_of(.password_file = file),
                   "it is no regular file");
    (void)unlink(file);
    out = fopen(file, "w");
    assert_non_null(out);
    assert_true(fputs("p\n", out) >= 0 && fclose(out) == 0);
    assert_int_equal(
        lw_client_new(stage.base, "redis-sentinel://u@h/s",
                      client_of(.password_file = file, .sentinel_username = "v",
                                .sentinel_password_file = file),
                      &client),
        LW_OK);
    lw_client_free(client);
    (void)unlink(file);
}

static void databases_of_a_cluster(void **state)
{
    struct lw_client *client = NULL;

    (void)state;
    client_refused("redis-cluster://h,h:1", client_of(.db = -1), "db -1");
    client_refused("redis-cluster://h/x", client_of(), "database \"x\"");
    assert_int_equal(
        lw_client_new(stage.base, "redis-cluster://h,h:1", client_of(.db = 0), &client),
        LW_OK);
    lw_client_free(client);
}

/* Fields beyond the size that an older program passes are not read. */
static void options_of_before_credentials(void **state)
{
    struct lw_client_options older = {
        .size = offsetof(struct lw_client_options, credentials),
        .password = "hunter2",
        .credentials = no_credentials};
    struct lw_client *client = NULL;

    (void)state;
    assert_int_equal(lw_client_new(stage.base, "redis://h", &older, &client), LW_OK);
    lw_client_free(client);
}

static void client_options_of_another_size(void **state)
{
    struct {
        struct lw_client_options options;
        char tail[16];
    } larger = {.options = {.size = sizeof(larger)}};
    struct lw_client *client = NULL;
    char error[256] = "";

    (void)state;
    assert_int_equal(
        lw_client_new(stage.base, stage.server.url, &larger.options, &client), LW_OK);
    lw_client_free(client);
    client = NULL;
    larger.tail[0] = 1;
    assert_int_equal(
        lw_client_new(stage.base, stage.server.url, &larger.options, &client), LW_EINVAL);
    assert_null(client);
    larger.options.errbuf = error;
    larger.options.errbuf_size = sizeof(error);
    assert_int_equal(
        lw_client_new(stage.base, stage.server.url, &larger.options, &client), LW_EINVAL);
    assert_non_null(strstr(error, "size"));
    error[0] = '\0';
    larger.options.errbuf_size = 0;
    assert_int_equal(
        lw_client_new(stage.base, stage.server.url, &larger.options, &client), LW_EINVAL);
    larger.options.size = 0;
    assert_int_equal(
        lw_client_new(stage.base, stage.server.url, &larger.options, &client), LW_EINVAL);
    assert_string_equal(error, "");
}

/* The URL's password is used with the options' user name. */
static void a_user_name_and_the_url_s_password(void **state)
{
    struct lw_client_options options = {.size = sizeof(options), .username = "u"};
    struct lw_client *client = NULL;

    (void)state;
    assert_int_equal(
        lw_client_new(stage.base, "redis://:secret@127.0.0.1:1", &options, &client),
        LW_OK);
    lw_client_free(client);
    options.errbuf = (char[]){""};
    options.errbuf_size = 0; /* no room for the reason */
    assert_int_equal(lw_client_new(stage.base, "redis://127.0.0.1:1", &options, &client),
                     LW_EINVAL);
}

static void stats_of_another_size(void **state)
{
    struct {
        struct lw_stats stats;
        uint64_t tail;
    } larger = {.stats = {.size = sizeof(larger)}, .tail = 7};
    struct lw_stats stats = LW_STATS_INIT;

    (void)state;
    struct peer *a = peer_ready("a", NULL);
    assert_int_equal(lw_client_stats(a->client, &larger.stats), LW_OK);
    assert_int_equal(larger.tail, 0);
    stats.size = 0;
    assert_int_equal(lw_client_stats(a->client, &stats), LW_EINVAL);
    stats.size = offsetof(struct lw_stats, waiting);
    stats.waiting = 7;
    assert_int_equal(lw_client_stats(a->client, &stats), LW_OK);
    assert_int_equal(stats.waiting, 7); /* unchanged */
}

static void a_master_where_there_is_no_service(void **state)
{
    struct lw_master master = LW_MASTER_INIT;

    (void)state;
    struct peer *a = peer_ready("a", NULL);
    assert_int_equal(lw_client_master(a->client, &master), LW_EINVAL);
    struct peer *b = peer_start_at("b", "redis-sentinel://127.0.0.1:1/x", NULL);
    assert_int_equal(lw_client_master(b->client, &master), LW_ECONN);
    assert_string_equal(master.host, ""); /* unchanged */
    master.size = 0;
    assert_int_equal(lw_client_master(b->client, &master), LW_EINVAL);
    master.size = sizeof(master);
    peer_close(b);
    assert_int_equal(lw_client_master(b->client, &master), LW_ECLOSED);
    EXPECT("b closed");
}

/* A cluster has many masters. */
static void a_master_in_a_cluster(void **state)
{
    struct lw_master master = LW_MASTER_INIT;

    (void)state;
    struct peer *a = peer_start_at("a", "redis-cluster://127.0.0.1:1", NULL);
    assert_int_equal(lw_client_master(a->client, &master), LW_EINVAL);
    assert_string_equal(master.host, ""); /* unchanged */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(url_that_is_none),
        STAGE_TEST(client_option_out_of_range),
        STAGE_TEST(a_url_with_tls_in_a_build_without),
        STAGE_TEST(credentials_beside_a_user_or_a_password),
        STAGE_TEST(what_sentinels_are_logged_in_to_with),
        STAGE_TEST(passwords_in_files),
        STAGE_TEST(databases_of_a_cluster),
        STAGE_TEST(options_of_before_credentials),
        STAGE_TEST(client_guard),
        STAGE_TEST(client_address_map),
        STAGE_TEST(client_options_of_another_size),
        STAGE_TEST(a_user_name_and_the_url_s_password),
        STAGE_TEST(stats_of_another_size),
        STAGE_TEST(a_master_where_there_is_no_service),
        STAGE_TEST(a_master_in_a_cluster),
    };

    return STAGE_RUN(tests);
}
