/* SPDX-License-Identifier: MIT */
/* See watch_inside.h: the last picture in a terminal, from its top left corner, as much
 * of it as fits. */
#include "watch_inside.h"

#include "base/escape.h"
#include "columns.h"
#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool watch_screen_seen(struct watch_screen *screen, const struct lw_inspection *seen,
                       const struct lw_master *master)
{
    return picture_take(&screen->picture, seen, master,
                        screen_size(STDOUT_FILENO).ws_col) == 0;
}

/* NULL: no memory. */
static char *make_text(const struct watch_screen *screen, const char *name,
                       const struct watch_outage *outage, int64_t age_ms)
{
    char remark[40] = "", shown[2000], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    if (outage->what != NULL) {
        (void)snprintf(remark, sizeof(remark), "%s since", outage->what);
    }
    if (screen->picture.tables != NULL) {
        picture_show(out, &screen->picture, age_ms, remark, outage->why,
                     screen_size(STDOUT_FILENO).ws_col);
    } else if (outage->what != NULL) {
        lw__escape(name, shown, sizeof(shown));
        (void)fprintf(out, "%s: %s%s%s\n", shown, outage->what, *outage->why ? ": " : "",
                      outage->why);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* No line too long, none below the last one. */
static void draw(struct watch_screen *screen, const char *text)
{
    struct winsize size = screen_size(STDOUT_FILENO);

    (void)fputs(screen->drawn ? "\033[H" : "\033[2J\033[H", stdout);
    screen->drawn = true;
    for (int rows = size.ws_row - 1; *text && rows > 0; rows--) {
        size_t length = strcspn(text, "\n");

        (void)fwrite(text, 1, columns_fitting(text, length, size.ws_col), stdout);
        (void)fputs("\033[K\n", stdout);
        text += length + (text[length] == '\n');
    }
    (void)fputs("\033[J", stdout);
}

bool watch_screen_draw(struct watch_screen *screen, const char *name,
                       const struct watch_outage *outage, int64_t age_ms)
{
    char *text = make_text(screen, name, outage, age_ms);

    if (text == NULL) {
        return false;
    }
    draw(screen, text);
    free(text);
    return true;
}

void watch_screen_forget(struct watch_screen *screen)
{
    picture_forget(&screen->picture);
}
