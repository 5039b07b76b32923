/* SPDX-License-Identifier: MIT */
/* One connection kept alive. Must not know what is said on it. Happy path: begin() looks
 * the name up, connect_next() tries an address, link_up() greets, became_ready(). An
 * address that fails is followed by the next one while there is time, the last one by
 * back_off() and, after that, all of it again. Greetings that are refused end the
 * connection only where it is of no use without them (AUTH, SELECT, ROLE). Where somebody
 * is to be asked what to log in with, the greetings wait for that; where a guide is to be
 * asked for the host, so does the look-up. A sentinel whose id is expected must prove it
 * before anything else is sent. */
#include "redis/session.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "base/random.h"
#include "lockwire.h"
#include "loop/resolve.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/reply.h"
#include "redis/resp.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define REPLY_MAX ((size_t)1 << 20)
#define GREETINGS_MAX ((size_t)1024) /* bytes of them all, but for user and password */

static void connect_next(struct lw__session *s);

/* Keeps the failure that got farther. If both got equally far it keeps the later one,
 * unless only the earlier one may pass by itself. */
static void note_failure(struct lw__session *s, enum lw__stage stage, int status,
                         const char *why)
{
    struct lw__failure *f = &s->failure;
    bool earlier_counts = stage < f->stage || (stage == f->stage && status == LW_EREDIS &&
                                               f->status == LW_ECONN);

    if (*f->why == '\0' || s->turned || !earlier_counts) {
        f->stage = stage;
        f->status = status;
        lw__escape(why, f->why, sizeof(f->why));
    }
}

/* Between half the present delay and all of it; the delay doubles unless the connection
 * that ended had lasted for longer than the last one. */
static void back_off(struct lw__session *s)
{
    const struct lw__session_config *a = s->config;
    int64_t now = lw__now_us(), most;

    if (s->state == LW__SESSION_READY &&
        now - s->ready_us > (int64_t)s->backoff_ms * LW__MS) {
        s->backoff_ms = 0;
    }
    if (s->backoff_ms == 0) {
        s->backoff_ms = a->backoff_min_ms;
    } else {
        s->backoff_ms = s->backoff_ms > a->backoff_max_ms / 2 ? a->backoff_max_ms
                                                              : s->backoff_ms * 2;
    }
    most = (int64_t)s->backoff_ms * LW__MS;
    s->state = LW__SESSION_BACKOFF;
    s->link = NULL;
    lw__timer_set(a->loop, &s->timer,
                  s->turned ? now : now + lw__random_between(a->random, most / 2, most));
    s->turned = false;
    if (s->denied) { /* trying again is of no use */
        lw__session_stop(s);
    }
    s->denied = false;
    s->events->lost(s->arg, s->failure.why);
}

static void back_off_for(struct lw__session *s, enum lw__stage stage, int status,
                         const char *why)
{
    note_failure(s, stage, status, why);
    back_off(s);
}

static void forget_login(struct lw__session *s)
{
    if (s->login.wanted) {
        s->login.wanted = false;
        s->config->login->forget(s->config->login_arg, &s->login);
    }
}

static void attempt_failed(struct lw__session *s, enum lw__stage stage, int status,
                           const char *why)
{
    s->link = NULL;
    s->greeting = false;
    if (s->state != LW__SESSION_CONNECTING) {
        s->failure.why[0] = '\0'; /* of how it became ready */
    }
    note_failure(s, stage, status, why);
    if (s->state == LW__SESSION_CONNECTING && !s->turned &&
        ++s->address < s->addresses.count && lw__now_us() < s->limit_us) {
        connect_next(s);
    } else {
        back_off(s);
    }
}

static const char *const greeting_names[] = {
    "SENTINEL MYID", "AUTH", "SELECT",           "ROLE",        "CLIENT SETNAME",
    "CLIENT ID",     "INFO", "INFO replication", "CLUSTER MYID"};

/* Returns the name of the first greeting that was sent and not answered, or NULL if there
 * is none or no greeting at all was answered. */
static const char *unanswered(const struct lw__session *s)
{
    for (unsigned kind = 0; s->greetings_answered != 0 && kind < LW__GREETINGS; kind++) {
        if ((s->greetings_sent & ~s->greetings_answered) >> kind & 1) {
            return greeting_names[kind];
        }
    }
    return NULL;
}

static enum lw__stage stage_of(const struct lw__session *s)
{
    if (s->greeting || s->state != LW__SESSION_CONNECTING) {
        return LW__STAGE_GREET;
    }
    return lw__link_has_connected(s->link) ? LW__STAGE_HANDSHAKE : LW__STAGE_CONNECT;
}

/* A server that accepts no clients sends an error instead of a reply and closes the
 * connection: that error is the reason. A proxy closes the connection, without an error,
 * at a command that it does not know. */
static void link_down(void *arg, const char *why)
{
    struct lw__session *s = arg;
    enum lw__stage stage = stage_of(s);
    int status = s->refused || lw__link_is_rejected(s->link) ? LW_EREDIS : LW_ECONN;
    const char *at = unanswered(s);
    char text[LW__WHY_MAX];

    forget_login(s);
    (void)snprintf(text, sizeof(text), "%s", why);
    if (s->greeting && *s->last_words) {
        memcpy(text, s->last_words, sizeof(text));
    } else if (s->greeting && at != NULL && lw__link_has_ended(s->link)) {
        (void)snprintf(text, sizeof(text), "%s at %s, as proxies do that do not know it",
                       why, at);
    }
    attempt_failed(s, stage, status, text);
}

static void became_ready(struct lw__session *s)
{
    bool same_server = *s->told_run_id && strcmp(s->told_run_id, s->run_id) == 0;

    lw__timer_cancel(s->config->loop, &s->timer);
    s->previous_id = same_server ? s->id : 0;
    s->id = s->told_id;
    memcpy(s->run_id, s->told_run_id, sizeof(s->run_id));
    s->state = LW__SESSION_READY;
    s->greeting = false;
    s->pending[0] = '\0';
    s->ready_us = lw__now_us();
    if (s->config->guide != NULL) {
        s->config->guide->arrived(s->config->guide_arg, &s->way, s->replication_id);
    }
    s->events->ready(s->arg);
}

/* The value of a field of INFO, which begins a line; "" where there is none. */
static const char *info_field(const char *info, const char *field)
{
    size_t length = strlen(field);

    while (strncmp(info, field, length) != 0) {
        info += strcspn(info, "\n");
        if (*info++ == '\0') {
            return "";
        }
    }
    return info + length;
}

static void take_id(const char *info, const char *field, char ret[LW__RUN_ID_SIZE])
{
    const char *value = info_field(info, field);

    (void)snprintf(ret, LW__RUN_ID_SIZE, "%.*s", (int)strcspn(value, "\r\n"), value);
}

static void note_replication(struct lw__session *s, const char *info)
{
    take_id(info, "master_replid:", s->replication_id);
    take_id(info, "master_replid2:", s->former_replication_id);
    s->is_master = strncmp(info_field(info, "role:"), "master", 6) == 0;
}

void lw__session_note_replication(struct lw__session *session,
                                  const struct lw__reply *reply)
{
    if (lw__reply_type(reply) != LW__REPLY_STRING) {
        return;
    }
    note_replication(session, lw__reply_text(reply, NULL));
    if (session->is_master && session->config->guide != NULL) {
        session->config->guide->arrived(session->config->guide_arg, &session->way,
                                        session->replication_id);
    }
}

static void note_info(struct lw__session *s, const char *info)
{
    take_id(info, "run_id:", s->told_run_id);
    s->wide = strncmp(info_field(info, "arch_bits:"), "64", 2) == 0;
    s->clustered = strncmp(info_field(info, "redis_mode:"), "cluster", 7) == 0 ||
                   strncmp(info_field(info, "server_mode:"), "cluster", 7) == 0;
}

/* Without these the connection is of no use; without the others it is. */
static bool greeting_fails(enum lw__greeting kind, const char *error)
{
    return kind == LW__GREET_MYID || kind == LW__GREET_AUTH || kind == LW__GREET_SELECT ||
           kind == LW__GREET_ROLE || lw__classify(error) == LW__ERR_LINK;
}

/* Returns true if the server cannot serve any connection now, whoever it is. */
static bool is_busy(const char *error)
{
    return lw__classify(error) == LW__ERR_LINK && !lw__classify_account(error);
}

/* Returns true if another try as this user, or with this database, fails as well. */
static bool refuses_for_good(enum lw__greeting kind, const char *error)
{
    return kind == LW__GREET_AUTH || kind == LW__GREET_SELECT
               ? lw__classify_login(error)
               : lw__classify_account(error);
}

/* Who sent us here may not know yet that it is no longer the master, or is not yet. */
static bool is_master(struct lw__session *s, const struct lw__reply *reply)
{
    char why[LW__WHY_MAX];
    const char *role = "";

    if (lw__reply_count(reply) > 0) {
        role = lw__reply_text(lw__reply_at(reply, 0), NULL);
    }
    if (strcmp(role, "master") == 0) {
        return true;
    }
    (void)snprintf(why, sizeof(why), "%.80s:%u is not the master, its role is \"%.20s\"",
                   s->way.host, (unsigned)s->way.port, role);
    lw__session_fail(s, why);
    return false;
}

static void enter(struct lw__session *s);

/* Returns true if MYID was refused only because the connection has not authenticated yet,
 * and we can. An account other than the default user may be all that may ask. */
static bool has_to_log_in(const struct lw__session *s, const char *error)
{
    return s->config->password != NULL && !s->authenticated &&
           (strncmp(error, "NOAUTH", 6) == 0 || lw__classify_denied(error));
}

/* Returns false if the session failed. */
static bool is_expected(struct lw__session *s, const struct lw__reply *reply)
{
    char why[LW__WHY_MAX], id[LW__RUN_ID_SIZE * 4];

    if (strcmp(lw__reply_text(reply, NULL), s->config->sentinel_id) == 0) {
        return true;
    }
    lw__escape(lw__reply_text(reply, NULL), id, sizeof(id));
    (void)snprintf(why, sizeof(why), "another sentinel is there now, its id is \"%.60s\"",
                   id);
    s->stranger = true;
    lw__session_fail(s, why);
    return false;
}

/* An address may have passed to a node of another cluster. Without an id, of a server or
 * an account that does not tell one, any node will do. */
static bool is_expected_node(struct lw__session *s, const struct lw__reply *reply)
{
    const char *expected = s->config->node_id;
    char why[LW__WHY_MAX];

    lw__cluster_parse_myid(reply, s->node_id);
    if (*expected == '\0' || *s->node_id == '\0' || strcmp(expected, s->node_id) == 0) {
        return true;
    }
    (void)snprintf(why, sizeof(why),
                   "it is the node %s, not %s, which the cluster has there", s->node_id,
                   expected);
    lw__session_fail(s, why);
    return false;
}

static void greeted(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__greet *greet = LW__CONTAINER_OF(struct lw__greet, request, request);
    struct lw__session *s = greet->session;
    const char *text = lw__reply_text(reply, NULL);

    *s->last_words = '\0';
    s->greetings_answered |= 1U << greet->kind;
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        char why[LW__WHY_MAX];

        (void)snprintf(why, sizeof(why), "%s: %s", greeting_names[greet->kind], text);
        if (greet->kind == LW__GREET_MYID && has_to_log_in(s, text)) {
            s->authenticated = true;
            s->greetings_open--;
            enter(s);
            return;
        }
        if (greeting_fails(greet->kind, text)) {
            s->stranger = !is_busy(text) &&
                          (greet->kind == LW__GREET_MYID || s->authenticated);
            s->refused = !s->stranger && refuses_for_good(greet->kind, text);
            lw__session_fail(s, why);
            return;
        }
        lw__log(s->config->log, LOG_INFO, "%s", why);
        if (!lw__classify_denied(text)) { /* that is about the one command */
            memcpy(s->last_words, why, sizeof(why));
        }
    } else if (greet->kind == LW__GREET_ID) {
        s->told_id = lw__reply_integer(reply);
    } else if ((greet->kind == LW__GREET_ROLE && !is_master(s, reply)) ||
               (greet->kind == LW__GREET_NODE && !is_expected_node(s, reply))) {
        return;
    } else if (greet->kind == LW__GREET_MYID) {
        if (!is_expected(s, reply)) {
            return;
        }
        if (!s->authenticated) {
            enter(s);
        }
    }
    if (greet->kind == LW__GREET_INFO) {
        note_info(s, lw__reply_type(reply) == LW__REPLY_STRING ? text : "");
    } else if (greet->kind == LW__GREET_REPLICATION) {
        note_replication(s, lw__reply_type(reply) == LW__REPLY_STRING ? text : "");
    }
    if (--s->greetings_open == 0) {
        became_ready(s);
    }
}

void lw__session_request(struct lw__session *session, struct lw__request *request,
                         const struct lw__request_type *type, size_t words,
                         const char *const *text)
{
    struct lw__buffer out = {0};

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

static const struct lw__request_type greeting = {greeted, NULL};

static void greet(struct lw__session *s, enum lw__greeting kind, size_t words,
                  const char *const *text)
{
    struct lw__greet *greet = &s->greetings[kind];

    greet->session = s;
    greet->kind = kind;
    s->greetings_open++;
    s->greetings_sent |= 1U << kind;
    lw__session_request(s, &greet->request, &greeting, words, text);
}

static void log_in(struct lw__session *s, const char *username, const char *password)
{
    size_t length = strlen(password) + (username != NULL ? strlen(username) : 0);

    lw__link_wipe_sent(s->link, length + GREETINGS_MAX);
    if (username != NULL) {
        greet(s, LW__GREET_AUTH, 3, (const char *[]){"AUTH", username, password});
    } else {
        greet(s, LW__GREET_AUTH, 2, (const char *[]){"AUTH", password});
    }
}

static void introduce(struct lw__session *s)
{
    const struct lw__session_config *a = s->config;
    char db[16];

    (void)snprintf(db, sizeof(db), "%d", a->db);
    if (a->db != 0) {
        greet(s, LW__GREET_SELECT, 2, (const char *[]){"SELECT", db});
    }
    if (a->guide != NULL) {
        greet(s, LW__GREET_ROLE, 1, (const char *[]){"ROLE"});
    }
    greet(s, LW__GREET_SETNAME, 3, (const char *[]){"CLIENT", "SETNAME", a->client_name});
    greet(s, LW__GREET_ID, 2, (const char *[]){"CLIENT", "ID"});
    greet(s, LW__GREET_INFO, 2, (const char *[]){"INFO", "server"});
    if (a->node_id != NULL) {
        greet(s, LW__GREET_NODE, 2, (const char *[]){"CLUSTER", "MYID"});
    }
    if (a->replication) {
        greet(s, LW__GREET_REPLICATION, 2, (const char *[]){"INFO", "replication"});
    }
}

static void ask_for_id(struct lw__session *s)
{
    greet(s, LW__GREET_MYID, 2, (const char *[]){"SENTINEL", "MYID"});
}

/* A sentinel that wanted AUTH first is asked for its id in the same write. */
static void enter(struct lw__session *s)
{
    if (s->config->password != NULL) {
        log_in(s, s->config->username, s->config->password);
    }
    if (s->authenticated) {
        ask_for_id(s);
    }
    introduce(s);
}

static const char *host_of(const struct lw__session *s)
{
    return s->config->guide != NULL ? s->way.host : s->config->host;
}

/* Notes what the attempt waits for, and from which server. */
static void tell_pending(struct lw__session *s, const char *what, const char *yet)
{
    const struct lw__session_config *a = s->config;
    unsigned port = a->guide != NULL ? s->way.port : a->port;
    const char *host =
        s->address < s->addresses.count ? s->addresses.list[s->address].text : host_of(s);
    bool v6;

    if (a->path != NULL) {
        (void)snprintf(s->pending, sizeof(s->pending), "%s %.100s%s", what, a->path, yet);
        return;
    }
    v6 = strchr(host, ':') != NULL;
    (void)snprintf(s->pending, sizeof(s->pending), "%s %s%.100s%s:%u%s", what,
                   v6 ? "[" : "", host, v6 ? "]" : "", port, yet);
}

static void link_up(void *arg)
{
    struct lw__session *s = arg;
    const struct lw__session_config *a = s->config;

    lw__timer_set(a->loop, &s->timer, s->share_us);
    s->greeting = true;
    s->greetings_open = s->greetings_sent = s->greetings_answered = 0;
    tell_pending(s, "no answer from", " yet");
    if (a->login != NULL) {
        s->login.wanted = true;
        a->login->wanted(a->login_arg, &s->login);
        return;
    }
    if (a->sentinel_id != NULL) {
        ask_for_id(s);
    } else {
        enter(s);
    }
}

void lw__session_log_in(struct lw__login *login, const char *username,
                        const char *password)
{
    struct lw__session *s = LW__CONTAINER_OF(struct lw__session, login, login);

    forget_login(s);
    log_in(s, *username != '\0' ? username : NULL, password);
    introduce(s);
}

void lw__session_refuse(struct lw__login *login, const char *why)
{
    struct lw__session *s = LW__CONTAINER_OF(struct lw__session, login, login);

    forget_login(s);
    s->address = s->addresses.count;
    lw__session_fail(s, why);
}

static void link_push(void *arg, const struct lw__reply *reply)
{
    struct lw__session *s = arg;
    const char *text = lw__reply_text(reply, NULL);

    if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        s->events->push(s->arg, reply);
    } else if (s->events->refused == NULL || !s->events->refused(s->arg, text)) {
        s->denied = lw__classify_denied(text) || lw__classify_unknown(text);
        s->refused = s->denied;
        lw__session_fail(s, text);
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
    const struct lw__session_config *a = s->config;
    size_t left = s->addresses.count > 0 ? s->addresses.count - s->address : 1;
    int64_t now = lw__now_us(), share = (s->limit_us - now) / (int64_t)left;
    struct lw__tls_options tls = a->tls;
    struct lw__link_options options = {
        .host = a->path != NULL ? NULL : s->addresses.list[s->address].text,
        .port = a->guide != NULL ? s->way.port : a->port,
        .path = a->path,
        .connect_timeout_ms = share > LW__MS ? (uint32_t)(share / LW__MS) : 1,
        .request_timeout_ms = a->request_timeout_ms,
        .reply_max = a->reply_max != 0 ? a->reply_max : REPLY_MAX,
        .reply_elements = a->reply_elements,
        .tls = a->secure ? &tls : NULL,
    };
    char why[LW__WHY_MAX] = "out of memory";
    int status;

    if (tls.server_name == NULL) {
        tls.server_name = host_of(s);
    }
    lw__timer_cancel(a->loop, &s->timer); /* the link has its own */
    s->share_us = now + share;
    s->told_id = 0;
    *s->told_run_id = *s->node_id = *s->last_words = '\0';
    *s->replication_id = *s->former_replication_id = '\0';
    s->stranger = s->authenticated = s->refused = s->greeting = false;
    tell_pending(s, a->secure ? "no TLS connection to" : "no connection to", " yet");
    status = lw__link_open(a->loop, &options, &events, s, why, &s->link);
    if (status != 0) {
        attempt_failed(s, LW__STAGE_CONNECT, status, why);
    }
}

static void looked_up(void *arg, const struct lw__addresses *addresses, int status,
                      const char *why)
{
    struct lw__session *s = arg;

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
    (void)snprintf(s->pending, sizeof(s->pending), "no address of \"%.100s\" yet",
                   host_of(s));
    if (lw__resolve_start(s->config->loop, host_of(s), s->config->connect_timeout_ms,
                          looked_up, s, &s->lookup) != 0) {
        back_off_for(s, LW__STAGE_RESOLVE, LW_ENOMEM, lw_strerror(LW_ENOMEM));
    }
}

static void begin(struct lw__session *s)
{
    const struct lw__session_config *a = s->config;

    s->state = LW__SESSION_CONNECTING;
    s->limit_us = lw__now_us() + (int64_t)a->connect_timeout_ms * LW__MS;
    s->address = s->addresses.count = 0;
    s->denied = s->stranger = false;
    s->failure.why[0] = '\0';
    if (a->path != NULL) {
        connect_next(s);
        return;
    }
    lw__timer_set(a->loop, &s->timer, s->limit_us);
    if (a->guide != NULL) {
        s->way.wanted = true;
        (void)snprintf(s->pending, sizeof(s->pending),
                       "no sentinel has said yet where the master is");
        a->guide->wanted(a->guide_arg, &s->way);
    } else {
        look_up(s);
    }
}

void lw__session_go(struct lw__way *way, const char *host, uint16_t port)
{
    (void)snprintf(way->host, sizeof(way->host), "%s", host);
    way->port = port;
    way->wanted = false;
    look_up(LW__CONTAINER_OF(struct lw__session, way, way));
}

void lw__session_astray(struct lw__way *way, int status, const char *why)
{
    way->wanted = false;
    back_off_for(LW__CONTAINER_OF(struct lw__session, way, way), LW__STAGE_RESOLVE,
                 status, why);
}

static void stop_looking(struct lw__session *s)
{
    lw__resolve_cancel(s->lookup);
    s->lookup = NULL;
}

bool lw__session_stands(const struct lw__way *way)
{
    return LW__CONTAINER_OF(const struct lw__session, way, way)->state ==
           LW__SESSION_READY;
}

void lw__session_turn(struct lw__way *way, const char *why)
{
    struct lw__session *s = LW__CONTAINER_OF(struct lw__session, way, way);

    s->backoff_ms = 0;
    if (s->link != NULL) {
        s->turned = true;
        lw__session_fail(s, why);
    } else if (!way->wanted) {
        stop_looking(s);
        s->state = LW__SESSION_BACKOFF;
        lw__timer_set(s->config->loop, &s->timer, lw__now_us());
    }
}

/* A loop that stalled is no reason to give up what has arrived meanwhile: first all of it
 * may be read, for which a whole turn has to pass. */
static void greeting_overdue(void *arg)
{
    struct lw__session *s = arg;

    if (s->state != LW__SESSION_CONNECTING || lw__now_us() < s->share_us) {
        return; /* it is ready, or the next attempt has begun */
    }
    if (s->looked) {
        lw__session_fail(s, "the server does not answer who connects");
    } else {
        s->looked = true;
        lw__defer(s->config->loop, &s->overdue, false);
    }
}

static void timer_due(void *arg)
{
    struct lw__session *s = arg;

    if (s->state != LW__SESSION_CONNECTING) {
        begin(s);
    } else if (s->way.wanted) {
        lw__session_astray(&s->way, LW_ECONN,
                           "no sentinel has answered in time where the master is");
    } else if (s->lookup != NULL) {
        stop_looking(s);
        back_off_for(s, LW__STAGE_RESOLVE, LW_ECONN,
                     "no answer to the look-up of the server's name in time");
    } else {
        s->looked = false;
        lw__defer(s->config->loop, &s->overdue, false);
    }
}

void lw__session_init(struct lw__session *session,
                      const struct lw__session_config *config,
                      const struct lw__session_events *events, void *arg)
{
    *session = (struct lw__session){.config = config, .events = events, .arg = arg};
    lw__timer_init(&session->timer, timer_due, session);
    lw__defer_init(&session->overdue, greeting_overdue, session);
}

void lw__session_start(struct lw__session *session)
{
    if (session->state != LW__SESSION_STOPPED) {
        return;
    }
    session->state = LW__SESSION_BACKOFF; /* of no length: events come from the loop */
    lw__timer_set(session->config->loop, &session->timer, lw__now_us());
}

static void forget_way(struct lw__session *s)
{
    s->way.wanted = s->turned = false;
    if (s->way.prev != NULL) {
        s->config->guide->forget(s->config->guide_arg, &s->way);
    }
}

void lw__session_stop(struct lw__session *session)
{
    forget_login(session);
    forget_way(session);
    lw__timer_cancel(session->config->loop, &session->timer);
    lw__defer_cancel(session->config->loop, &session->overdue);
    stop_looking(session);
    lw__link_close(session->link);
    session->link = NULL;
    session->state = LW__SESSION_STOPPED;
}

const char *lw__session_pending(const struct lw__session *session)
{
    if (session->state != LW__SESSION_CONNECTING) {
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
