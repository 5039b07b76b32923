/* SPDX-License-Identifier: MIT */
/* doctor: can this URL and account do everything? The findings are the library's own log
 * entries of a fresh connection, what lw_inspect and the statistics report, and the
 * results of a trial.
 *
 * examine() asks a server with two clients, one after another. The first one reads the
 * guard's record, and never writes it. The second one has no guard, so that its trial
 * works where a guard is closed or has another time; its locks have names of its own. For
 * the same reason each server of a quorum is asked by its own URL; only if a majority has
 * a record already, which every client of the quorum extends, the quorum is tried as a
 * whole.
 *
 * The trial is, for each name: acquire, a second request that queues, release, by which
 * the second one gets the lock, renew, release. */
#include "base/check.h"
#include "base/url.h"
#include "findings.h"
#include "lockwire.h"
#include "options.h"
#include "password.h"
#include "query.h"
#include "quorum_url.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <syslog.h>
#include <unistd.h>

#define CLIENT_NAME "lockwire-doctor"
#define LIMIT_MS 60000 /* for each client */
#define POLL_MS 2
#define SETTLE_MS 10000 /* for the subscription, and for the place in the queue */
#define PEERS_MS 300    /* for sentinels that the URL does not list */
#define LEASE_MS 3000
#define WAIT_MS 12000 /* for a waiter that polls, beyond a lease */
#define BASE_SIZE 560
#define NAME_SIZE (BASE_SIZE + 40)
#define SPREAD 64     /* names that are looked at in a cluster, to find its masters */
#define PLACES_MAX 32 /* masters at which the trial is made */

/* The examination of one URL: of a server, of sentinels, of a cluster, of a quorum. */
struct patient {
    struct findings *findings;
    const struct options *options; /* with the URL */
    struct options own;            /* of the client that runs */
    char name[BASE_SIZE];          /* of the trial's locks, without the place */
    bool cluster, sentinels;
    struct query_guard guard;
    int places[PLACES_MAX]; /* in a cluster: one name for each master */
    size_t place_count;
    bool must_poll; /* the library has logged that no messages arrive */
    int code;       /* 0, or the first failure */
};

static void fails(struct patient *patient, int code)
{
    patient->code = patient->code == 0 ? code : patient->code;
}

/* The name of place -1 is the patient's own. In a cluster the others have tags. */
static void write_name(const struct patient *patient, int place, bool rw, char *ret)
{
    char tag[24] = "";

    if (place >= 0) {
        (void)snprintf(tag, sizeof(tag), ":{%d}", place);
    }
    (void)snprintf(ret, NAME_SIZE, "%s%s%s", patient->name, tag, rw ? ":rw" : "");
}

/* ---- the parts that both clients have in common ---- */

/* What on_down and add_guard report is left out. Each entry about missing messages has
 * the word "poll", by which no more time than needed is spent on waiting for them. */
static void on_log(struct query *query, int level, const char *message)
{
    struct patient *patient = query->arg;

    patient->must_poll = patient->must_poll ||
                         (level <= LOG_WARNING && strstr(message, "poll") != NULL);
    if (!report_is_no_connection(message) && strcmp(message, "connected") != 0 &&
        (!report_is_no_grant(message) || level <= LOG_WARNING)) {
        findings_add_log(patient->findings, level, message);
    }
}

/* The first client has logged the rest. */
static void on_trial_log(struct query *query, int level, const char *message)
{
    if (level <= LOG_WARNING) {
        on_log(query, level, message);
    }
}

static void on_down(struct query *query, const char *why)
{
    struct patient *patient = query->arg;
    int error = lw_client_error(query->client);
    int code = exit_code_for(LW_ECONN, error, EXIT_BUSY);

    if (query->ending) {
        return;
    }
    findings_add(
        patient->findings, FINDING_FAILS, "", "%s: %s",
        error == LW_EREDIS ? "the server rejects the connection" : "no connection", why);
    fails(patient, code);
    query_end(query, code);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    struct query *query = arg;
    struct patient *patient = query->arg;

    (void)fd, (void)what;
    if (!query->ending) {
        findings_add(patient->findings, FINDING_FAILS, "", "not finished within %d s",
                     LIMIT_MS / 1000);
        fails(patient, EXIT_NO_SERVER);
        query_end(query, EXIT_NO_SERVER);
    }
}

/* Calls `function` later. If memory is short, the query ends. */
static void call_after(struct query *query, int ms, event_callback_fn function, void *arg)
{
    struct timeval after = {ms / 1000, ms % 1000 * 1000};

    if (event_base_once(query->base, -1, EV_TIMEOUT, function, arg, &after) < 0) {
        query_fail(query, LW_ENOMEM, "");
    }
}

/* Runs one client. The library wipes the passwords that it is given. Returns 0, or the
 * exit code of a failure that has been reported. */
static int ask(struct patient *patient, struct query *query, int64_t guard_ms)
{
    struct options *own = &patient->own;
    int code;

    *own = *patient->options;
    own->guard_ms = guard_ms;
    own->password = own->password != NULL ? strdup(own->password) : NULL;
    own->sentinel_password =
        own->sentinel_password != NULL ? strdup(own->sentinel_password) : NULL;
    query->options = own;
    query->arg = patient;
    query->tolerant = true;
    if ((own->password == NULL) != (patient->options->password == NULL) ||
        (own->sentinel_password == NULL) !=
            (patient->options->sentinel_password == NULL)) {
        report("%s", lw_strerror(LW_ENOMEM));
        code = EXIT_SYSTEM;
    } else {
        code = query_open(query, CLIENT_NAME);
    }
    if (code == 0) {
        call_after(query, LIMIT_MS, on_limit, query);
        (void)query_run(query);
        code = patient->code == 0 ? query->code : 0;
    }
    query_close(query);
    free(own->password);
    free(own->sentinel_password);
    return code;
}

static bool is_subscribed(const struct query *query)
{
    struct lw_stats stats = LW_STATS_INIT;

    (void)lw_client_stats(query->client, &stats);
    return stats.subscription_up;
}

/* Returns true if it makes no sense to wait longer for messages. */
static bool is_vain(const struct patient *patient, int64_t since_ms)
{
    return patient->must_poll || system_now_ms() >= since_ms + SETTLE_MS;
}

/* ---- the first client: looks ---- */

struct look {
    struct query query;
    struct patient *patient;
    int place;           /* that is inspected */
    int64_t settling_ms; /* when it began to settle; 0: not yet */
    char servers[PLACES_MAX][300];
    bool began;
};

static void look_on(struct look *look);

static void on_settle_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    look_on(arg);
}

/* Ends when it is known whether messages arrive; if not, the library has logged why. In
 * the meantime sentinels are discovered, if there are any. */
static void settle(struct look *look)
{
    int64_t now_ms = system_now_ms();
    int peers_ms = look->patient->sentinels ? PEERS_MS : 0;

    if (look->settling_ms == 0) {
        look->settling_ms = now_ms;
    }
    if (now_ms >= look->settling_ms + peers_ms &&
        (is_subscribed(&look->query) || is_vain(look->patient, look->settling_ms))) {
        look->patient->guard = query_guard(&look->query);
        query_end(&look->query, 0);
        return;
    }
    call_after(&look->query, POLL_MS, on_settle_timer, look);
}

/* Notes a further server, where the trial will be made as well. If an inspection fails,
 * its server is "", and the trial at one such place decides. */
static void note_server(struct look *look, const char *server)
{
    struct patient *patient = look->patient;
    size_t i = 0;

    while (i < patient->place_count && strcmp(look->servers[i], server) != 0) {
        i++;
    }
    if (i == patient->place_count && i < PLACES_MAX) {
        (void)snprintf(look->servers[i], sizeof(look->servers[i]), "%s", server);
        patient->places[patient->place_count++] = look->place;
    }
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct look *look = arg;
    char text[400];

    (void)client;
    if (look->query.ending) {
        return;
    }
    if (result == LW_OK) {
        status_server(seen, text, sizeof(text));
        findings_add(look->patient->findings, FINDING_OK, "", "%s", text);
        note_server(look, seen->server);
    } else {
        note_server(look, "");
        findings_add(look->patient->findings, FINDING_WARNING, "",
                     "locks cannot be inspected: %s", *why ? why : lw_strerror(result));
    }
    look->place++;
    look_on(look);
}

static void look_on(struct look *look)
{
    const struct patient *patient = look->patient;
    char name[NAME_SIZE];
    int error;

    if (look->query.ending) {
        return;
    }
    if (look->place >= (patient->cluster ? SPREAD : 0)) {
        settle(look);
        return;
    }
    write_name(patient, look->place, false, name);
    error = lw_inspect(look->query.client, name, on_inspected, look);
    if (error != 0) {
        query_fail(&look->query, error, "");
    }
}

static void on_look_up(struct query *query)
{
    struct look *look = (struct look *)query; /* its first field */

    if (!look->began) { /* the link may go up again */
        look->began = true;
        look_on(look);
    }
}

static int look(struct patient *patient)
{
    static const struct query_events events = {
        .up = on_look_up, .down = on_down, .log = on_log};
    struct look look = {.query = {.events = &events},
                        .patient = patient,
                        .place = patient->cluster ? 0 : -1};

    return ask(patient, &look.query, patient->options->guard_ms);
}

/* ---- what the guard means ---- */

static void add_guard(struct patient *patient)
{
    const struct query_guard *guard = &patient->guard;
    char text[200], remedy[300];

    status_guard(guard, text, sizeof(text));
    if (guard->time_ms > 0 && guard->own_ms == 0) {
        (void)snprintf(remedy, sizeof(remedy),
                       "put guard=%" PRId64 "ms into the URL; if no client uses it any "
                       "more, DEL %slockwire:guard",
                       guard->time_ms, patient->options->prefix);
        findings_add(patient->findings, FINDING_FAILS, remedy,
                     "guard: clients of this server use one of %s, so that no lock is "
                     "granted without one",
                     text);
        fails(patient, EXIT_REFUSED);
    } else if (guard->refused) {
        (void)snprintf(remedy, sizeof(remedy),
                       "use the server's guard time in all clients; to change it, stop "
                       "them all, wait for the longer time, and DEL %slockwire:guard",
                       patient->options->prefix);
        findings_add(patient->findings, FINDING_FAILS, remedy,
                     "guard: the server's is %s", text);
        fails(patient, EXIT_REFUSED);
    } else if (guard->left_ms > 0) {
        findings_add(patient->findings, FINDING_FAILS,
                     "wait; before the first use, start the first client", "guard: %s",
                     text);
        fails(patient, EXIT_NO_SERVER);
    } else if (guard->time_ms > 0) {
        findings_add(patient->findings, FINDING_OK, "", "guard: %s, open", text);
    }
}

/* ---- the second client: tries ---- */

struct trial {
    struct query query;
    struct patient *patient;
    size_t next; /* place */
    bool rw;
    struct lw_lock *holder, *waiter;
    int64_t began_ms, waits_ms; /* since when: for the subscription, or for a place */
    uint64_t handed_over;       /* before the hand-over */
    bool began, requested;      /* `requested`: by the waiter itself, again */
};

static void try_next(struct trial *trial);

static void free_handles(struct trial *trial)
{
    lw_lock_free(trial->holder);
    lw_lock_free(trial->waiter);
    trial->holder = trial->waiter = NULL;
}

static void trial_name(const struct trial *trial, char *ret)
{
    const struct patient *patient = trial->patient;

    write_name(patient,
               trial->next < patient->place_count ? patient->places[trial->next] : -1,
               trial->rw, ret);
}

/* A read-write lock that is refused does not concern users of mutexes. */
static void step_failed(struct trial *trial, const struct lw_lock *lock, const char *what,
                        int status)
{
    int cause = lock != NULL ? lw_lock_error(lock) : LW_OK;
    const char *why = lock != NULL ? lw_lock_errstr(lock) : trial->query.error;
    const char *state = report_state(why);
    char name[NAME_SIZE];

    trial_name(trial, name);
    findings_add(trial->patient->findings, trial->rw ? FINDING_WARNING : FINDING_FAILS,
                 "", "%s '%s' cannot be %s: %s%s%s",
                 trial->rw ? "read-write lock" : "mutex", name, what,
                 state != NULL ? state : lw_strerror(cause != LW_OK ? cause : status),
                 *why ? ": " : "", why);
    if (!trial->rw) {
        fails(trial->patient, exit_code_for(status, cause, EXIT_BUSY));
    }
    free_handles(trial);
    trial->rw = false; /* the rest at this place would fail likewise */
    trial->next++;
    try_next(trial);
}

static uint64_t handed_over(const struct trial *trial)
{
    struct lw_stats stats = LW_STATS_INIT;

    (void)lw_client_stats(trial->query.client, &stats);
    return stats.handed_over;
}

static void on_tried(struct lw_lock *lock, int status, void *arg)
{
    struct trial *trial = arg;
    const char *kind = trial->rw ? "read-write lock" : "mutex";
    bool quorum = trial->patient->options->quorum;
    char name[NAME_SIZE];

    if (status != LW_OK) {
        step_failed(trial, lock, "released", status);
        return;
    }
    trial_name(trial, name);
    if (quorum) {
        findings_add(trial->patient->findings, FINDING_OK, "",
                     "mutex '%s' of the quorum: acquired, renewed and released in "
                     "%" PRId64 " ms",
                     name, system_now_ms() - trial->began_ms);
    } else if (trial->requested) {
        findings_add(trial->patient->findings, FINDING_WARNING, "",
                     "%s '%s': a waiter got it by %s, after %" PRId64 " ms", kind, name,
                     trial->patient->must_poll ? "polling, without a message"
                                               : "a request of its own",
                     system_now_ms() - trial->began_ms);
    } else {
        findings_add(trial->patient->findings, FINDING_OK, "",
                     "%s '%s': acquired, handed over to a waiter, renewed and released "
                     "in %" PRId64 " ms",
                     kind, name, system_now_ms() - trial->began_ms);
    }
    free_handles(trial);
    trial->next += trial->rw || quorum;
    trial->rw = !trial->rw && !quorum;
    try_next(trial);
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct trial *trial = arg;

    if (status != LW_OK) {
        step_failed(trial, lock, "renewed", status);
    } else if ((status = lw_release(lock, on_tried, trial)) != 0) {
        step_failed(trial, lock, "released", status);
    }
}

static void on_waited(struct lw_lock *lock, int status, void *arg)
{
    struct trial *trial = arg;

    if (status != LW_OK) {
        step_failed(trial, lock, "waited for", status);
        return;
    }
    trial->requested = handed_over(trial) == trial->handed_over;
    status = lw_renew(lock, 0, on_renewed, trial);
    if (status != 0) {
        step_failed(trial, lock, "renewed", status);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct trial *trial = arg;

    if (status != LW_OK) {
        step_failed(trial, lock, "released", status);
    }
}

/* Releases when the other request has queued, or will not. */
static void on_queue_timer(evutil_socket_t fd, short what, void *arg)
{
    struct trial *trial = arg;
    int status;

    (void)fd, (void)what;
    if (trial->query.ending || trial->waiter == NULL ||
        lw_lock_state(trial->holder) != LW_HELD) {
        return;
    }
    if (lw_lock_position(trial->waiter) < 0 &&
        !is_vain(trial->patient, trial->waits_ms)) {
        call_after(&trial->query, POLL_MS, on_queue_timer, trial);
        return;
    }
    trial->handed_over = handed_over(trial);
    status = lw_release(trial->holder, on_released, trial);
    if (status != 0) {
        step_failed(trial, trial->holder, "released", status);
    }
}

/* Without max_waiting the request would share the holder's claim, and not queue in Redis.
 */
static int request(struct trial *trial, int64_t wait_ms, lw_lock_cb *done,
                   struct lw_lock **ret)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    char name[NAME_SIZE];

    options.mode = trial->rw ? LW_EXCLUSIVE : LW_MUTEX;
    options.lease_ms = LEASE_MS;
    options.wait_ms = wait_ms;
    options.max_waiting = trial->patient->options->quorum ? 0 : 100;
    trial_name(trial, name);
    return lw_acquire(trial->query.client, name, &options, done, trial, ret);
}

static void on_held(struct lw_lock *lock, int status, void *arg)
{
    struct trial *trial = arg;

    if (status != LW_OK) {
        step_failed(trial, lock, "acquired", status);
        return;
    }
    if (trial->patient->options->quorum) { /* its servers have been tried by themselves */
        status = lw_renew(lock, 0, on_renewed, trial);
        if (status != 0) {
            step_failed(trial, lock, "renewed", status);
        }
        return;
    }
    status = request(trial, WAIT_MS, on_waited, &trial->waiter);
    if (status != 0) {
        step_failed(trial, NULL, "waited for", status);
        return;
    }
    trial->waits_ms = system_now_ms();
    call_after(&trial->query, POLL_MS, on_queue_timer, trial);
}

static void try_next(struct trial *trial)
{
    size_t count = trial->patient->place_count;
    int status;

    if (trial->query.ending) {
        return;
    }
    if (trial->next >= (count > 0 ? count : 1)) {
        query_end(&trial->query, 0);
        return;
    }
    trial->began_ms = system_now_ms();
    status = request(trial, 0, on_held, &trial->holder);
    if (status != 0) {
        step_failed(trial, NULL, "acquired", status);
    }
}

static void begin_trial(struct trial *trial);

static void on_trial_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    begin_trial(arg);
}

/* Without a subscription the waiter would have to poll. */
static void begin_trial(struct trial *trial)
{
    if (!is_subscribed(&trial->query) && !is_vain(trial->patient, trial->waits_ms)) {
        call_after(&trial->query, POLL_MS, on_trial_timer, trial);
    } else if (!trial->query.ending) {
        try_next(trial);
    }
}

static void on_trial_up(struct query *query)
{
    struct trial *trial = (struct trial *)query; /* its first field */

    if (!trial->began) { /* the link may go up again */
        trial->began = true;
        trial->waits_ms = system_now_ms();
        begin_trial(trial);
    }
}

static int try(struct patient *patient)
{
    static const struct query_events events = {
        .up = on_trial_up, .down = on_down, .log = on_trial_log};
    struct trial trial = {.query = {.events = &events}, .patient = patient};
    bool quorum = patient->options->quorum;
    int code = ask(patient, &trial.query,
                   quorum ? patient->options->guard_ms : (int64_t)LW_GUARD_NONE);

    free_handles(&trial);
    return code;
}

/* ---- one server, or several ---- */

static int examine(struct patient *patient)
{
    int code = look(patient);

    if (code != 0 || patient->code != 0) {
        return code; /* there is no connection, and nothing to be tried */
    }
    add_guard(patient);
    return try(patient);
}

/* Writes the name of the trial's locks. Returns 0, or the exit code after a report. */
static int write_base(struct patient *patient)
{
    const char *name = patient->options->name;
    char longest[NAME_SIZE], why[LW_WHY_SIZE];
    uint64_t suffix;

    if (getentropy(&suffix, sizeof(suffix)) != 0) {
        report("no random number: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    (void)snprintf(patient->name, sizeof(patient->name), "%s:%016" PRIx64,
                   name != NULL ? name : CLIENT_NAME, suffix);
    write_name(patient, strchr(patient->options->prefix, '{') == NULL ? SPREAD - 1 : -1,
               true, longest);
    if (lw__check_key(patient->options->prefix, longest, why, sizeof(why)) != NULL) {
        report("with the suffix of the trial's locks, %s", why);
        return EXIT_USAGE;
    }
    return 0;
}

/* Asks one server of a quorum. */
static int examine_member(const struct patient *quorum, const struct quorum_member *at,
                          struct patient *ret)
{
    struct options own = *quorum->options;
    int code;

    own.url = at->url;
    own.quorum = false;
    own.guard_ms = own.guard_ms == 0 ? QUORUM_GUARD_MS : own.guard_ms;
    *ret = *quorum;
    ret->options = &own;
    ret->findings->server = at->host;
    code = examine(ret);
    ret->options = NULL;
    ret->findings->server = "";
    return code;
}

/* The code is that of the whole if a majority works. A refusal counts only if all that
 * fail refuse. */
static int examine_quorum(struct patient *quorum)
{
    struct quorum_url parts = quorum_url_split(quorum->options->url);
    unsigned count = 0, working = 0, refusing = 0;
    struct quorum_member at;
    struct patient member;
    int code = 0;

    while (code == 0 && quorum_url_has_more(&parts)) {
        if (quorum_url_take(&parts, &at) < 0) {
            return EXIT_SYSTEM;
        }
        code = examine_member(quorum, &at, &member);
        free(at.url);
        count++;
        working += member.code == 0;
        refusing += member.code == EXIT_REFUSED;
    }
    if (code != 0 || working > count / 2) {
        return code != 0 ? code : try(quorum);
    }
    findings_add(
        quorum->findings, FINDING_FAILS, "",
        "%u of %u servers grant locks to a client of this quorum now, which is no "
        "majority",
        working, count);
    fails(quorum, refusing == count - working ? EXIT_REFUSED : EXIT_NO_SERVER);
    return 0;
}

/* Reads of the URL what the trial and the remedies need. */
static void read_url(struct patient *patient, char *user, size_t size)
{
    const struct options *options = patient->options;
    struct lw__url url = {.db = -1};
    char why[LW_WHY_SIZE];

    (void)snprintf(user, size, "default");
    if (options->embedded || lw__url_parse(options->url, &url, why, sizeof(why)) != 0) {
        return;
    }
    patient->sentinels = url.service != NULL;
    /* a name with a tag has one slot */
    patient->cluster = url.cluster && strchr(patient->name, '{') == NULL &&
                       strchr(options->prefix, '{') == NULL;
    if (url.username != NULL) {
        (void)snprintf(user, size, "%s", url.username);
    }
    lw__url_clear(&url);
}

int doctor(const struct options *options)
{
    char user[200];
    struct findings findings = {.server = "",
                                .prefix = options->prefix,
                                .user = user,
                                .sentinel_user = options->sentinel_user != NULL
                                                     ? options->sentinel_user
                                                     : "default"};
    struct patient patient = {.findings = &findings, .options = options};
    int code;

    code = write_base(&patient);
    if (code == 0 && options->quorum) {
        code = query_check(options);
    }
    if (code == 0) {
        read_url(&patient, user, sizeof(user));
        code = options->quorum ? examine_quorum(&patient) : examine(&patient);
    }
    code = code != 0 ? code : patient.code;
    password_wipe(options->password); /* the clients have wiped their copies */
    password_wipe(options->sentinel_password);
    if (findings.count > 0 && findings_write(&findings, code, options->json) < 0) {
        report("%s", lw_strerror(LW_ENOMEM));
        code = EXIT_SYSTEM;
    }
    if (!report_flush()) {
        code = EXIT_SYSTEM;
    }
    findings_clear(&findings);
    return code;
}
