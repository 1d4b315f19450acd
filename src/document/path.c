/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "document/document_read.h"

/* Find the folder from which relative paths in this node start. */
static bool base_folder(const struct document *document, int32_t node, char folder[PATH_MAX])
{
    if (document->node[node].file != document->file || strcmp(document->file, DOCUMENT_STANDARD_INPUT) == 0)
        return getcwd(folder, PATH_MAX) != NULL;
    if (realpath(document->file, folder) == NULL)
        return false;
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    return true;
}

bool path_resolve(const struct document *document, int32_t node, const char *key, char text[SCHEMA_TEXT_BYTES],
                  struct error *err)
{
    char folder[PATH_MAX], joined[PATH_MAX + SCHEMA_TEXT_BYTES + 1], canonical[PATH_MAX];
    if (*text == '/')
        snprintf(joined, sizeof joined, "%s", text);
    else if (base_folder(document, node, folder))
        snprintf(joined, sizeof joined, "%s/%s", folder, text);
    else
        return document_error(document, node, err, "%s: the folder from which this path starts cannot be read", key);
    const char *path = realpath(joined, canonical) != NULL ? canonical : joined;
    if (strlen(path) >= SCHEMA_TEXT_BYTES)
        return document_error(document, node, err, "%s: the absolute path is longer than %d bytes", key,
                              SCHEMA_TEXT_BYTES - 1);
    strcpy(text, path);
    return true;
}
