/* SPDX-License-Identifier: MIT
 *
 * Replication from one server to another: a copy of the data, then the effects of each
 * command, step by step. As with Redis' scripts, effects are sent: a key's whole content
 * stands for the writes that made it, since no client can see the state in between.
 * Messages travel with them and are delivered to the replica's own subscribers. Knows no
 * delays: the caller decides when a step arrives.
 *
 * Usual course: model_server_replicate(). keyspace.c and pubsub.c record what a command
 * does. replication_end_command() makes a step of it. model_server_deliver() delivers it.
 */
#include "model.h"

#include <stdlib.h>

struct changed_key {
    struct changed_key *next;
    int space;
    struct bytes name;
    bool is_there;
    struct content content;
};

struct message {
    struct message *next;
    struct bytes channel, text;
    bool of_slot;
};

struct step {
    struct step *next;
    int64_t true_us;
    int64_t now_ms; /* by the master's clock */
    int64_t offset; /* the master's, after this step */
    struct changed_key *keys;
    struct message *first, *last;
};

static struct step *open_step(struct stream *stream)
{
    if (stream->open == NULL) {
        stream->open = must_alloc(sizeof(*stream->open));
    }
    return stream->open;
}

void stream_note_key(struct stream *stream, int space, struct bytes name)
{
    struct step *step = open_step(stream);
    struct changed_key *key;

    for (key = step->keys; key != NULL; key = key->next) {
        if (key->space == space && bytes_equal(key->name, name)) {
            return;
        }
    }
    key = must_alloc(sizeof(*key));
    key->space = space;
    key->name = bytes_copy(name);
    key->next = step->keys;
    step->keys = key;
}

void stream_note_message(struct stream *stream, struct bytes channel,
                         struct bytes message, bool of_slot)
{
    struct step *step = open_step(stream);
    struct message *last = must_alloc(sizeof(*last));

    last->channel = bytes_copy(channel);
    last->text = bytes_copy(message);
    last->of_slot = of_slot;
    if (step->last != NULL) {
        step->last->next = last;
    } else {
        step->first = last;
    }
    step->last = last;
}

static void free_step(struct step *step)
{
    while (step->keys != NULL) {
        struct changed_key *key = step->keys;

        step->keys = key->next;
        if (key->is_there) {
            content_free(&key->content);
        }
        free((char *)key->name.data);
        free(key);
    }
    while (step->first != NULL) {
        struct message *message = step->first;

        step->first = message->next;
        free((char *)message->channel.data);
        free((char *)message->text.data);
        free(message);
    }
    free(step);
}

void stream_clear(struct stream *stream)
{
    while (stream->oldest != NULL) {
        struct step *step = stream->oldest;

        stream->oldest = step->next;
        free_step(step);
    }
    stream->newest = NULL;
    if (stream->open != NULL) {
        free_step(stream->open);
    }
    stream->open = NULL;
}

void replication_end_command(struct model_server *server)
{
    struct stream *stream = &server->stream;
    struct step *step = stream->open;

    if (step == NULL) {
        return;
    }
    stream->open = NULL;
    step->true_us = server->undo.now_us;
    step->now_ms = server->now_us / 1000;
    step->offset = ++server->offset;
    for (struct changed_key *key = step->keys; key != NULL; key = key->next) {
        const struct content *content =
            keyspace_peek(&server->spaces[key->space], key->name);

        key->is_there = content != NULL;
        if (content != NULL) {
            content_copy(&key->content, content);
        }
    }
    if (stream->newest != NULL) {
        stream->newest->next = step;
    } else {
        stream->oldest = step;
    }
    stream->newest = step;
    if (server->replica->on_step != NULL) {
        server->replica->on_step(server->replica, server->replica->on_step_arg);
    }
}

/* Returns the expiry time on the replica, which receives it as a time or as the time
 * left. */
static int64_t arriving_end(const struct model_server *replica, int64_t expire_ms,
                            int64_t sent_ms)
{
    if (expire_ms == NO_EXPIRY || !replica->takes_what_is_left) {
        return expire_ms;
    }
    return expire_ms - sent_ms + replica->now_us / 1000;
}

static void put_key(struct model_server *replica, int space, struct bytes name,
                    struct content *content, int64_t sent_ms)
{
    struct keyspace *target = &replica->spaces[space];
    int64_t kept_ms = content != NULL ? content->expire_ms : 0;

    keyspace_open(target, name); /* which records it for undo */
    if (content != NULL) {
        content->expire_ms = arriving_end(replica, kept_ms, sent_ms);
    }
    keyspace_restore(target, name, content);
    if (content != NULL) {
        content->expire_ms = kept_ms;
    }
}

static void apply(struct model_server *replica, const struct step *step)
{
    server_begin(replica);
    for (struct changed_key *key = step->keys; key != NULL; key = key->next) {
        put_key(replica, key->space, key->name, key->is_there ? &key->content : NULL,
                step->now_ms);
    }
    for (const struct message *message = step->first; message != NULL;
         message = message->next) {
        (void)(message->of_slot ? pubsub_deliver_to_slot : pubsub_deliver)(
            replica, message->channel, message->text);
    }
}

bool model_server_deliver(struct model_server *replica)
{
    struct stream *stream = replica->master != NULL ? &replica->master->stream : NULL;
    struct step *step = stream != NULL ? stream->oldest : NULL;

    if (step == NULL) {
        return false;
    }
    stream->oldest = step->next;
    if (stream->oldest == NULL) {
        stream->newest = NULL;
    }
    apply(replica, step);
    replica->offset = step->offset;
    free_step(step);
    return true;
}

int64_t model_server_oldest_step_us(const struct model_server *replica)
{
    const struct step *step = replica->master != NULL ? replica->master->stream.oldest
                                                      : NULL;

    return step != NULL ? step->true_us : -1;
}

bool model_server_is_replica(const struct model_server *server)
{
    return server->master != NULL;
}

static void follow_changes(struct model_server *master, bool follow)
{
    for (int i = 0; i < MODEL_DATABASES; i++) {
        master->spaces[i].stream = follow ? &master->stream : NULL;
    }
}

void replication_begin_lineage(struct model_server *server, bool succeeds)
{
    server->former = succeeds ? server->lineage : (struct lineage){0};
    server->former_offset = succeeds ? server->offset + 1 : -1;
    server->lineage = (struct lineage){server->number, ++server->lineages};
}

void model_server_promote(struct model_server *replica)
{
    struct model_server *master = replica->master;

    if (master == NULL) {
        return;
    }
    stream_clear(&master->stream);
    follow_changes(master, false);
    master->replica = NULL;
    replica->master = NULL;
    replication_begin_lineage(replica, true);
}

struct copying {
    struct model_server *replica;
    int space;
    int64_t sent_ms;
};

static void copy_key(struct bytes name, const struct content *content, void *arg)
{
    const struct copying *copying = arg;
    struct content copy;

    content_copy(&copy, content);
    put_key(copying->replica, copying->space, name, &copy, copying->sent_ms);
    content_free(&copy);
}

void model_server_replicate(struct model_server *replica, struct model_server *master)
{
    model_server_promote(master);
    model_server_promote(replica);
    if (replica->replica != NULL) {
        model_server_promote(replica->replica);
    }
    server_begin(master);
    server_begin(replica);
    for (int i = 0; i < MODEL_DATABASES; i++) {
        struct copying copying = {replica, i, master->now_us / 1000};

        keyspace_clear(&replica->spaces[i]);
        keyspace_each(&master->spaces[i], copy_key, &copying);
    }
    undo_forget(&replica->undo); /* its file begins with the copy */
    replica->master = master;
    replica->lineage = master->lineage;
    replica->former = (struct lineage){0};
    replica->former_offset = -1;
    replica->offset = master->offset;
    master->replica = replica;
    follow_changes(master, true);
}

bool model_server_migrate(struct model_server *from, struct model_server *to,
                          struct bytes key)
{
    struct content copy;
    const struct content *content;
    bool taken;

    server_begin(from);
    server_begin(to);
    content = keyspace_open(&from->spaces[0], key);
    if (content == NULL) {
        replication_end_command(from);
        return true;
    }
    content_copy(&copy, content);
    if (copy.expire_ms !=
        NO_EXPIRY) { /* MIGRATE sends the time left, whatever the target's clock is */
        copy.expire_ms += to->spaces[0].now_ms - from->spaces[0].now_ms;
    }
    taken = keyspace_open(&to->spaces[0], key) != NULL;
    if (!taken) {
        keyspace_restore(&to->spaces[0], key, &copy);
        keyspace_remove(&from->spaces[0], key);
    }
    content_free(&copy);
    replication_end_command(to);
    replication_end_command(from);
    return !taken;
}

void model_server_on_step(struct model_server *replica, model_step_fn *on_step, void *arg)
{
    replica->on_step = on_step;
    replica->on_step_arg = arg;
}

void model_server_takes_what_is_left(struct model_server *replica, bool takes)
{
    replica->takes_what_is_left = takes;
}
