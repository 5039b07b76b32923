/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses: numeric, from a hosts file, and asked of a name server that
 * the test plays itself. Knows lookup.h's place for the resolver, and puts its own there.
 * Happy path: each answer is noted as words, and compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hosts.h"
#include "lookup.h"

#include <arpa/inet.h>
#include <event2/dns.h>
#include <event2/dns_struct.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__lookup *lookup;
    struct evdns_server_port *server;
    char found[512];
    bool called;
    int asked;
    void (*meanwhile)(struct scene *scene);
    struct lw__timer timer;
    uint32_t patience_ms;
    char file[40], address[32]; /* in place of /etc/resolv.conf, and what it names */
};

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    scene->base = event_base_new();
    assert_non_null(scene->base);
    assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
    scene->patience_ms = 60000;
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    lw__lookup_cancel(scene->lookup);
    lw__loop_free(scene->loop);
    if (scene->server != NULL) {
        evdns_close_server_port(scene->server);
    }
    for (int i = 0; i < 5; i++) { /* what evdns still has to call back */
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED |
                                                                EVENT_BASE_COUNT_ACTIVE),
                     0);
    event_base_free(scene->base);
    if (scene->file[0] != '\0') {
        (void)unlink(scene->file);
    }
    free(scene);
    return 0;
}

static void on_found(void *arg, const struct lw__addresses *addresses, const char *why)
{
    struct scene *scene = arg;
    size_t length = 0;

    assert_false(scene->called);
    scene->called = true;
    scene->lookup = NULL;
    for (size_t i = 0; i < addresses->count; i++) {
        length += (size_t)snprintf(scene->found + length, sizeof(scene->found) - length,
                                   "%s ", addresses->list[i].text);
    }
    assert_int_equal(addresses->count == 0, why[0] != '\0');
    (void)snprintf(scene->found + length, sizeof(scene->found) - length, "%s", why);
    if (scene->meanwhile != NULL) {
        scene->meanwhile(scene);
    }
}

static void start(struct scene *scene, const char *host)
{
    scene->called = false;
    memset(scene->found, 0, sizeof(scene->found));
    assert_int_equal(lw__lookup_new(scene->loop, host, scene->patience_ms, on_found,
                                    scene, &scene->lookup),
                     0);
    assert_false(scene->called);
}

static void on_too_long(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

static void await(struct scene *scene, const bool *what, int asked)
{
    const struct timeval limit = {60, 0};
    bool too_long = false;
    struct event *event = evtimer_new(scene->base, on_too_long, &too_long);

    assert_int_equal(evtimer_add(event, &limit), 0);
    while ((!*what || scene->asked < asked) && !too_long) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    event_free(event);
    assert_false(too_long);
}

static void find(struct scene *scene, const char *host)
{
    start(scene, host);
    await(scene, &scene->called, 0);
}

/* Without asking anybody */

static void test_numeric_addresses_are_their_own_answer(void **state)
{
    static const char *const hosts[] = {
        "127.0.0.1",   "10.1.2.3",
        "::1",         "fe80::1%lo",
        "2001:db8::7", "fe80:0000:0000:0000:0123:4567:89ab:cdef%interface0" /* long */};
    struct scene *scene = *state;
    char wanted[64];

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        find(scene, hosts[i]);
        (void)snprintf(wanted, sizeof(wanted), "%s ", hosts[i]);
        assert_string_equal(scene->found, wanted);
    }
    assert_null(lw__loop_resolver(scene->loop)->dns);
}

static void test_localhost_has_both_families(void **state)
{
    struct scene *scene = *state;

    find(scene, "LocalHost");
    assert_non_null(strstr(scene->found, "127.0.0.1 "));
    assert_non_null(strstr(scene->found, "::1 "));
    assert_null(lw__loop_resolver(scene->loop)->dns);
}

static void test_a_canceled_lookup_does_not_call(void **state)
{
    struct scene *scene = *state;

    start(scene, "127.0.0.1");
    lw__lookup_cancel(scene->lookup);
    scene->lookup = NULL;
    for (int i = 0; i < 5; i++) {
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_false(scene->called);
}

static void end_loop(struct scene *scene)
{
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

static void test_the_loop_is_freed_by_the_answer(void **state)
{
    struct scene *scene = *state;

    scene->meanwhile = end_loop;
    find(scene, "127.0.0.1");
    assert_null(scene->loop);
}

static void test_a_hosts_file(void **state)
{
    char path[] = "/tmp/lockwire-hosts.XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    struct lw__addresses found = {0};

    (void)state;
    assert_non_null(file);
    fputs("# comment me\n\n127.0.0.1\tlocalhost me # other\n  ::1 x ME\r\nbad me\n"
          "10.0.0.1 notme me2\n10.0.0.2\n",
          file);
    for (int i = 0; i < 3000; i++) {
        fputc('y', file); /* a line longer than any buffer */
    }
    fputs(" me\n127.0.0.1 me\n10.0.0.3 me", file); /* twice; and no newline at the end */
    assert_int_equal(fclose(file), 0);
    lw__hosts_find(path, "me", &found);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.list[0].text, "127.0.0.1");
    assert_string_equal(found.list[1].text, "::1");
    assert_string_equal(found.list[2].text, "10.0.0.3");
    found.count = 0;
    lw__hosts_find(path, "other", &found);
    lw__hosts_find("/nowhere/at/all", "me", &found);
    lw__hosts_find("/", "me", &found);
    assert_int_equal(found.count, 0);
    (void)unlink(path);
}

static void test_no_more_addresses_than_there_is_room_for(void **state)
{
    struct lw__addresses found = {0};
    struct lw__address address;

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(address.text, sizeof(address.text), "10.0.0.%d", i / 2);
        lw__addresses_add(&found, &address);
    }
    assert_int_equal(found.count, LW__ADDRESSES);
    assert_string_equal(found.list[7].text, "10.0.0.7");
}

/* Asking a name server */

static void on_question(struct evdns_server_request *request, void *arg)
{
    static const char v6[2][16] = {{0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6},
                                   {0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
    static const unsigned char v4[2][4] = {{10, 0, 0, 1}, {10, 0, 0, 2}};
    struct scene *scene = arg;
    const struct evdns_server_question *question = request->questions[0];
    const char *name = question->name;
    bool a = question->type == EVDNS_TYPE_A;

    scene->asked++;
    if (strncasecmp(name, "silent", 6) == 0 ||
        (strncasecmp(name, "only4", 5) == 0 && !a)) {
        (void)evdns_server_request_drop(request);
        return;
    }
    if (strncasecmp(name, "nobody", 6) == 0 || (strncasecmp(name, "no6", 3) == 0 && !a)) {
        (void)evdns_server_request_respond(request, DNS_ERR_NOTEXIST);
        return;
    }
    if (strncasecmp(name, "empty", 5) != 0 && strncasecmp(name, "no6", 3) != 0 &&
        (a || strncasecmp(name, "just4", 5) != 0)) {
        if (a) {
            (void)evdns_server_request_add_a_reply(request, name, 2, v4, 60);
        } else {
            (void)evdns_server_request_add_aaaa_reply(request, name, 2, v6, 60);
        }
    }
    (void)evdns_server_request_respond(request, 0);
}

/* A socket on a port of the loopback, whose address is written to `ret`. */
static int open_port(char *ret, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(ret, size, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    return fd;
}

/* The file names these servers, in this order, from now on. */
static void name_servers(struct scene *scene, const char *first, const char *second)
{
    FILE *file;

    if (scene->file[0] == '\0') {
        (void)snprintf(scene->file, sizeof(scene->file), "/tmp/lockwire-resolv.XXXXXX");
        (void)close(mkstemp(scene->file));
        lw__loop_resolver(scene->loop)->file = scene->file;
    }
    file = fopen(scene->file, "w");
    assert_non_null(file);
    fprintf(file, "# ours\nnameserver %s\n", first);
    if (second != NULL) {
        fprintf(file, "nameserver %s\n", second);
    }
    assert_int_equal(fclose(file), 0);
}

/* Only we are asked. */
static void play_server(struct scene *scene)
{
    int fd = open_port(scene->address, sizeof(scene->address));

    scene->server =
        evdns_add_server_port_with_base(scene->base, fd, 0, on_question, scene);
    assert_non_null(scene->server);
    name_servers(scene, scene->address, NULL);
}

static void test_both_families_are_asked_for_and_alternate(void **state)
{
    struct scene *scene = *state;

    play_server(scene);
    find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

static void test_one_family_alone_is_not_waited_for_long(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    play_server(scene);
    find(scene, "only4.example");
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
    assert_true(lw__now_us() - begun >= 200000);
}

static void test_a_name_that_does_not_exist(void **state)
{
    struct scene *scene = *state;

    play_server(scene);
    find(scene, "nobody.example");
    assert_string_equal(scene->found,
                        "cannot resolve \"nobody.example\": name does not exist");
    find(scene, "empty.example");
    assert_non_null(strstr(scene->found, "cannot resolve \"empty.example\": "));
    find(scene, "no6.example"); /* nothing of the one family, an error of the other */
    assert_non_null(strstr(scene->found, "cannot resolve \"no6.example\": "));
}

/* No address that any socket could use: it is a name like any other, and is not known. */
static void test_an_address_with_an_endless_zone(void **state)
{
    struct scene *scene = *state;
    char host[80] = "::1%";

    memset(host + 4, 'z', 70);
    play_server(scene);
    find(scene, host);
    assert_non_null(strstr(scene->found, "::1%zzz"));
    find(scene, "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

static void test_a_name_that_cannot_be_asked_for(void **state)
{
    struct scene *scene = *state;
    char host[254];

    memset(host, 'h', sizeof(host));
    host[253] = '\0';
    play_server(scene);
    find(scene, host);
    assert_non_null(strstr(scene->found, "cannot resolve \"hhh"));
    assert_int_equal(scene->asked, 0);
}

static void test_a_lookup_is_canceled_while_it_is_asked(void **state)
{
    const bool always = true;
    struct scene *scene = *state;

    play_server(scene);
    start(scene, "silent.example");
    await(scene, &always, 2);
    lw__lookup_cancel(scene->lookup);
    start(scene, "both.example");
    lw__lookup_cancel(scene->lookup); /* before any question left */
    scene->lookup = NULL;
    for (int i = 0; i < 5; i++) {
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_false(scene->called);
}

static void test_the_loop_is_freed_while_a_name_is_asked_for(void **state)
{
    const bool always = true;
    struct scene *scene = *state;

    play_server(scene);
    start(scene, "silent.example");
    await(scene, &always, 2);
    lw__lookup_cancel(scene->lookup);
    end_loop(scene);
    scene->lookup = NULL;
}

/* The answer's own turn is when evdns has a call pending that outlives everything. */
static void test_the_loop_is_freed_in_every_turn_of_a_lookup(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct scene *scene;
        assert_int_equal(set_up((void **)&scene), 0);
        play_server(scene);
        start(scene, "both.example");
        for (int i = 0; i < turns; i++) {
            (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
        }
        lw__lookup_cancel(scene->lookup);
        scene->lookup = NULL;
        end_loop(scene);
        assert_int_equal(tear_down((void **)&scene), 0);
    }
}

static void on_timer(void *arg)
{
    struct scene *scene = arg;

    lw__lookup_cancel(scene->lookup);
    scene->lookup = NULL;
    end_loop(scene);
    scene->called = true;
}

static void test_the_loop_is_freed_by_a_timer_while_a_name_is_asked_for(void **state)
{
    struct scene *scene = *state;

    play_server(scene);
    start(scene, "both.example");
    assert_int_equal(lw__loop_reserve(scene->loop, 1), 0);
    lw__timer_init(&scene->timer, on_timer, scene);
    lw__timer_set(scene->loop, &scene->timer, 1); /* due when the answer is handed on */
    await(scene, &scene->called, 0);
    assert_string_equal(scene->found, "");
}

/* The first of two servers is mute: the second is asked long before patience is over. */
static void test_a_mute_name_server_leaves_time_for_the_next(void **state)
{
    struct scene *scene = *state;
    char mute[32];
    int fd = open_port(mute, sizeof(mute));
    int64_t begun;

    play_server(scene);
    name_servers(scene, mute, scene->address);
    scene->patience_ms = 600;
    begun = lw__now_us();
    find(scene,
         "just4.example"); /* asked of the one; that there is no other, of the other */
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
    assert_true(lw__now_us() - begun < 5000000); /* evdns' own patience with a server */
    (void)close(fd);
}

static void test_the_file_is_read_again_when_it_has_changed(void **state)
{
    struct scene *scene = *state;
    struct evdns_base *before;
    char mute[32];
    int fd = open_port(mute, sizeof(mute));

    play_server(scene);
    find(scene, "both.example");
    before = lw__loop_resolver(scene->loop)->dns;
    find(scene, "both.example");
    assert_ptr_equal(lw__loop_resolver(scene->loop)->dns, before);
    name_servers(scene, mute, NULL);
    scene->patience_ms = 60;
    find(scene, "both.example");
    assert_non_null(strstr(scene->found, "cannot resolve \"both.example\""));
    (void)close(fd);
}

/* Though it looks as it did: what it names may have been unreachable at first. */
static void test_the_file_is_read_again_after_a_failure(void **state)
{
    struct scene *scene = *state;
    struct lw__resolver *resolver = lw__loop_resolver(scene->loop);
    struct evdns_base *before;

    play_server(scene);
    find(scene, "nobody.example");
    before = resolver->dns;
    assert_true(resolver->failed);
    assert_int_equal(evdns_base_nameserver_ip_add(before, "127.0.0.1:9"), 0); /* a mark */
    find(scene, "both.example");
    assert_int_equal(evdns_base_count_nameservers(resolver->dns), 1);
    assert_false(resolver->failed);
}

/* Two of a client's look: one's failure takes nothing from the other. */
static void test_a_resolver_that_is_asked_is_not_replaced(void **state)
{
    const bool always = true;
    struct scene *scene = *state;
    struct lw__lookup *silent;

    play_server(scene);
    start(scene, "silent.example");
    silent = scene->lookup;
    await(scene, &always, 2);
    name_servers(scene, scene->address, "127.0.0.1");
    find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    assert_int_equal(lw__loop_resolver(scene->loop)->lookups, 1);
    lw__lookup_cancel(silent);
    assert_int_equal(lw__loop_resolver(scene->loop)->lookups, 0);
}

static void test_the_systems_resolver_is_made_without_harm(void **state)
{
    struct scene *scene = *state;

    start(scene, "lockwire-test.invalid");
    assert_non_null(lw__loop_resolver(scene->loop)->dns);
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_numeric_addresses_are_their_own_answer),
        TEST(test_localhost_has_both_families),
        TEST(test_a_canceled_lookup_does_not_call),
        TEST(test_the_loop_is_freed_by_the_answer),
        cmocka_unit_test(test_a_hosts_file),
        cmocka_unit_test(test_no_more_addresses_than_there_is_room_for),
        TEST(test_both_families_are_asked_for_and_alternate),
        TEST(test_one_family_alone_is_not_waited_for_long),
        TEST(test_a_name_that_does_not_exist),
        TEST(test_an_address_with_an_endless_zone),
        TEST(test_a_name_that_cannot_be_asked_for),
        TEST(test_a_lookup_is_canceled_while_it_is_asked),
        TEST(test_the_loop_is_freed_while_a_name_is_asked_for),
        cmocka_unit_test(test_the_loop_is_freed_in_every_turn_of_a_lookup),
        TEST(test_the_loop_is_freed_by_a_timer_while_a_name_is_asked_for),
        TEST(test_a_mute_name_server_leaves_time_for_the_next),
        TEST(test_the_file_is_read_again_when_it_has_changed),
        TEST(test_the_file_is_read_again_after_a_failure),
        TEST(test_a_resolver_that_is_asked_is_not_replaced),
        TEST(test_the_systems_resolver_is_made_without_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
