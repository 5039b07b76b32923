/* SPDX-License-Identifier: MIT */
/* See password.h. */
#include "password.h"

#include "lockwire.h"
#include "report.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int password_read(const char *option, const char *file, char password[PASSWORD_MAX + 1])
{
    char why[200];
    int status = strcmp(file, "-") == 0
                     ? lw__first_line_from(STDIN_FILENO, password, why, sizeof(why))
                     : lw__first_line_of(file, true, password, why, sizeof(why));

    if (status == 0) {
        return 0;
    }
    report("%s '%s': %s", option, file, why);
    return exit_code_for(status, LW_OK, EXIT_BUSY);
}

bool password_is_kept(const char *file)
{
    struct stat about;

    return strcmp(file, "-") != 0 && stat(file, &about) == 0 && S_ISREG(about.st_mode);
}

/* volatile, so that the compiler does not drop the writes. */
void password_wipe(char *password)
{
    volatile char *at = password;

    while (at != NULL && *at) {
        *at++ = '\0';
    }
}
