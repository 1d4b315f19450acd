/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/regular.h"

#include <sys/stat.h>

bool regular_check(const char *path, struct error *err)
{
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) ||
           error_add(err, "%s: is not a regular file, and this input is read more than once", path);
}
