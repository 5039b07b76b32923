/* SPDX-License-Identifier: MIT */
/* Reads a hosts file line by line. Must not know what the addresses are for. Lines longer
 * than the buffer are cut; a file that cannot be read says nothing of anybody. */
#include "loop/hosts.h"

#include "base/address.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void read_line(char *line, const char *host, struct lw__addresses *ret)
{
    static const char blank[] = " \t\r";
    struct lw__address address;
    char *rest = NULL, *first, *name;

    line[strcspn(line, "#")] = '\0';
    first = strtok_r(line, blank, &rest);
    if (first == NULL || !lw__address_parse(first, &address)) {
        return;
    }
    while ((name = strtok_r(NULL, blank, &rest)) != NULL) {
        if (strcasecmp(name, host) == 0) {
            lw__address_add(ret, &address);
            return;
        }
    }
}

void lw__hosts_find(const char *file, const char *host, struct lw__addresses *ret)
{
    char chunk[4096], line[1024];
    size_t length = 0;
    ssize_t got;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return;
    }
    while ((got = read(fd, chunk, sizeof(chunk))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                line[length] = chunk[i];
                length += length + 1 < sizeof(line) ? 1 : 0;
                continue;
            }
            line[length] = '\0';
            read_line(line, host, ret);
            length = 0;
        }
    }
    line[length] = '\0';
    read_line(line, host, ret);
    (void)close(fd);
}
