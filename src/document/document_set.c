/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/document_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"

/** Put `entry` in the position of `old` among the parent's children, or after the last child if old is -1. */
static void put_entry(struct document *document, int32_t parent, int32_t old, int32_t entry, const char *key)
{
    int32_t *link = &document->node[parent].child;
    while (*link != old)
        link = &document->node[*link].next;
    *link = entry;
    document->node[entry].next = old >= 0 ? document->node[old].next : -1;
    document->node[entry].key = document->node[parent].kind == DOCUMENT_MAPPING ? check_strdup(key) : NULL;
}

/** Find the entry that one segment of a path selects. *entry is -1 if a mapping lacks it. */
static bool select_entry(struct document *document, int32_t parent, const char *segment, const char *file,
                         int32_t *entry, struct error *err)
{
    static const char *const named[][2] = {/* one word has keys, too */
                                           {"platform", "name"},
                                           {"price", "name"},
                                           {"reliability", "name"},
                                           {"replay", "file"}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (parent == document_child(document, 0, named[i][0], strlen(named[i][0])))
            document_name_mapping(document, named[i][0], named[i][1]);
    struct document_node *at = &document->node[parent];
    if (document_is_null(at)) { /* `knobs:` without a value: a mapping without keys yet */
        free(at->value);
        at->value = NULL;
        at->kind = DOCUMENT_MAPPING;
    }
    *entry = -1;
    if (at->kind == DOCUMENT_SCALAR)
        return error_add(err, "%s: '%.200s' has the value '%.200s', so it has no keys below it%s", file,
                         at->key ? at->key : "this entry", at->value,
                         strcmp(at->value, "auto") == 0 ? "; set the whole key: plan={tp: 4, pp: 2}" : "");
    if (at->kind == DOCUMENT_MAPPING) {
        *entry = document_child(document, parent, segment, strlen(segment));
        return true;
    }
    int32_t n = 0;
    char index[16];
    for (int32_t child = at->child; child >= 0; child = document->node[child].next) {
        snprintf(index, sizeof index, "%d", n++);
        if (strcmp(segment, index) == 0)
            *entry = child;
    }
    return *entry >= 0 || error_add(err,
                                    "%s: '%.200s' selects nothing from the list '%.200s'; allowed: 0 to %d, the "
                                    "number of an entry: %.200s.0",
                                    file, segment, at->key ? at->key : "of a list", n - 1, at->key ? at->key : "list");
}

/** Follow the path and put `value` at its end. The path is split into segments on the way. place: its name in messages
 */
static bool set_at_path(struct document *document, char *path, int32_t value, const char *place, struct error *err)
{
    int32_t at = 0, entry = -1, depth = 0;
    const char *file = document->node[value].file;
    for (char *segment = path, *next; segment != NULL; segment = next, at = entry) {
        next = strchr(segment, '.');
        if (next != NULL)
            *next++ = '\0';
        if (*segment == '\0')
            return error_add(err, "%s: a key is missing before or after a dot; keys look like data.context", place);
        if (++depth > DOCUMENT_MAX_DEPTH)
            return error_add(err, "%s: the key has more than %d levels; use fewer", place, DOCUMENT_MAX_DEPTH);
        if (!select_entry(document, at, segment, place, &entry, err))
            return false;
        if (next == NULL) {
            put_entry(document, at, entry, value, segment);
        } else if (entry < 0) {
            entry = document_add_node(document, DOCUMENT_MAPPING, file);
            put_entry(document, at, -1, entry, segment);
        }
    }
    return true;
}

/** Return the name of an option's assignment for messages, with a limited length. The document keeps it. */
static const char *assignment_name(struct document *document, const char *option, const char *assignment)
{
    enum { SHOWN = 200 };
    const char *more = strlen(assignment) > SHOWN ? "..." : "";
    return document_keep(document, check_asprintf("%s '%.*s%s'", option, SHOWN, assignment, more));
}

/** Find the '=' of key=value. @return NULL with a message */
static const char *value_of(const char *assignment, const char *name, struct error *err)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment)
        error_add(err, "%s: expected KEY=VALUE, such as data.context=64Ki", name);
    else if (equals[1 + strspn(equals + 1, " ")] == '\0')
        error_add(err, "%s: there is no value after '='", name);
    else
        return equals;
    return NULL;
}

/** Set a path to a value from YAML flow text. The path is split into segments on the way. file: lives as long as the
 * document */
static bool set_value(struct document *document, char *path, const char *text, const char *file, struct error *err)
{
    int32_t value = document_read_nodes(document, text, strlen(text), file, false, err);
    return value >= 0 && set_at_path(document, path, value, file, err);
}

bool document_set(struct document *document, const char *assignment, struct error *err)
{
    const char *file = assignment_name(document, "--set", assignment), *equals = value_of(assignment, file, err);
    if (equals == NULL)
        return false;
    char *path = check_strndup(assignment, (size_t)(equals - assignment));
    bool ok = set_value(document, path, equals + 1, file, err);
    free(path);
    return ok;
}

bool document_set_value(struct document *document, const char *path, const char *value, const char *place,
                        struct error *err)
{
    char *segments = check_strdup(path);
    bool ok = set_value(document, segments, value, document_keep(document, check_strdup(place)), err);
    free(segments);
    return ok;
}

/** Return the root's mapping of this name. It is made if it is missing. @return -1 with a message if it is something
 * else */
static int32_t root_group(struct document *document, const char *name, const char *file, struct error *err)
{
    int32_t group = -1;
    if (!select_entry(document, 0, name, file, &group, err))
        return -1;
    if (group < 0) {
        group = document_add_node(document, DOCUMENT_MAPPING, file);
        put_entry(document, 0, -1, group, name);
    }
    int32_t none;
    if (document_is_null(&document->node[group]))
        select_entry(document, group, "", file, &none, err);
    if (document->node[group].kind == DOCUMENT_MAPPING)
        return group;
    document_error(document, group, err, "%s: expected a mapping of keys", name);
    return -1;
}

bool document_set_list(struct document *document, const char *group, const char *option, const char *assignment,
                       struct error *err)
{
    const char *file = assignment_name(document, option, assignment), *equals = value_of(assignment, file, err);
    int32_t mapping = equals != NULL ? root_group(document, group, file, err) : -1;
    if (mapping < 0)
        return false;
    bool whole = equals[1] == '{';
    size_t bytes = strlen(equals) + 3;
    char *text = check_malloc(bytes), *key = check_strndup(assignment, (size_t)(equals - assignment));
    snprintf(text, bytes, whole ? "%s" : "[%s]", equals + 1);
    int32_t value = document_read_nodes(document, text, strlen(text), file, false, err);
    if (value >= 0)
        put_entry(document, mapping, document_child(document, mapping, key, strlen(key)), value, key);
    free(text);
    free(key);
    return value >= 0;
}

bool document_put(struct document *document, const char *path, const struct document *from, int32_t node,
                  struct error *err)
{
    const struct document_node *at = &from->node[node];
    char place[1024], *segments = check_strdup(path);
    if (at->line > 0)
        snprintf(place, sizeof place, "%s:%d:%d: %s", at->file, at->line, at->column, path);
    else
        snprintf(place, sizeof place, "%s", at->file);
    bool ok = set_at_path(document, segments, document_clone(document, from, node, NULL), place, err);
    free(segments);
    return ok;
}
