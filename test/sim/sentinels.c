/* SPDX-License-Identifier: MIT
 *
 * Model sentinels, which watch over the model servers. Each has a view of its own, which
 * follows the true state with a lag of its own. A sentinel publishes a switch when it
 * learns of it. It may be down, frozen, or report something wrong. Independent of locks,
 * and of how a role changes.
 *
 * Usual course: sentinels_begin(). sentinels_switch() when a server becomes the master.
 * sentinels_see_down() when the master seems to be dead. faults.c calls
 * sentinels_trouble(). sentinels_heal() lets all of them know and report the true state.
 */
#include "sentinels.h"

#include "network.h"

#include <stdio.h>
#include <string.h>

#define SERVICE "locks"
#define PORT 26379
#define EPOCHS 4096 /* more than any run has */
#define FOREIGN_EPOCH 9999
#define INFO_US (10 * SECOND)

enum trouble {
    TROUBLE_AWAY,    /* its connections end, and it accepts none */
    TROUBLE_FROZEN,  /* it is frozen */
    TROUBLE_STALE,   /* it reports the state before the last change */
    TROUBLE_DOWN,    /* it takes the master for dead */
    TROUBLE_WITHOUT, /* it knows no such service */
    TROUBLE_PLAIN,   /* it is an ordinary server */
    TROUBLE_ANEW,    /* it was set up again, and its epochs begin at 0 */
    TROUBLE_VILE,    /* its reply is malformed */
    TROUBLE_FOREIGN, /* if unlisted: another installation's sentinel has its address */
    TROUBLE_DEFECTS, /* if unlisted: it watches over another installation */
    TROUBLES,
    TROUBLE_NONE = TROUBLES
};

struct sentinel {
    unsigned epoch;        /* the latest that it knows */
    bool sees_down, leads; /* leads: it performs the failover, and is not done */
    enum trouble trouble;
    unsigned troubles; /* a counter, so that the end of an earlier one is void */
    int64_t frozen_until_us;
    int64_t since_us; /* when its report last changed */
    /* By the last INFO of each server: its run id, "" since a switch, and the time. */
    char run_ids[PAIR][MODEL_RUN_ID_SIZE];
    int64_t info_us[PAIR];
    struct model_view view;
    struct model_other others[SENTINELS - 1];
};

static struct sentinel sentinels[SENTINELS];
static unsigned char masters[EPOCHS]; /* by epoch */
static unsigned last_epoch;

static const struct model_place places[SENTINELS] = {
    {"10.0.1.1", PORT}, {"10.0.1.2", PORT}, {"10.0.1.3", PORT}};
static const char *const ids[SENTINELS] = {
    "5e00000000000000000000000000000000000001",
    "5e00000000000000000000000000000000000002",
    "5e00000000000000000000000000000000000003",
};
static const struct model_place foreign_place = {"10.0.9.9", 6379};
static const struct model_place server_places[PAIR] = {{"10.0.0.1", 6379},
                                                       {"10.0.0.2", 6379}};

static bool is_elsewhere(const struct sentinel *one)
{
    return one->trouble == TROUBLE_FOREIGN || one->trouble == TROUBLE_DEFECTS;
}

static bool is_useful(const struct sentinel *one)
{
    return one->trouble != TROUBLE_AWAY && one->frozen_until_us < world.now_us &&
           one->trouble != TROUBLE_WITHOUT && one->trouble != TROUBLE_PLAIN &&
           one->trouble != TROUBLE_VILE && !is_elsewhere(one);
}

static unsigned said_epoch(const struct sentinel *one)
{
    return one->trouble == TROUBLE_STALE && one->epoch > 1 ? one->epoch - 1 : one->epoch;
}

static bool says_down(const struct sentinel *one)
{
    return one->trouble == TROUBLE_DOWN ||
           (one->sees_down && one->trouble != TROUBLE_STALE);
}

static void show_known(const struct sentinel *one, unsigned server,
                       struct model_known *ret)
{
    ret->place = server_places[server];
    ret->info_us = one->info_us[server];
    memcpy(ret->run_id, one->run_ids[server], sizeof(ret->run_id));
}

/* Updates a sentinel's view, as its trouble makes it. */
static void show(unsigned which)
{
    struct sentinel *one = &sentinels[which];
    struct model_view *view = &one->view;

    one->since_us = world.now_us;
    view->service = one->trouble == TROUBLE_WITHOUT ? "others" : SERVICE;
    show_known(one, masters[said_epoch(one)], &view->master);
    show_known(one, 1 - masters[said_epoch(one)], &view->replica);
    view->config_epoch = one->trouble == TROUBLE_ANEW ? 0
                         : one->leads                 ? last_epoch
                                                      : said_epoch(one);
    view->flags = says_down(one) ? "master,s_down"
                  : one->leads   ? "master,failover_in_progress"
                                 : "master";
    if (one->trouble == TROUBLE_VILE) {
        view->master.place = (struct model_place){"10.0.0.1 \"", -1};
    }
    view->id = one->trouble == TROUBLE_FOREIGN ? "f0" : ids[which];
    if (is_elsewhere(one)) {
        view->master.place = foreign_place;
        view->config_epoch = FOREIGN_EPOCH;
        view->flags = "master";
    }
    model_server_be_sentinel(world.sentinels[which],
                             one->trouble == TROUBLE_PLAIN ? NULL : view);
}

/* ---- the sentinels' knowledge ---- */

static void inform(unsigned which)
{
    struct sentinel *one = &sentinels[which];

    for (unsigned i = 0; i < PAIR; i++) {
        model_server_run_id(world.servers[i], one->run_ids[i]);
        one->info_us[i] = world.now_us;
    }
    show(which);
}

/* As a real sentinel it sends INFO every 10 s, also after a switch or a restart. A server
 * that is frozen or refuses connections does not answer it. */
static void send_info(void *arg)
{
    unsigned which = (unsigned)(uintptr_t)arg;
    struct sentinel *one = &sentinels[which];

    for (unsigned i = 0; i < PAIR && world.now_us >= one->frozen_until_us; i++) {
        if (!servers_refuse(i) && servers_frozen_until(i) <= world.now_us) {
            model_server_run_id(world.servers[i], one->run_ids[i]);
            one->info_us[i] = world.now_us;
        }
    }
    show(which);
    agenda_add(world.now_us + INFO_US, send_info, arg);
}

static uintptr_t news_for(unsigned which, unsigned of)
{
    return which + (uintptr_t)of * SENTINELS;
}

static void learn(void *arg)
{
    unsigned which = (uintptr_t)arg % SENTINELS, epoch = (uintptr_t)arg / SENTINELS;
    struct sentinel *one = &sentinels[which];
    const struct model_place *old, *new = &server_places[masters[epoch]];
    char text[128];
    bool tells;

    if (one->epoch >= epoch) {
        return;
    }
    if (world.now_us < one->frozen_until_us) {
        agenda_add(one->frozen_until_us, learn, arg);
        return;
    }
    old = &server_places[masters[one->epoch]];
    /* a sentinel that missed a change there and back has nothing to publish */
    tells = old != new && one->trouble != TROUBLE_PLAIN &&
            one->trouble != TROUBLE_WITHOUT && !is_elsewhere(one);
    one->epoch = epoch;
    one->sees_down = one->leads = false;
    if (old != new) {
        one->run_ids[0][0] = one->run_ids[1][0] = '\0';
    }
    show(which);
    trace("sentinel %u knows of epoch %u: s%u", which, epoch, masters[epoch]);
    (void)snprintf(text, sizeof(text), SERVICE " %s %d %s %d", old->host, old->port,
                   new->host, new->port);
    if (tells) {
        model_server_publish(world.sentinels[which], "+switch-master", text);
    }
    network_flush();
}

static int64_t lag_us(void)
{
    return rng_between(&world.rng, world.plan.returns ? world.plan.name_lag_us / 2 : 0,
                       world.plan.name_lag_us);
}

/* One sentinel has performed the failover. It publishes the result at once; or it reports
 * the old master, but with the new epoch, until all its work is done. */
void sentinels_switch(unsigned master)
{
    unsigned leader = (unsigned)rng_below(&world.rng, SENTINELS);
    bool slowly = (rng_chance(&world.rng, 500) || world.plan.returns) &&
                  sentinels[leader].epoch == last_epoch;

    if (++last_epoch == EPOCHS) {
        violation("more failovers than the simulator has room for");
    }
    masters[last_epoch] = (unsigned char)master;
    for (unsigned i = 0; i < SENTINELS; i++) {
        if (sentinels[i].leads) { /* its failover has been overtaken */
            sentinels[i].leads = false;
            show(i);
        }
        agenda_add(world.now_us + (i == leader && !slowly ? 1 : lag_us()), learn,
                   (void *)news_for(i, last_epoch));
    }
    if (slowly) {
        sentinels[leader].leads = true;
        show(leader);
    }
}

static void see_down(void *arg)
{
    unsigned which = (uintptr_t)arg % SENTINELS, epoch = (uintptr_t)arg / SENTINELS;

    if (sentinels[which].epoch == epoch && !world.healed) {
        trace("sentinel %u takes s%u for dead", which, masters[epoch]);
        sentinels[which].sees_down = true;
        show(which);
    }
}

void sentinels_see_down(void)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        agenda_add(world.now_us + lag_us(), see_down, (void *)news_for(i, last_epoch));
    }
}

/* ---- trouble ---- */

static void fall_into(unsigned which, enum trouble trouble, int64_t until_us);

static void end_trouble(void *arg)
{
    unsigned which = (uintptr_t)arg % SENTINELS;

    if (sentinels[which].troubles == (uintptr_t)arg / SENTINELS) {
        fall_into(which, TROUBLE_NONE, 0);
    }
}

static void fall_into(unsigned which, enum trouble trouble, int64_t until_us)
{
    static const char *const texts[] = {"is away",
                                        "stands still",
                                        "says what was so before",
                                        "takes the master for dead",
                                        "knows no such service",
                                        "is no sentinel any more",
                                        "was set up anew",
                                        "talks nonsense",
                                        "is another one",
                                        "watches over others",
                                        "is well"};
    struct sentinel *one = &sentinels[which];

    trace("sentinel %u %s", which, texts[trouble]);
    if (one->trouble == TROUBLE_FOREIGN) { /* the connections are the other sentinel's */
        model_server_restart(world.sentinels[which], 0);
    }
    one->trouble = trouble;
    one->troubles++;
    if (trouble == TROUBLE_AWAY || trouble == TROUBLE_FOREIGN) {
        model_server_restart(world.sentinels[which], 0);
    }
    if (trouble == TROUBLE_FROZEN) {
        one->frozen_until_us = until_us;
    }
    show(which);
    network_flush();
    if (trouble != TROUBLE_NONE) {
        agenda_add(until_us, end_trouble, (void *)news_for(which, one->troubles));
    }
}

/* Puts one sentinel into trouble, or all into the same. */
void sentinels_trouble(void)
{
    enum trouble trouble = (enum trouble)rng_below(&world.rng, TROUBLES);
    unsigned only = (unsigned)rng_below(&world.rng, SENTINELS);
    bool all = rng_chance(&world.rng, 200);

    for (unsigned i = 0; i < SENTINELS; i++) {
        int64_t lasts_us = rng_between(&world.rng, 1, 5 * SECOND);

        if ((all || i == only) && (trouble < TROUBLE_FOREIGN || i >= world.plan.listed)) {
            fall_into(i, trouble, world.now_us + lasts_us);
        }
    }
}

bool sentinels_refuse(unsigned which)
{
    return sentinels[which].trouble == TROUBLE_AWAY;
}

int64_t sentinels_frozen_until(unsigned which)
{
    return sentinels[which].frozen_until_us;
}

/* ---- for the checks ---- */

/* Returns the sentinel of the highest epoch among those that reply. */
static const struct sentinel *best_informed(void)
{
    const struct sentinel *best = NULL;

    for (unsigned i = 0; i < SENTINELS; i++) {
        const struct sentinel *one = &sentinels[i];

        if (is_useful(one) && one->trouble != TROUBLE_ANEW &&
            (best == NULL || said_epoch(one) > said_epoch(best))) {
            best = one;
        }
    }
    return best;
}

bool sentinels_lead_to(unsigned server, int64_t for_us)
{
    const struct sentinel *best = best_informed();
    unsigned useful = 0;

    for (unsigned i = 0; i < SENTINELS; i++) {
        if (sentinels[i].since_us > world.now_us - for_us ||
            sentinels[i].frozen_until_us > world.now_us - for_us) {
            return true;
        }
        useful += is_useful(&sentinels[i]);
    }
    /* A single sentinel is believed only if its epoch is later than that of the master
     * that is followed. A sentinel that was set up again knows no epoch. */
    return useful * 2 <= SENTINELS || best == NULL || masters[said_epoch(best)] == server;
}

bool sentinels_agree(int64_t for_us)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        const struct sentinel *one = &sentinels[i];

        if (one->epoch != last_epoch || one->trouble != TROUBLE_NONE || one->sees_down ||
            one->since_us > world.now_us - for_us ||
            one->frozen_until_us > world.now_us - for_us) {
            return false;
        }
    }
    return true;
}

/* ---- beginning and end ---- */

static void point_at_others(unsigned which)
{
    struct sentinel *one = &sentinels[which];
    size_t count = 0;

    for (unsigned i = 0; i < SENTINELS; i++) {
        if (i != which) {
            one->others[count++] = (struct model_other){places[i], ids[i]};
        }
    }
    one->view.others = one->others;
    one->view.other_count = count;
}

static int64_t no_time(void *arg)
{
    (void)arg;
    return world.now_us;
}

static void begin_one(unsigned which)
{
    sentinels[which] = (struct sentinel){.epoch = 1, .trouble = TROUBLE_NONE};
    world.sentinels[which] = model_server_new(no_time, NULL);
    model_server_set_number(world.sentinels[which], PAIR + which + 1);
    if (world.plan.secretive) {
        model_server_faults(world.sentinels[which])->password = SENTINEL_PASSWORD;
    }
    point_at_others(which);
    inform(which);
    agenda_add(world.now_us + INFO_US * (which + 1) / SENTINELS, send_info,
               (void *)(uintptr_t)which);
}

void sentinels_begin(void)
{
    memset(masters, 0, sizeof(masters));
    last_epoch = 1;
    for (unsigned i = 0; i < SENTINELS && world.plan.watched; i++) {
        begin_one(i);
    }
    for (unsigned i = 0; i < world.plan.servers && world.plan.watched; i++) {
        model_server_set_place(world.servers[i], &server_places[i]);
    }
}

void sentinels_end(void)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        model_server_free(world.sentinels[i]);
    }
}

void sentinels_heal(void)
{
    for (unsigned i = 0; i < SENTINELS && world.plan.watched; i++) {
        fall_into(i, TROUBLE_NONE, 0);
        sentinels[i].sees_down = false;
        show(i);
        learn((void *)news_for(i, last_epoch));
        inform(i);
    }
}

const char *sentinels_url(void)
{
    static char url[128];
    int length = snprintf(url, sizeof(url), "redis-sentinel://%s", places[0].host);

    for (unsigned i = 1; i < world.plan.listed; i++) {
        length +=
            snprintf(url + length, sizeof(url) - (size_t)length, ",%s", places[i].host);
    }
    (void)snprintf(url + length, sizeof(url) - (size_t)length, "/" SERVICE);
    return url;
}

static bool is_at(const struct model_place *place, const char *host, int port)
{
    return strcmp(place->host, host) == 0 && place->port == port;
}

unsigned sentinels_place(const char *host, int port)
{
    for (unsigned i = 0; i < PAIR; i++) {
        if (is_at(&server_places[i], host, port)) {
            return i;
        }
    }
    for (unsigned i = 0; i < SENTINELS; i++) {
        if (is_at(&places[i], host, port)) {
            return SERVERS + i;
        }
    }
    violation("%s at %s:%d",
              is_at(&foreign_place, host, port) ? "another installation's master is"
                                                : "nobody is",
              host, port);
}
