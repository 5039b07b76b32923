/* SPDX-License-Identifier: MIT */
/*
 * server.h's server. Independent of the tests.
 *
 * Usual course: embedded_start, a symbolic link to its socket, redisConnectUnix.
 */
#include "server.h"
#include "stage.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_LIMIT_S 30
#define MAX_KEPT_PORTS 16
#define MAX_SERVERS 64 /* at once */

static void connect_admin(struct server *server, const char *path)
{
    struct timeval limit = {.tv_sec = ANSWER_LIMIT_S};

    server->admin = redisConnectUnix(path);
    if (server->admin == NULL || server->admin->err) {
        stage_fail("no connection to %s: %s", path,
                   server->admin != NULL ? server->admin->errstr : "memory");
    }
    redisSetTimeout(server->admin, limit);
}

static void disconnect_admin(struct server *server)
{
    if (server->admin != NULL) {
        redisFree(server->admin);
    }
    server->admin = NULL;
}

/* ---- TLS ---- */

#define SKIPPED 77 /* meson's exit code for a skipped test */

/* A server may listen there as well, because our socket does not listen and has
 * SO_REUSEADDR. The option is set after bind: a socket that had it before could be given
 * a reserved port. */
int server_reserve_port(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)*port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (bind(fd, (struct sockaddr *)&address, size) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
        close(fd);
        if (*port != 0) {
            return -1;
        }
        stage_fail("no port is free: %s", strerror(errno));
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static void reserve_port(struct server *server)
{
    server->reserved = server_reserve_port(&server->tls_port);
    (void)snprintf(server->url, sizeof(server->url), "rediss://127.0.0.1:%d",
                   server->tls_port);
}

static void let_port_go(struct server *server)
{
    if (server->tls_port != 0) {
        close(server->reserved);
    }
    server->tls_port = 0;
}

static void skip_without_tls(struct server *server)
{
    redisReply *reply = server_try(server, "CONFIG SET tls-auth-clients no");
    bool unknown = reply->type == REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    if (unknown) {
        server_stop(server);
        (void)fprintf(stderr, "skipped: this redis-server has no TLS\n");
        exit(SKIPPED);
    }
}

static void listen_with_tls(struct server *server)
{
    static const char *const files[][2] = {{"tls-key-file", "server.key"},
                                           {"tls-ca-cert-file", "ca.pem"},
                                           {"tls-cert-file", "server.pem"}};

    skip_without_tls(server);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        freeReplyObject(server_command(server, "CONFIG SET %s %s/%s", files[i][0],
                                       getenv("LOCKWIRE_CERTIFICATES"), files[i][1]));
    }
    freeReplyObject(server_command(server, "CONFIG SET tls-port %d", server->tls_port));
}

/* ---- the folder ---- */

/* A test that fails does not stop the servers that it started. Their folders are removed
 * when the executable ends, but not by a child that it has forked. */
static char dirs[MAX_SERVERS][64];
static pid_t their_process;

static void remove_dir(const char *dir)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%.63s'", dir);
    if (system(command) != 0) {
        stage_complain("cannot remove %s", dir);
    }
}

static void remove_dirs(void)
{
    for (size_t i = 0; getpid() == their_process && i < MAX_SERVERS; i++) {
        if (dirs[i][0]) {
            remove_dir(dirs[i]);
        }
    }
}

static char *entry_of(const char *dir)
{
    for (size_t i = 0; i < MAX_SERVERS; i++) {
        if (strcmp(dirs[i], dir) == 0) {
            return dirs[i];
        }
    }
    stage_fail("more than %d servers at once", MAX_SERVERS);
}

static void make_dir(char dir[64])
{
    char *entry = entry_of("");

    if (their_process == 0 && atexit(remove_dirs) != 0) {
        stage_fail("atexit");
    }
    their_process = getpid();
    if (mkdtemp(dir) == NULL) {
        stage_fail("mkdtemp %s: %s", dir, strerror(errno));
    }
    (void)snprintf(entry, sizeof(dirs[0]), "%s", dir);
}

/* ---- the process ---- */

static void run(struct server *server)
{
    char why[EMBEDDED_WHY_MAX];

    if (embedded_start(&server->process, server->keeps ? server->dir : NULL, server->args,
                       why) < 0) {
        stage_fail("%s", why);
    }
    server->running = true;
    unlink(server->path);
    if (symlink(server->process.socket, server->path) < 0) {
        stage_fail("symlink %s: %s", server->path, strerror(errno));
    }
    connect_admin(server, server->path);
    if (server->tls_port != 0) {
        listen_with_tls(server);
    }
}

void server_absent(struct server *server)
{
    *server = (struct server){.dir = "/tmp/lockwire-test-XXXXXX"};
    make_dir(server->dir);
    (void)snprintf(server->path, sizeof(server->path), "%s/redis", server->dir);
    (void)snprintf(server->url, sizeof(server->url), "unix://%s", server->path);
    if (getenv("LOCKWIRE_TLS") != NULL) {
        reserve_port(server);
    }
}

void server_run(struct server *server, const char *args)
{
    size_t count = 0;

    /* At any other address of this machine a connection may already use the port. */
    server->args[count++] = "--bind";
    server->args[count++] = "127.0.0.1";
    (void)snprintf(server->words, sizeof(server->words), "%s", args != NULL ? args : "");
    for (char *rest = server->words, *word;
         (word = strtok_r(rest, " ", &rest)) != NULL;) {
        server->args[count++] = word;
    }
    server->keeps = strstr(args != NULL ? args : "", "appendonly yes") != NULL;
    run(server);
}

void server_start(struct server *server, const char *args)
{
    server_absent(server);
    server_run(server, args);
}

void server_stop(struct server *server)
{
    disconnect_admin(server);
    if (server->running) {
        embedded_stop(&server->process);
    }
    server->running = false;
    let_port_go(server);
    if (server->dir[0]) {
        remove_dir(server->dir);
        entry_of(server->dir)[0] = '\0';
    }
    server->dir[0] = '\0';
}

void server_pause(struct server *server)
{
    int status;

    kill(server->process.pid, SIGSTOP);
    waitpid(server->process.pid, &status, WUNTRACED);
    server->paused = true;
}

void server_resume(struct server *server)
{
    if (server->paused) {
        kill(server->process.pid, SIGCONT);
    }
    server->paused = false;
}

void server_kill(struct server *server)
{
    disconnect_admin(server);
    embedded_stop(&server->process); /* with SIGKILL */
    server->running = server->paused = false;
}

void server_restart(struct server *server)
{
    if (server->running) {
        server_kill(server);
    }
    run(server);
}

void server_succeed(struct server *server, struct server *other)
{
    unlink(server->path);
    if (symlink(other->process.socket, server->path) < 0) {
        stage_fail("symlink %s: %s", server->path, strerror(errno));
    }
    unlink(other->path);
    rmdir(other->dir);
    server->process = other->process;
    server->admin = other->admin;
    server->running = true;
    if (server->tls_port != 0) {
        listen_with_tls(server);
    }
    let_port_go(other);
}

void server_ask_in_place(struct server *server, const struct server *other)
{
    disconnect_admin(server);
    connect_admin(server, other->path);
}

void server_clear(struct server *server)
{
    /* clang-format off */
    static const char *const usual[] = {
        "CONFIG SET save %b", "REPLICAOF NO ONE", "FLUSHALL", "CONFIG SET maxmemory 0",
        "CONFIG SET maxmemory-policy noeviction", "CONFIG SET min-replicas-to-write 0",
        "CONFIG SET requirepass %b", "CONFIG SET maxclients 10000",
        "ACL SETUSER default on nopass +@all ~* &*", "ACL DELUSER app", "SCRIPT FLUSH"};
    /* clang-format on */

    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
        redisReply *reply = server_command(server, usual[i], "", (size_t)0);
        freeReplyObject(reply);
    }
}

static redisReply *ask(struct server *server, const char *format, va_list arguments)
{
    redisReply *reply = redisvCommand(server->admin, format, arguments);

    stage.asked = true;
    if (reply == NULL) {
        stage_fail("no answer to %s: %s", format, server->admin->errstr);
    }
    return reply;
}

static redisReply *demand(struct server *server, const char *format, va_list arguments)
{
    redisReply *reply = ask(server, format, arguments);
    char text[256];

    if (reply->type != REDIS_REPLY_ERROR) {
        return reply;
    }
    (void)snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    stage_fail("%s: %s", format, text);
}

redisReply *server_command(struct server *server, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = demand(server, format, arguments);
    va_end(arguments);
    return reply;
}

redisReply *server_try(struct server *server, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    return reply;
}

static int kept[MAX_KEPT_PORTS];
static size_t kept_count;

static void let_kept_ports_go(bool in_good_order)
{
    (void)in_good_order;
    while (kept_count > 0) {
        close(kept[--kept_count]);
    }
}

int server_free_port(void)
{
    int port = 0;

    if (kept_count == MAX_KEPT_PORTS) {
        stage_fail("a test with more than %d ports", MAX_KEPT_PORTS);
    }
    kept[kept_count++] = server_reserve_port(&port);
    stage_at_exit(let_kept_ports_go);
    return port;
}

int server_listen(struct server *server)
{
    int port = server_free_port();

    freeReplyObject(server_command(server, "CONFIG SET port %d", port));
    return port;
}

void redis_ok(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    freeReplyObject(demand(&stage.server, format, arguments));
    va_end(arguments);
}

long long redis_int(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = demand(&stage.server, format, arguments);
    va_end(arguments);
    bool any = reply->type == REDIS_REPLY_INTEGER;
    long long number = reply->integer;
    freeReplyObject(reply);
    if (!any) {
        stage_fail("%s: no integer", format);
    }
    return number;
}

const char *redis_text(const char *format, ...)
{
    static char text[65536];
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = demand(&stage.server, format, arguments);
    va_end(arguments);
    (void)snprintf(text, sizeof(text), "%s", reply->str != NULL ? reply->str : "");
    freeReplyObject(reply);
    return text;
}

const char *redis_counts(const char *name)
{
    static char counts[64];
    const char *state = redis_text("HGET %s mode", name);
    int end = 2;

    (void)sscanf(state, "2 %*s %*s %*s%n", &end);
    (void)snprintf(counts, sizeof(counts), "%.*s", end - 2, state + 2);
    return counts;
}

const char *redis_writer(const char *name)
{
    const char *state = redis_text("HGET %s mode", name);
    int owner = 0;

    (void)sscanf(state, "2 %*s %*s %*s %*s %*s %n", &owner);
    return state + owner;
}

long long redis_info(const char *field)
{
    char wanted[64];

    (void)snprintf(wanted, sizeof(wanted), "\n%s:", field);
    const char *at = strstr(redis_text("INFO everything"), wanted);
    return at != NULL ? atoll(at + strlen(wanted)) : 0;
}
