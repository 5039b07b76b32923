/* SPDX-License-Identifier: MIT
 *
 * The two servers of difftest; see diff.h.
 */
#include "diff.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t model_clock(void *arg)
{
    return ((const struct diff *)arg)->time_us;
}

static void print_escaped(const char *label, struct bytes text)
{
    (void)fprintf(stderr, "  %s: ", label);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= ' ' && byte < 0x7f) {
            (void)fputc(byte, stderr);
        } else if (byte == '\n') {
            (void)fputc('|', stderr);
        } else if (byte != '\r') {
            (void)fprintf(stderr, "\\x%02x", byte);
        }
    }
    (void)fputc('\n', stderr);
}

static void print_command(const struct diff *diff)
{
    for (int i = 0; i < diff->last.count; i++) {
        print_escaped(i ? "     " : "command", buffer_view(&diff->last.text[i]));
    }
}

void diff_fail(struct diff *diff, const char *what)
{
    (void)fprintf(stderr, "difftest: %s\n  seed %" PRIu64 ", step %" PRIu64 "\n", what,
                  diff->seed, diff->step);
    print_command(diff);
    real_redis_stop(&diff->real);
    exit(1);
}

/* Returns where the value at `at` ends; for an array, where its header ends. */
static size_t piece_end(struct bytes answer, size_t at)
{
    const char *line = memchr(answer.data + at, '\n', answer.len - at);
    size_t end = line != NULL ? (size_t)(line - answer.data) + 1 : answer.len;
    long long length = answer.data[at] == '$' ? atoll(answer.data + at + 1) : -1;

    if (length >= 0 && (size_t)length + 2 <= answer.len - end) {
        end += (size_t)length + 2;
    }
    return end;
}

/* Appends only the code of an error. Before 7.0, a script's error has it behind other
 * words. */
static void append_code(struct buffer *out, struct bytes error)
{
    char text[256]; /* enough for the words before the code */

    (void)snprintf(text, sizeof(text), "%.*s", (int)error.len, error.data);
    const char *inner =
        strncmp(text, "-ERR Error running script ", 26) == 0 ? strstr(text, ": -") : NULL;
    const char *code = inner != NULL ? inner + 2 : text;
    buffer_append(out, code, strcspn(code, " \r"));
    buffer_text(out, "\r\n");
}

/* Copies the answer without the texts of errors, which differ between versions. */
static void without_texts(struct bytes answer, struct buffer *out)
{
    for (size_t at = 0, end; at < answer.len; at = end) {
        end = piece_end(answer, at);
        struct bytes piece = {answer.data + at, end - at};
        if (piece.data[0] == '-') {
            append_code(out, piece);
        } else {
            buffer_append(out, piece.data, piece.len);
        }
    }
}

static bool alike(const struct diff *diff, struct bytes real, struct bytes model)
{
    struct buffer one = {0}, other = {0};
    bool same = bytes_equal(real, model);

    if (!same && !diff->texts) {
        without_texts(real, &one);
        without_texts(model, &other);
        same = bytes_equal(buffer_view(&one), buffer_view(&other));
        buffer_free(&one);
        buffer_free(&other);
    }
    return same;
}

static void compare(struct diff *diff, const char *what, struct bytes real,
                    struct bytes model)
{
    if (alike(diff, real, model)) {
        return;
    }
    print_escaped("real ", real);
    print_escaped("model", model);
    diff_fail(diff, what);
}

/* Returns the real server's version, 602 for 6.2. Valkey reports the version of Redis
 * that it is compatible with. */
static int ask_version(struct diff *diff)
{
    struct buffer info = {0};
    int major = 0, minor = 0;

    diff_admin_answer(diff, "info server", &info);
    buffer_append(&info, "", 1);
    const char *at = strstr(info.data, "\nredis_version:");
    if (at == NULL || sscanf(at, "\nredis_version:%d.%d", &major, &minor) != 2) {
        diff_fail(diff, "the real server says no version");
    }
    buffer_free(&info);
    return major * 100 + minor;
}

/* Returns true if the real server's clock is frozen. A server that reads the processor's
 * own counter cannot be frozen. */
static bool stands_still(struct diff *diff)
{
    struct buffer real = {0};
    char wanted[64];

    diff_admin_answer(diff, "time", &real);
    (void)snprintf(wanted, sizeof(wanted), "*2\r\n$10\r\n%" PRId64 "\r\n$1\r\n0\r\n",
                   diff->time_us / 1000000);
    bool still = bytes_equal(buffer_view(&real), bytes_of(wanted));
    buffer_free(&real);
    return still;
}

/* Finds out which optional commands the real server has, and gives them to the model. */
static void ask_abilities(struct diff *diff)
{
    static const char *const words[] = {"delifeq", "delex"};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        struct buffer answer = {0};
        char command[64];

        (void)snprintf(command, sizeof(command), "command info %s", words[i]);
        diff_admin_answer(diff, command, &answer);
        if (answer.len > sizeof("*1\r\n*-1\r\n")) {
            model_server_know(diff->model, words[i]);
        } else if (!bytes_equal(buffer_view(&answer), bytes_of("*1\r\n*-1\r\n")) &&
                   !bytes_equal(buffer_view(&answer), bytes_of("*1\r\n$-1\r\n"))) {
            diff_fail(diff, "the real server does not say what it knows");
        }
        buffer_free(&answer);
    }
}

bool diff_start(struct diff *diff, const char *program, const char *clock_library)
{
    diff->fault = -1;
    diff->time_us = 1795000000000000;
    if (!real_redis_start(&diff->real, program, clock_library, diff->time_us)) {
        return false;
    }
    real_open(&diff->admin, &diff->real);
    if (!stands_still(diff)) {
        real_close(&diff->admin);
        real_redis_stop(&diff->real);
        return false;
    }
    diff->version = ask_version(diff);
    diff->texts = diff->version == 700;
    diff->model = model_server_new(model_clock, diff);
    diff_admin(diff, "acl setuser admin on nopass allkeys allchannels +@all");
    diff_admin(diff, "auth admin any");
    diff_admin(diff, "debug set-active-expire 0");
    ask_abilities(diff);
    diff_open(diff, &diff->command);
    return true;
}

void diff_stop(struct diff *diff)
{
    for (int i = 0; i < DIFF_LINKS; i++) {
        if (diff->listen[i].open) {
            diff_close(diff, &diff->listen[i]);
        }
    }
    diff_close(diff, &diff->command);
    real_close(&diff->admin);
    real_redis_stop(&diff->real);
    model_server_free(diff->model);
    for (int i = 0; i < MAX_ARGUMENTS; i++) {
        buffer_free(&diff->last.text[i]);
    }
    buffer_free(&diff->answer);
}

void diff_set_time(struct diff *diff, int64_t time_us)
{
    diff->time_us = time_us;
    real_redis_set_time(&diff->real, time_us);
}

void diff_admin_answer(struct diff *diff, const char *words, struct buffer *answer)
{
    struct buffer line = {0};

    buffer_printf(&line, "%s\r\n", words);
    real_write(&diff->admin, buffer_view(&line));
    buffer_free(&line);
    if (!real_read_answer(&diff->admin, answer)) {
        diff_fail(diff, "the real server hung up on its administrator");
    }
}

void diff_admin(struct diff *diff, const char *words)
{
    struct buffer answer = {0};

    diff_admin_answer(diff, words, &answer);
    if (answer.data[0] == '-') {
        print_escaped(words, buffer_view(&answer));
        diff_fail(diff, "the real server refused its administrator");
    }
    buffer_free(&answer);
}

/* Opens a link to both servers. Its ids differ between them, so they are not compared. */
void diff_open(struct diff *diff, struct diff_link *link)
{
    struct buffer answer = {0};

    real_open(&link->real, &diff->real);
    real_write(&link->real, bytes_of("CLIENT ID\r\n"));
    if (!real_read_answer(&link->real, &answer)) {
        diff_fail(diff, "the real server hung up");
    }
    buffer_append(&answer, "", 1);
    link->real_id = atoll(answer.data + 1);
    buffer_free(&answer);
    link->model = model_server_connect(diff->model);
    link->open = true;
}

/* Uses CLIENT KILL, since the real server would notice a closed socket only some time
 * later. */
void diff_close(struct diff *diff, struct diff_link *link)
{
    char kill[64];

    (void)snprintf(kill, sizeof(kill), "client kill id %" PRId64, link->real_id);
    diff_admin(diff, kill);
    real_close(&link->real);
    model_conn_free(link->model);
    link->open = false;
}

static void encode_last(const struct diff *diff, struct buffer *out)
{
    buffer_printf(out, "*%d\r\n", diff->last.count);
    for (int i = 0; i < diff->last.count; i++) {
        buffer_printf(out, "$%zu\r\n", diff->last.text[i].len);
        buffer_append(out, diff->last.text[i].data, diff->last.text[i].len);
        buffer_text(out, "\r\n");
    }
}

/* Runs the model first: then the length of the real server's reply is known. */
static void exchange(struct diff *diff, struct diff_link *link, bool whole_answers)
{
    struct buffer request = {0}, real = {0};
    struct bytes model;
    bool good;

    encode_last(diff, &request);
    model_conn_feed(link->model, request.data, request.len);
    model = model_conn_output(link->model);
    real_write(&link->real, buffer_view(&request));
    good = whole_answers || model.data[0] == '-'
               ? real_read_answer(&link->real, &real)
               : real_read_bytes(&link->real, model.len, &real);
    if (!good) {
        diff_fail(diff, "the real server hung up");
    }
    compare(diff, "answers differ", buffer_view(&real), model);
    buffer_set(&diff->answer, model);
    buffer_append(&diff->answer, "", 1);
    model_conn_consume(link->model, model.len);
    buffer_free(&request);
    buffer_free(&real);
}

void diff_send_on(struct diff *diff, struct diff_link *link)
{
    exchange(diff, link, false);
}

void diff_send(struct diff *diff)
{
    exchange(diff, &diff->command, true);
    diff->figures.commands++;
    diff->figures.errors += diff->answer.data[0] == '-';
    diff_check_messages(diff);
}

void diff_check_messages(struct diff *diff)
{
    for (int i = 0; i < DIFF_LINKS; i++) {
        struct diff_link *link = &diff->listen[i];
        struct buffer real = {0};
        struct bytes model;

        if (!link->open) {
            continue;
        }
        model = model_conn_output(link->model);
        if (!real_read_bytes(&link->real, model.len, &real)) {
            diff_fail(diff, "the real server hung up on a listener");
        }
        compare(diff, "messages differ", buffer_view(&real), model);
        diff->figures.messages += model.len > 0;
        model_conn_consume(link->model, model.len);
        buffer_free(&real);
    }
}

/* The requests about all keys, the same to both servers; the real one gets them all at
 * once. */
struct key_check {
    struct diff *diff;
    struct buffer request;
    struct buffer model;
    int answers;
    int keys;
};

static void ask_both(struct key_check *check, struct bytes name, const char *const *words)
{
    struct bytes argv[6];
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        argv[argc] = words[argc][0] == '@' ? name : bytes_of(words[argc]);
    }
    buffer_printf(&check->request, "*%d\r\n", argc);
    for (int i = 0; i < argc; i++) {
        buffer_printf(&check->request, "$%zu\r\n", argv[i].len);
        buffer_append(&check->request, argv[i].data, argv[i].len);
        buffer_text(&check->request, "\r\n");
    }
    model_server_ask(check->diff->model, 0, argv, argc, &check->model);
    check->answers++;
}

static void check_key(const struct model_key *key, void *arg)
{
    static const char *const type[] = {"type", "@", NULL}, *const ttl[] = {"pttl", "@",
                                                                           NULL};
    static const char *const get[] = {"get", "@", NULL};
    static const char *const hash[] = {"hgetall", "@", NULL};
    static const char *const zset[] = {"zrange", "@", "0", "-1", "withscores", NULL};
    static const char *const list[] = {"lrange", "@", "0", "-1", NULL};
    struct key_check *check = arg;

    if (key->database != 0) {
        return;
    }
    check->keys++;
    ask_both(check, key->name, type);
    ask_both(check, key->name, ttl);
    if (strcmp(key->type, "string") == 0) {
        ask_both(check, key->name, get);
    } else if (strcmp(key->type, "hash") == 0) {
        ask_both(check, key->name, hash);
    } else if (strcmp(key->type, "zset") == 0) {
        ask_both(check, key->name, zset);
    } else {
        ask_both(check, key->name, list);
    }
}

/* Checks that the real server has as many keys as the model, whose keys it all has. */
static void check_key_count(struct key_check *check)
{
    struct diff *diff = check->diff;
    struct buffer keys = {0};

    diff_admin_answer(diff, "keys *", &keys);
    buffer_append(&keys, "", 1);
    if (atoi(keys.data + 1) != check->keys) {
        print_escaped("real ", buffer_view(&keys));
        diff_fail(diff, "the real server has other keys");
    }
    buffer_free(&keys);
}

void diff_check_keys(struct diff *diff)
{
    struct key_check check = {.diff = diff};
    struct buffer real = {0};

    model_server_each_key(diff->model, check_key, &check);
    real_write(&diff->admin, buffer_view(&check.request));
    for (int i = 0; i < check.answers; i++) {
        if (!real_read_answer(&diff->admin, &real)) {
            diff_fail(diff, "the real server hung up on its administrator");
        }
    }
    compare(diff, "keys differ", buffer_view(&real), buffer_view(&check.model));
    check_key_count(&check);
    diff->figures.key_states += (uint64_t)check.keys;
    buffer_free(&real);
    buffer_free(&check.request);
    buffer_free(&check.model);
}

void arguments_clear(struct diff *diff)
{
    diff->last.count = 0;
}

void arguments_add_bytes(struct diff *diff, struct bytes value)
{
    if (diff->last.count == MAX_ARGUMENTS) {
        diff_fail(diff, "too many arguments for this test");
    }
    buffer_set(&diff->last.text[diff->last.count++], value);
}

void arguments_add(struct diff *diff, const char *format, ...)
{
    char text[8192];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    arguments_add_bytes(diff, bytes_of(text));
}

void arguments_words(struct diff *diff, const char *words)
{
    arguments_clear(diff);
    while (*words) {
        size_t len = strcspn(words, " ");
        arguments_add_bytes(diff, (struct bytes){words, len});
        words += len;
        words += strspn(words, " ");
    }
}
