/* SPDX-License-Identifier: MIT */
/* One connection kept alive: see session.h.
 *
 * begin() asks for the endpoint if that may change, and for the host's addresses;
 * connect_next() tries an address, link_up() sends the handshake, and became_ready()
 * follows its last reply. After an address that fails the next one is tried while there
 * is time, after the last one back_off() waits for a new attempt. A step of the handshake
 * that is refused ends the connection only if it is unusable without that step. A
 * sentinel whose id is expected must prove it before anything else is sent, except for an
 * AUTH without which it does not tell its id. */
#include "redis/session.h"

#include "base/asserts.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/container_of.h"
#include "base/first_line.h"
#include "base/random.h"
#include "base/wipe.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "loop/resolve.h"
#include "redis/address_map.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/reply.h"
#include "redis/resp.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define REPLY_MAX ((size_t)1 << 20)
/* Bytes of the whole handshake, except for user and password. */
#define HANDSHAKE_MAX ((size_t)1024)

static void connect_next(struct lw__session *s);

/* ---- the endpoint ---- */

/* Returns the endpoint of the server, as it is announced or in the URL. */
static struct lw__endpoint endpoint_of(const struct lw__session *s)
{
    struct lw__endpoint ret = s->endpoint;

    if (s->config->resolve == NULL && s->config->host != NULL) {
        (void)snprintf(ret.host, sizeof(ret.host), "%s", s->config->host);
        ret.port = s->config->port;
    }
    return ret;
}

/* Returns the endpoint that the session connects to, or would. */
static struct lw__endpoint target_of(const struct lw__session *s)
{
    struct lw__endpoint ret = endpoint_of(s);

    (void)lw__address_map_apply(s->config->address_map, &ret);
    return ret;
}

static const char *host_of(const struct lw__session *s)
{
    return s->config->resolve != NULL ? s->endpoint.host : s->config->host;
}

void lw__session_endpoint(const struct lw__session *session, char ret[LW__TEXT_MAX])
{
    struct lw__endpoint endpoint = endpoint_of(session);
    char note[LW__ADDRESS_MAP_NOTE_SIZE];
    char text[LW__HOST_SIZE + sizeof("[]:65535") + sizeof(note)];

    lw__address_map_note_target(session->config->address_map, &endpoint, note);
    (void)snprintf(text, sizeof(text),
                   strchr(endpoint.host, ':') != NULL ? "[%s]:%u%s" : "%s:%u%s",
                   endpoint.host, (unsigned)endpoint.port, note);
    lw__escape(session->config->path != NULL ? session->config->path : text, ret,
               LW__TEXT_MAX);
}

/* The size of the longest note about the origin of an endpoint. */
#define ORIGIN_SIZE                                                                      \
    (LW__ADDRESS_MAP_NOTE_SIZE + sizeof(" sentinel") + sizeof(REMEDY) +                  \
     sizeof(TLS_REMEDY))
#define REMEDY "; address_map or --map replaces it"
#define TLS_REMEDY ", tls_server_name or --sni the name in the certificate"

/* Writes where an endpoint comes from that the URL does not have, for the text of a
 * connection that is not up yet: which endpoint is replaced, or who announced it. */
static void note_origin(const struct lw__session *s, enum lw__stage stage,
                        char ret[ORIGIN_SIZE])
{
    const struct lw__endpoint *by = s->config->announced_by;
    struct lw__endpoint endpoint = endpoint_of(s);

    *ret = '\0';
    if (stage >= LW__STAGE_HANDSHAKE || s->state == LW__SESSION_RESOLVING) {
        return;
    }
    lw__address_map_note_origin(s->config->address_map, &endpoint, ret);
    if (*ret == '\0' && by != NULL && *by->host != '\0') {
        (void)snprintf(ret, ORIGIN_SIZE, " (announced by %s %s:%u%s%s)",
                       s->config->resolve != NULL ? "sentinel" : "node", by->host,
                       (unsigned)by->port, REMEDY,
                       stage == LW__STAGE_TLS ? TLS_REMEDY : "");
    }
}

/* ---- failures ---- */

/* Keeps the failure that got farther. If both got equally far it keeps the later one,
 * unless that is permanent and the earlier one is not. */
static void note_failure(struct lw__session *s, enum lw__stage stage, int status,
                         const char *why)
{
    struct lw__failure *f = &s->failure;
    char note[ORIGIN_SIZE], text[LW__TEXT_MAX + sizeof(note)];
    bool earlier_counts = stage < f->stage || (stage == f->stage && status == LW_EREDIS &&
                                               f->status == LW_ECONN);

    if (*f->why == '\0' || s->end == LW__END_RETARGETED || !earlier_counts) {
        f->stage = stage;
        f->status = status;
        note_origin(s, stage, note);
        (void)snprintf(text, sizeof(text), "%.*s%s",
                       (int)(sizeof(f->why) - 1 - strlen(note)), why, note);
        lw__escape(text, f->why, sizeof(f->why));
    }
}

/* Waits for a random time between half of the delay and all of it, or not at all if the
 * session is retargeted. The delay doubles each time; it begins at its minimum again if
 * the connection was ready for longer than the last delay. */
static void back_off(struct lw__session *s)
{
    const struct lw__session_config *config = s->config;
    int64_t now = lw__now_us(), most;

    LW__ASSERT(s->state != LW__SESSION_STOPPED && s->state != LW__SESSION_BACKOFF);
    LW__ASSERT(s->lookup == NULL && !s->login.needed && *s->failure.why != '\0');
    if (s->state == LW__SESSION_READY &&
        now - s->ready_us > (int64_t)s->backoff_ms * LW__MS) {
        s->backoff_ms = 0;
    }
    if (s->backoff_ms == 0) {
        s->backoff_ms = config->backoff_min_ms;
    } else {
        s->backoff_ms = s->backoff_ms > config->backoff_max_ms / 2
                            ? config->backoff_max_ms
                            : s->backoff_ms * 2;
    }
    most = (int64_t)s->backoff_ms * LW__MS;
    s->state = LW__SESSION_BACKOFF;
    s->link = NULL;
    lw__timer_set(config->loop, &s->timer,
                  s->end == LW__END_RETARGETED
                      ? now
                      : now + lw__random_between(config->random, most / 2, most));
    if (s->end == LW__END_NO_SUBSCRIBE) { /* another try would fail as well */
        lw__session_stop(s);
    }
    s->events->lost(s->arg, s->failure.why);
}

static void back_off_for(struct lw__session *s, enum lw__stage stage, int status,
                         const char *why)
{
    note_failure(s, stage, status, why);
    back_off(s);
}

static void cancel_login(struct lw__session *s)
{
    if (s->login.needed) {
        s->login.needed = false;
        s->config->login->cancel(s->config->login_arg, &s->login);
    }
}

static void attempt_failed(struct lw__session *s, enum lw__stage stage, int status,
                           const char *why)
{
    bool was_ready = s->state == LW__SESSION_READY;

    LW__ASSERT(was_ready || lw__session_is_connecting(s));
    LW__ASSERT(s->state != LW__SESSION_RESOLVING && s->state != LW__SESSION_LOOKING_UP);
    s->link = NULL;
    if (was_ready) {
        s->failure.why[0] = '\0'; /* of the attempts before it was ready */
    }
    note_failure(s, stage, status, why);
    if (!was_ready && s->end != LW__END_RETARGETED && ++s->address < s->addresses.count &&
        lw__now_us() < s->connect_deadline_us) {
        connect_next(s);
    } else {
        back_off(s);
    }
}

static const char *const step_names[] = {
    "SENTINEL MYID", "AUTH", "SELECT",           "ROLE",        "CLIENT SETNAME",
    "CLIENT ID",     "INFO", "INFO replication", "CLUSTER MYID"};

/* Returns the name of the first step that was sent and not answered, or NULL if there is
 * none, or if no step at all was answered. */
static const char *unanswered_step(const struct lw__session *s)
{
    for (unsigned kind = 0; s->steps_answered != 0 && kind < LW__HANDSHAKE_STEPS;
         kind++) {
        if ((s->steps_sent & ~s->steps_answered) >> kind & 1) {
            return step_names[kind];
        }
    }
    return NULL;
}

static enum lw__stage stage_of(const struct lw__session *s)
{
    LW__ASSERT(s->link != NULL && s->state >= LW__SESSION_CONNECTING);
    if (s->state != LW__SESSION_CONNECTING) {
        return LW__STAGE_HANDSHAKE;
    }
    return lw__link_has_connected(s->link) ? LW__STAGE_TLS : LW__STAGE_CONNECT;
}

/* A server that accepts no clients sends an error instead of a reply and closes the
 * connection: that error is the reason. A proxy closes the connection, without an error,
 * at a command that it does not know. */
static void link_down(void *arg, const char *why)
{
    struct lw__session *s = arg;
    enum lw__stage stage = stage_of(s);
    bool refused = s->end == LW__END_REFUSED || s->end == LW__END_NO_SUBSCRIBE ||
                   lw__link_is_rejected(s->link);
    const char *step = unanswered_step(s);
    char text[LW_WHY_SIZE];

    cancel_login(s);
    (void)snprintf(text, sizeof(text), "%s", why);
    if (s->state == LW__SESSION_HANDSHAKING && *s->handshake_error) {
        memcpy(text, s->handshake_error, sizeof(text));
    } else if (s->state == LW__SESSION_HANDSHAKING && step != NULL &&
               lw__link_has_ended(s->link)) {
        (void)snprintf(text, sizeof(text),
                       "%.300s at %s (a proxy that does not support this command?)", why,
                       step);
    }
    attempt_failed(s, stage, refused ? LW_EREDIS : LW_ECONN, text);
}

/* Ends the connection, for a reason that lw__session_end has. */
static void end_with(struct lw__session *s, enum lw__session_end end, const char *why)
{
    s->end = end;
    lw__session_fail(s, why);
}

/* ---- the handshake ---- */

/* Outside sentinels, no id is known. */
static void warn_without_id(const struct lw__session *s)
{
    const struct lw__master_id *id = s->config->master_id;
    const char *reason = *s->run_id == '\0'    ? "its reply to INFO has no run id"
                         : *id->run_id == '\0' ? "they have not reported its run id yet"
                                               : NULL;
    char endpoint[LW__TEXT_MAX];

    if (reason != NULL) {
        lw__session_endpoint(s, endpoint);
        lw__log_cause(s->config->log, lw__now_us(), LOG_WARNING,
                      "it is not certain that %.200s is the master that the sentinels "
                      "mean: %s",
                      endpoint, reason);
    }
}

static void became_ready(struct lw__session *s)
{
    bool same_server = *s->new_run_id && strcmp(s->new_run_id, s->run_id) == 0;

    LW__ASSERT(s->state == LW__SESSION_HANDSHAKING && !s->login.needed);
    LW__ASSERT(s->steps_sent == s->steps_answered);
    lw__timer_cancel(s->config->loop, &s->timer);
    s->previous_id = same_server ? s->id : 0;
    s->id = s->new_id;
    memcpy(s->run_id, s->new_run_id, sizeof(s->run_id));
    s->state = LW__SESSION_READY;
    s->pending[0] = '\0';
    s->ready_us = lw__now_us();
    if (s->config->master_id != NULL) {
        warn_without_id(s);
    }
    s->events->ready(s->arg);
}

/* Returns the value of a field of INFO, which begins a line, or "" if there is none. */
static const char *info_field(const char *info, const char *field)
{
    const char *value = lw__reply_info_field(info, field);

    return value != NULL ? value : "";
}

static void read_field(const char *info, const char *field, char *ret, size_t size)
{
    const char *value = info_field(info, field);

    (void)snprintf(ret, size, "%.*s", (int)strcspn(value, "\r\n"), value);
}

static void read_id(const char *info, const char *field, char ret[LW__RUN_ID_SIZE])
{
    read_field(info, field, ret, LW__RUN_ID_SIZE);
}

/* Returns -1 if the field is missing, or is not a number up to `most`. */
static int64_t read_number(const char *info, const char *field, int64_t most)
{
    const char *value = info_field(info, field);

    return lw__check_number(value, strcspn(value, "\r\n"), most);
}

/* Returns true if the host's name has several addresses, of which some may be replicas. A
 * sentinel and a node of a cluster are what they are, and who resolves the endpoint is
 * asked by ROLE. */
static bool may_be_replica(const struct lw__session *s)
{
    const struct lw__session_config *config = s->config;

    return s->addresses.count > 1 && config->resolve == NULL && config->node_id == NULL &&
           !config->of_sentinel;
}

static void note_replication(struct lw__session *s, const char *info)
{
    read_id(info, "master_replid2:", s->former_replication_id);
    read_field(info, "second_repl_offset:", s->former_offset, sizeof(s->former_offset));
    s->replicas = read_number(info, "connected_slaves:", INT32_MAX);
}

/* Returns true if INFO reports this mode: "cluster", "sentinel" or "standalone". */
static bool has_mode(const char *info, const char *mode)
{
    size_t length = strlen(mode);

    return strncmp(info_field(info, "redis_mode:"), mode, length) == 0 ||
           strncmp(info_field(info, "server_mode:"), mode, length) == 0;
}

/* Valkey also reports the version of Redis that it is compatible with. */
static void note_software(struct lw__session *s, const char *info)
{
    bool valkey = *info_field(info, "valkey_version:") != '\0';
    char version[32];

    read_field(info, valkey ? "valkey_version:" : "redis_version:", version,
               sizeof(version));
    (void)snprintf(s->software, sizeof(s->software), "%s%s",
                   *version == '\0' ? ""
                   : valkey         ? "Valkey "
                                    : "Redis ",
                   version);
}

/* What the server rounds, and what its cached clock lags behind. */
#define UPTIME_ERROR_US (2000 * (int64_t)LW__MS)

static void note_info(struct lw__session *s, const char *info, int64_t sent_us)
{
    int64_t uptime_s = read_number(info, "uptime_in_seconds:", INT32_MAX);
    int64_t server_us = read_number(info, "server_time_usec:", INT64_MAX);
    int64_t round_trip_us = lw__now_us() - sent_us;

    s->server_us = server_us > 0 ? server_us : 0;
    s->server_asked_us = sent_us;
    s->clock_ahead_us = s->server_us - (lw__now_wall_us() - round_trip_us / 2);
    note_software(s, info);
    read_id(info, "run_id:", s->new_run_id);
    s->started_us = uptime_s < 0 ? 0
                                 : sent_us - uptime_s * 1000 * LW__MS + UPTIME_ERROR_US;
    s->wide = strncmp(info_field(info, "arch_bits:"), "64", 2) == 0;
    s->clustered = has_mode(info, "cluster");
}

/* A sentinel has no keys. Returns false if the session failed. */
static bool check_mode(struct lw__session *s, const char *info)
{
    if (s->config->of_sentinel || !has_mode(info, "sentinel")) {
        return true;
    }
    end_with(s, LW__END_REFUSED,
             "the server is a sentinel (use redis-sentinel://, with the name of a "
             "service)");
    return false;
}

/* Returns true if the connection is unusable after this error. */
static bool step_fails(enum lw__handshake kind, const char *error)
{
    return kind == LW__HANDSHAKE_SENTINEL_ID || kind == LW__HANDSHAKE_AUTH ||
           kind == LW__HANDSHAKE_SELECT || kind == LW__HANDSHAKE_ROLE ||
           lw__classify(error) == LW__ERR_LINK;
}

/* Returns true if the server cannot serve any client now. */
static bool is_busy(const char *error)
{
    return lw__classify(error) == LW__ERR_LINK && !lw__classify_account(error);
}

/* Returns true if another try as this user, or with this database, fails as well. */
static bool refuses_for_good(enum lw__handshake kind, const char *error)
{
    return kind == LW__HANDSHAKE_AUTH || kind == LW__HANDSHAKE_SELECT
               ? lw__classify_login(error)
               : lw__classify_account(error);
}

/* Returns false if the session failed: the next address is tried. */
static bool check_replica(struct lw__session *s, const char *info)
{
    char why[LW_WHY_SIZE];

    if (!may_be_replica(s) || strncmp(info_field(info, "role:"), "slave", 5) != 0) {
        return true;
    }
    (void)snprintf(why, sizeof(why), "%s is a replica",
                   s->addresses.list[s->address].text);
    lw__session_fail(s, why);
    return false;
}

/* The sentinels may not know yet that this server is no longer the master, or it may not
 * be the master yet. Returns false if the session failed. */
static bool check_role(struct lw__session *s, const struct lw__reply *reply)
{
    char why[LW_WHY_SIZE], note[LW__ADDRESS_MAP_NOTE_SIZE];
    const char *role = "";

    if (lw__reply_count(reply) > 0) {
        role = lw__reply_text(lw__reply_at(reply, 0), NULL);
    }
    if (strcmp(role, "master") == 0) {
        return true;
    }
    lw__address_map_note_target(s->config->address_map, &s->endpoint, note);
    (void)snprintf(why, sizeof(why),
                   "%.80s:%u%.100s is not the master: ROLE reports \"%.20s\"",
                   s->endpoint.host, (unsigned)s->endpoint.port, note, role);
    lw__session_fail(s, why);
    return false;
}

/* The endpoint may lead elsewhere: a wrong address map, or an address that means another
 * server on this host. Or the master has restarted, and no sentinel has sent it INFO
 * since then. Returns false if the session failed. */
static bool check_master_id(struct lw__session *s, const char *run_id)
{
    const struct lw__master_id *id = s->config->master_id;
    char why[LW_WHY_SIZE], endpoint[LW__TEXT_MAX];

    if (id == NULL || *id->run_id == '\0' || *run_id == '\0' ||
        strcmp(id->run_id, run_id) == 0 || s->started_us > id->known_us) {
        return true;
    }
    lw__session_endpoint(s, endpoint);
    (void)snprintf(why, sizeof(why),
                   "%.200s is not the process that the sentinels know as the master: its "
                   "run id is %.40s, theirs %.40s; another server is at this address "
                   "here, or it restarted within the last seconds",
                   endpoint, run_id, id->run_id);
    lw__session_fail(s, why);
    return false;
}

void lw__session_check_master(struct lw__session *session)
{
    if (session->state == LW__SESSION_READY) {
        (void)check_master_id(session, session->run_id);
    }
}

static void send_handshake(struct lw__session *s);

/* Returns true if MYID was refused only because the connection has not authenticated yet,
 * and we can. It may be permitted to an account other than the default user only. */
static bool must_log_in_first(const struct lw__session *s, const char *error)
{
    return (s->config->password != NULL || s->config->password_file != NULL) &&
           !s->authenticated &&
           (strncmp(error, "NOAUTH", 6) == 0 || lw__classify_denied(error));
}

/* Returns false if the session failed. */
static bool check_sentinel_id(struct lw__session *s, const struct lw__reply *reply)
{
    char why[LW_WHY_SIZE], id[LW__RUN_ID_SIZE * 4];

    if (strcmp(lw__reply_text(reply, NULL), s->config->sentinel_id) == 0) {
        return true;
    }
    lw__escape(lw__reply_text(reply, NULL), id, sizeof(id));
    (void)snprintf(why, sizeof(why),
                   "a different sentinel is at this address now: id \"%.60s\"", id);
    end_with(s, LW__END_OTHER_SENTINEL, why);
    return false;
}

/* An address may have passed to a node of another cluster. If the id is unknown, because
 * the server or the account does not report one, any node will do. Returns false if the
 * session failed. */
static bool check_node_id(struct lw__session *s, const struct lw__reply *reply)
{
    const char *expected = s->config->node_id;
    char why[LW_WHY_SIZE];

    lw__cluster_parse_myid(reply, s->node_id);
    if (*expected == '\0' || *s->node_id == '\0' || strcmp(expected, s->node_id) == 0) {
        return true;
    }
    (void)snprintf(why, sizeof(why),
                   "this is node %s; the slot map has node %s at this address",
                   s->node_id, expected);
    lw__session_fail(s, why);
    return false;
}

static const unsigned degraded_by[LW__HANDSHAKE_STEPS] = {
    [LW__HANDSHAKE_CLIENT_ID] = LW_DEGRADED_KILL,
    [LW__HANDSHAKE_INFO] = LW_DEGRADED_INFO,
    [LW__HANDSHAKE_REPLICATION] = LW_DEGRADED_INFO,
    [LW__HANDSHAKE_NODE_ID] = LW_DEGRADED_CLUSTER,
};

/* Logs that a step is refused without which the connection is usable, with its price if
 * it costs more than what only operators see. */
static void note_refused(struct lw__session *s, enum lw__handshake kind, const char *why)
{
    const char *price = s->config->of_sentinel ? NULL
                        : kind == LW__HANDSHAKE_INFO
                            ? "each hand-over costs one request more"
                        : kind == LW__HANDSHAKE_NODE_ID
                            ? "a node of another cluster at its address is used"
                            : NULL;

    s->degraded |= s->config->of_sentinel ? 0 : degraded_by[kind];
    lw__log_cause(s->config->log, lw__now_us(), price != NULL ? LOG_WARNING : LOG_INFO,
                  "%s%s%s", why, price != NULL ? "; " : "", price != NULL ? price : "");
}

/* Handles an error in place of a step's reply. Returns true if the step counts as done
 * nevertheless. */
static bool step_refused(struct lw__session *s, enum lw__handshake kind,
                         const char *error)
{
    bool other_sentinel = kind == LW__HANDSHAKE_SENTINEL_ID || s->authenticated;
    char why[LW_WHY_SIZE];

    if (kind == LW__HANDSHAKE_SENTINEL_ID && must_log_in_first(s, error)) {
        s->authenticated = true;
        s->steps_pending--;
        send_handshake(s);
        return false;
    }
    (void)snprintf(why, sizeof(why), "%s: %.300s%s", step_names[kind], error,
                   strstr(error, "SELECT is not allowed in cluster mode") != NULL
                       ? " (use database 0, or Valkey 9 with cluster-databases)"
                       : "");
    if (step_fails(kind, error)) {
        end_with(s,
                 other_sentinel && !is_busy(error) ? LW__END_OTHER_SENTINEL
                 : refuses_for_good(kind, error)   ? LW__END_REFUSED
                                                   : LW__END_FAULT,
                 why);
        return false;
    }
    note_refused(s, kind, why);
    if (!lw__classify_denied(error)) { /* NOPERM is about this one command */
        memcpy(s->handshake_error, why, sizeof(why));
    }
    return true;
}

/* Returns false if the session failed. */
static bool step_accepted(struct lw__session *s, enum lw__handshake kind,
                          const struct lw__reply *reply)
{
    switch (kind) {
    case LW__HANDSHAKE_CLIENT_ID:
        s->new_id = lw__reply_integer(reply);
        return true;
    case LW__HANDSHAKE_ROLE:
        return check_role(s, reply);
    case LW__HANDSHAKE_NODE_ID:
        return check_node_id(s, reply);
    case LW__HANDSHAKE_SENTINEL_ID:
        if (!check_sentinel_id(s, reply)) {
            return false;
        }
        if (!s->authenticated) {
            send_handshake(s);
        }
        return true;
    default:
        return true;
    }
}

static void step_answered(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__handshake_step *step =
        LW__CONTAINER_OF(struct lw__handshake_step, request, request);
    struct lw__session *s = step->session;
    bool is_error = lw__reply_type(reply) == LW__REPLY_ERROR;
    const char *text = lw__reply_text(reply, NULL);

    LW__ASSERT(s->state == LW__SESSION_HANDSHAKING && s->steps_pending > 0);
    LW__ASSERT(s->steps_sent >> step->kind & 1);
    *s->handshake_error = '\0';
    s->steps_answered |= 1U << step->kind;
    if (!(is_error ? step_refused(s, step->kind, text)
                   : step_accepted(s, step->kind, reply))) {
        return;
    }
    text = lw__reply_type(reply) == LW__REPLY_STRING ? text : "";
    if (step->kind == LW__HANDSHAKE_INFO) {
        if (!check_mode(s, text)) {
            return;
        }
        note_info(s, text, request->sent_us);
        if (!check_master_id(s, s->new_run_id)) {
            return;
        }
    } else if (step->kind == LW__HANDSHAKE_REPLICATION) {
        if (!check_replica(s, text)) {
            return;
        }
        note_replication(s, text);
    }
    if (--s->steps_pending == 0) {
        became_ready(s);
    }
}

void lw__session_request(struct lw__session *session, struct lw__request *request,
                         const struct lw__request_type *type, size_t words,
                         const char *const *text)
{
    struct lw__buffer out = {0};

    LW__ASSERT(session->link != NULL && session->state >= LW__SESSION_HANDSHAKING);
    *request = (struct lw__request){.expected = 1, .type = type};
    lw__resp_words(&out, words, text);
    lw__buffer_put(&out, "", 1); /* behind one word alone hiredis reads one byte more */
    if (out.failed ||
        lw__link_send(session->link, request, out.data, out.length - 1) != 0) {
        lw__session_fail(session, lw_strerror(LW_ENOMEM));
    }
    lw__buffer_wipe(&out); /* it may be an AUTH */
    lw__buffer_clear(&out);
}

void lw__session_note_missing(struct lw__session *session, const struct lw__reply *reply,
                              unsigned degraded, int level, const char *command,
                              const char *price)
{
    const char *error = lw__reply_text(reply, NULL);
    bool denied = lw__classify_denied(error);

    if (lw__reply_type(reply) != LW__REPLY_ERROR ||
        (!denied && !lw__classify_unknown(error))) {
        return;
    }
    session->degraded |= degraded;
    if (denied) {
        lw__log_cause(session->config->log, lw__now_us(), level,
                      "%s is not permitted; %s: %.300s", command, price, error);
    } else {
        lw__log_cause(session->config->log, lw__now_us(), level,
                      "%s is unknown to the server; %s", command, price);
    }
}

static void send_step(struct lw__session *s, enum lw__handshake kind, size_t words,
                      const char *const *text)
{
    static const struct lw__request_type type = {step_answered, NULL};
    struct lw__handshake_step *step = &s->steps[kind];

    LW__ASSERT(s->state == LW__SESSION_HANDSHAKING);
    step->session = s;
    step->kind = kind;
    s->steps_pending++;
    s->steps_sent |= 1U << kind;
    lw__session_request(s, &step->request, &type, words, text);
}

static void send_auth(struct lw__session *s, const char *username, const char *password)
{
    size_t length = strlen(password) + (username != NULL ? strlen(username) : 0);

    lw__link_wipe_sent(s->link, length + HANDSHAKE_MAX);
    if (username != NULL) {
        send_step(s, LW__HANDSHAKE_AUTH, 3, (const char *[]){"AUTH", username, password});
    } else {
        send_step(s, LW__HANDSHAKE_AUTH, 2, (const char *[]){"AUTH", password});
    }
}

static void send_questions(struct lw__session *s)
{
    const struct lw__session_config *config = s->config;
    char db[16];

    (void)snprintf(db, sizeof(db), "%d", config->db);
    if (config->db != 0) {
        send_step(s, LW__HANDSHAKE_SELECT, 2, (const char *[]){"SELECT", db});
    }
    if (config->resolve != NULL) {
        send_step(s, LW__HANDSHAKE_ROLE, 1, (const char *[]){"ROLE"});
    }
    send_step(s, LW__HANDSHAKE_SETNAME, 3,
              (const char *[]){"CLIENT", "SETNAME", config->client_name});
    send_step(s, LW__HANDSHAKE_CLIENT_ID, 2, (const char *[]){"CLIENT", "ID"});
    send_step(s, LW__HANDSHAKE_INFO, 2, (const char *[]){"INFO", "server"});
    if (config->node_id != NULL) {
        send_step(s, LW__HANDSHAKE_NODE_ID, 2, (const char *[]){"CLUSTER", "MYID"});
    }
    if (config->replication || may_be_replica(s)) {
        send_step(s, LW__HANDSHAKE_REPLICATION, 2,
                  (const char *[]){"INFO", "replication"});
    }
}

static void send_sentinel_id(struct lw__session *s)
{
    send_step(s, LW__HANDSHAKE_SENTINEL_ID, 2, (const char *[]){"SENTINEL", "MYID"});
}

/* Fails the session, without trying a further address. */
static void fail_without_login(struct lw__session *s, const char *why)
{
    s->address = s->addresses.count;
    lw__session_fail(s, why);
}

/* Sends AUTH with the password that the file has now. Returns false if the session
 * failed. */
static bool send_auth_from_file(struct lw__session *s)
{
    const struct lw__session_config *config = s->config;
    char password[LW__FIRST_LINE_MAX + 1], reason[200], why[LW_WHY_SIZE];
    int status =
        lw__first_line_of(config->password_file, false, password, reason, sizeof(reason));

    if (status == 0) {
        send_auth(s, config->username, password);
    }
    lw__wipe(password, sizeof(password));
    if (status != 0) {
        (void)snprintf(why, sizeof(why), "%s_file '%.250s': %s",
                       config->of_sentinel ? "sentinel_password" : "password",
                       config->password_file, reason);
        fail_without_login(s, why);
    }
    return status == 0;
}

/* A sentinel that wanted AUTH first is asked for its id in the same write. */
static void send_handshake(struct lw__session *s)
{
    if (s->config->password_file != NULL && !send_auth_from_file(s)) {
        return;
    }
    if (s->config->password != NULL) {
        send_auth(s, s->config->username, s->config->password);
    }
    if (s->authenticated) {
        send_sentinel_id(s);
    }
    send_questions(s);
}

void lw__session_log_in(struct lw__login *login, const char *username,
                        const char *password)
{
    struct lw__session *s = LW__CONTAINER_OF(struct lw__session, login, login);

    LW__ASSERT(login->needed && s->state == LW__SESSION_HANDSHAKING);
    cancel_login(s);
    send_auth(s, *username != '\0' ? username : NULL, password);
    send_questions(s);
}

void lw__session_refuse(struct lw__login *login, const char *why)
{
    struct lw__session *s = LW__CONTAINER_OF(struct lw__session, login, login);

    LW__ASSERT(login->needed && s->state == LW__SESSION_HANDSHAKING);
    cancel_login(s);
    fail_without_login(s, why);
}

/* ---- an attempt ---- */

/* Notes what the attempt waits for, and from which server. */
static void note_pending(struct lw__session *s, const char *what)
{
    struct lw__endpoint target = target_of(s);
    char note[ORIGIN_SIZE];
    const char *host = s->address < s->addresses.count
                           ? s->addresses.list[s->address].text
                           : target.host;
    bool v6 = strchr(host, ':') != NULL;

    if (s->config->path != NULL) {
        (void)snprintf(s->pending, sizeof(s->pending), "%s %.100s yet", what,
                       s->config->path);
        return;
    }
    note_origin(s, LW__STAGE_CONNECT, note);
    (void)snprintf(s->pending, sizeof(s->pending), "%s %s%.100s%s:%u yet%.200s", what,
                   v6 ? "[" : "", host, v6 ? "]" : "", (unsigned)target.port, note);
}

static void link_up(void *arg)
{
    struct lw__session *s = arg;
    const struct lw__session_config *config = s->config;

    LW__ASSERT(s->state == LW__SESSION_CONNECTING && s->link != NULL);
    lw__timer_set(config->loop, &s->timer, s->attempt_deadline_us);
    s->state = LW__SESSION_HANDSHAKING;
    s->steps_pending = s->steps_sent = s->steps_answered = 0;
    s->degraded = 0;
    note_pending(s, "no reply from");
    if (config->login != NULL) {
        s->login.needed = true;
        config->login->needed(config->login_arg, &s->login);
    } else if (config->sentinel_id != NULL) {
        send_sentinel_id(s);
    } else {
        send_handshake(s);
    }
}

static void link_push(void *arg, const struct lw__reply *reply)
{
    struct lw__session *s = arg;
    const char *text = lw__reply_text(reply, NULL);

    LW__ASSERT(s->link != NULL);
    if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        s->events->push(s->arg, reply);
    } else if (s->events->refused == NULL || !s->events->refused(s->arg, text)) {
        bool denied = lw__classify_denied(text) || lw__classify_unknown(text);

        if (denied) {
            s->degraded |= s->config->of_sentinel ? LW_DEGRADED_SENTINEL
                                                  : LW_DEGRADED_SUBSCRIBE;
        }
        end_with(s, denied ? LW__END_NO_SUBSCRIBE : LW__END_FAULT, text);
    }
}

static void link_unclaimed(void *arg)
{
    struct lw__session *s = arg;

    s->events->unclaimed(s->arg);
}

static void connect_next(struct lw__session *s)
{
    static const struct lw__link_events events = {link_up, link_down, link_push,
                                                  link_unclaimed};
    const struct lw__session_config *config = s->config;
    size_t left = s->addresses.count > 0 ? s->addresses.count - s->address : 1;
    int64_t now = lw__now_us(), share = (s->connect_deadline_us - now) / (int64_t)left;
    struct lw__tls_options tls = config->tls;
    struct lw__link_options options = {
        .host = config->path != NULL ? NULL : s->addresses.list[s->address].text,
        .port = target_of(s).port,
        .path = config->path,
        .connect_timeout_ms = share > LW__MS ? (uint32_t)(share / LW__MS) : 1,
        .request_timeout_ms = config->request_timeout_ms,
        .reply_max = config->reply_max != 0 ? config->reply_max : REPLY_MAX,
        .reply_elements = config->reply_elements,
        .tls = config->secure ? &tls : NULL,
        .silence = config->silence,
        .busy_poll_us = config->busy_poll_us,
    };
    char why[LW_WHY_SIZE] = "out of memory";
    int status;

    LW__ASSERT(s->link == NULL && (config->path != NULL || left > 0));
    if (tls.server_name == NULL) {
        tls.server_name = host_of(s);
    }
    lw__timer_cancel(config->loop, &s->timer); /* the link has its own */
    s->attempt_deadline_us = now + share;
    s->new_id = 0;
    *s->new_run_id = *s->node_id = *s->handshake_error = '\0';
    *s->former_replication_id = *s->former_offset = '\0';
    s->replicas = -1;
    s->server_us = 0;
    s->software[0] = '\0';
    s->authenticated = false;
    s->end = LW__END_FAULT;
    s->state = LW__SESSION_CONNECTING;
    note_pending(s, config->secure ? "no TLS connection to" : "no connection to");
    status = lw__link_open(config->loop, &options, &events, s, why, &s->link);
    if (status != 0) {
        attempt_failed(s, LW__STAGE_CONNECT, status, why);
    }
}

static void looked_up(void *arg, const struct lw__addresses *addresses, int status,
                      const char *why)
{
    struct lw__session *s = arg;

    LW__ASSERT(s->state == LW__SESSION_LOOKING_UP && s->address == 0);
    s->lookup = NULL;
    s->addresses = *addresses;
    if (addresses->count == 0) {
        back_off_for(s, LW__STAGE_RESOLVE, status, why);
    } else {
        connect_next(s);
    }
}

static void look_up(struct lw__session *s)
{
    struct lw__endpoint target = target_of(s);

    LW__ASSERT(s->lookup == NULL && *target.host != '\0');
    s->state = LW__SESSION_LOOKING_UP;
    (void)snprintf(s->pending, sizeof(s->pending), "no address for \"%.100s\" yet",
                   target.host);
    if (lw__resolve_start(s->config->loop, target.host, s->config->connect_timeout_ms,
                          looked_up, s, &s->lookup) != 0) {
        back_off_for(s, LW__STAGE_RESOLVE, LW_ENOMEM, lw_strerror(LW_ENOMEM));
    }
}

static void begin(struct lw__session *s)
{
    const struct lw__session_config *config = s->config;

    LW__ASSERT(s->state == LW__SESSION_BACKOFF && s->link == NULL);
    s->connect_deadline_us = lw__now_us() + (int64_t)config->connect_timeout_ms * LW__MS;
    s->address = s->addresses.count = 0;
    s->end = LW__END_FAULT;
    s->failure.why[0] = '\0';
    if (config->path != NULL) {
        connect_next(s);
        return;
    }
    lw__timer_set(config->loop, &s->timer, s->connect_deadline_us);
    if (config->resolve == NULL) {
        look_up(s);
        return;
    }
    s->state = LW__SESSION_RESOLVING;
    (void)snprintf(s->pending, sizeof(s->pending),
                   "no sentinel has reported the master's address yet");
    config->resolve(config->resolve_arg, s);
}

void lw__session_resolved(struct lw__session *session,
                          const struct lw__endpoint *endpoint)
{
    LW__ASSERT(session->state == LW__SESSION_RESOLVING);
    session->endpoint = *endpoint;
    look_up(session);
}

void lw__session_unresolved(struct lw__session *session, int status, const char *why)
{
    LW__ASSERT(session->state == LW__SESSION_RESOLVING && status != 0);
    back_off_for(session, LW__STAGE_RESOLVE, status, why);
}

static void stop_lookup(struct lw__session *s)
{
    lw__resolve_cancel(s->lookup);
    s->lookup = NULL;
}

void lw__session_retarget(struct lw__session *session, const char *why)
{
    LW__ASSERT(session->state != LW__SESSION_STOPPED && session->config->resolve != NULL);
    session->backoff_ms = 0;
    if (session->link != NULL) {
        end_with(session, LW__END_RETARGETED, why);
    } else if (session->state != LW__SESSION_RESOLVING) {
        stop_lookup(session);
        session->state = LW__SESSION_BACKOFF;
        lw__timer_set(session->config->loop, &session->timer, lw__now_us());
    }
}

/* ---- its life ---- */

static void handshake_late(void *arg)
{
    struct lw__session *s = arg;

    if (s->state == LW__SESSION_HANDSHAKING && lw__now_us() >= s->attempt_deadline_us) {
        lw__session_fail(s, "connected, but no reply to the handshake in time");
    }
}

static void look_up_late(struct lw__session *s)
{
    char why[LW_WHY_SIZE];

    LW__ASSERT(s->lookup != NULL);
    stop_lookup(s);
    (void)snprintf(why, sizeof(why), "timed out looking up \"%.100s\"",
                   target_of(s).host);
    back_off_for(s, LW__STAGE_RESOLVE, LW_ECONN, why);
}

static void timer_due(void *arg)
{
    struct lw__session *s = arg;

    switch (s->state) {
    case LW__SESSION_RESOLVING:
        lw__session_unresolved(s, LW_ECONN,
                               "timed out waiting for the master's address from the "
                               "sentinels");
        break;
    case LW__SESSION_LOOKING_UP:
        look_up_late(s);
        break;
    case LW__SESSION_CONNECTING:
    case LW__SESSION_HANDSHAKING:
        lw__late_check_start(s->config->loop, &s->late_check);
        break;
    default:
        begin(s);
    }
}

void lw__session_init(struct lw__session *session,
                      const struct lw__session_config *config,
                      const struct lw__session_events *events, void *arg)
{
    *session = (struct lw__session){.config = config, .events = events, .arg = arg};
    lw__timer_init(&session->timer, timer_due, session);
    lw__late_check_init(&session->late_check, handshake_late, session);
}

void lw__session_start(struct lw__session *session)
{
    if (session->state != LW__SESSION_STOPPED) {
        return;
    }
    session->state = LW__SESSION_BACKOFF; /* of no length: events come from the loop */
    lw__timer_set(session->config->loop, &session->timer, lw__now_us());
}

static void leave_resolver(struct lw__session *s)
{
    if (s->prev_resolved == NULL) {
        return;
    }
    *s->prev_resolved = s->next_resolved;
    if (s->next_resolved != NULL) {
        s->next_resolved->prev_resolved = s->prev_resolved;
    }
    s->prev_resolved = NULL;
}

void lw__session_stop(struct lw__session *session)
{
    cancel_login(session);
    leave_resolver(session);
    lw__timer_cancel(session->config->loop, &session->timer);
    lw__late_check_cancel(session->config->loop, &session->late_check);
    stop_lookup(session);
    lw__link_close(session->link);
    session->link = NULL;
    session->state = LW__SESSION_STOPPED;
}

const char *lw__session_pending(const struct lw__session *session)
{
    if (!lw__session_is_connecting(session)) {
        return "";
    }
    return *session->failure.why ? session->failure.why : session->pending;
}

int lw__session_combine_status(int so_far, int status)
{
    if (so_far == 0 || so_far == status) {
        return status;
    }
    if (so_far == LW_ESYSTEM || so_far == LW_ENOMEM) {
        return so_far;
    }
    if (status == LW_ESYSTEM || status == LW_ENOMEM) {
        return status;
    }
    return LW_ECONN;
}

void lw__session_fail(struct lw__session *session, const char *why)
{
    if (session->link != NULL) {
        lw__link_fail(session->link, why);
    }
}
