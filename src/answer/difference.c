/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answer/difference.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_set.h"

#define ENTRY "systems.0"

/** Keys that change together with others, and the name of the difference. */
static const struct {
    const char *path, *name;
} groups[] = {
    {"data.global_batch", "data.global_batch"},
    {"data.global_batch_tokens", "data.global_batch"},
    {ENTRY, "system"},
    {ENTRY ".plan_space", "plan"},
    {ENTRY ".offload", "offload"},
    {ENTRY ".plan_space.offload", "offload"},
    {ENTRY ".plan.offload", "offload"},
    {ENTRY ".plan.tp", "plan"},
    {ENTRY ".plan.pp", "plan"},
    {ENTRY ".plan.cp", "plan"},
    {ENTRY ".plan.ep", "plan"},
    {ENTRY ".plan.capacity_factor", "plan"},
    {ENTRY ".plan.vpp", "plan"},
    {ENTRY ".plan.schedule", "plan"},
    {ENTRY ".plan.slices", "plan"},
    {ENTRY ".plan.layers", "plan"},
    {ENTRY ".plan.spread", "plan"},
    {ENTRY ".plan.first_stage_layers", "plan"},
    {ENTRY ".plan.last_stage_layers", "plan"},
    {ENTRY ".plan.count_embedding", "plan"},
    {ENTRY ".plan.count_head", "plan"},
};
enum { N_GROUPS = sizeof groups / sizeof *groups };

/** Keys that change no result on the critical path. The number of replicas follows from the platform and the other
 * degrees. */
static const char *const ignored[] = {"name",        "trace",        "engine",        "all_tensor_ranks",
                                      "simgrid_cfg", ENTRY ".label", ENTRY ".plan.dp"};
enum { N_IGNORED = sizeof ignored / sizeof *ignored };

static bool is_ignored(const char *path)
{
    for (int i = 0; i < N_IGNORED; i++)
        if (strcmp(path, ignored[i]) == 0)
            return true;
    return false;
}

static const char *without_entry(const char *path)
{
    size_t n = strlen(ENTRY ".");
    return strncmp(path, ENTRY ".", n) == 0 ? path + n : path;
}

/** Return whether the key changes together with others and is no whole. */
static bool is_grouped(const char *path)
{
    for (int i = 0; i < N_GROUPS; i++)
        if (strcmp(path, groups[i].path) == 0)
            return strcmp(path, ENTRY) != 0;
    return false;
}

static const char *name_of(const char *path)
{
    for (int i = 0; i < N_GROUPS; i++)
        if (strcmp(path, groups[i].path) == 0)
            return groups[i].name;
    return without_entry(path);
}

/** Return the value of a key for a person. A plan has its degrees, an entry of a system its label. */
static char *value_text(const struct document *document, int32_t node)
{
    static const char *const degrees[] = {"tp", "pp", "cp"};
    if (node < 0)
        return check_strdup("-");
    int32_t label = document_find(document, node, "label"), tp = document_find(document, node, "tp");
    if (document->node[node].kind != DOCUMENT_MAPPING || (label < 0 && tp < 0))
        return document_text(document, node);
    if (label >= 0)
        return document_text(document, label);
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    for (int i = 0; i < 3; i++)
        fprintf(file, "%s%s %s", i > 0 ? " " : "", degrees[i],
                document->node[document_find(document, node, degrees[i])].value);
    CHECK(fclose(file) == 0);
    return text;
}

/** Return the keys of a mapping whose values another mapping does not have: "name: h100, nic: 5e+10". */
static char *changed_text(const struct document *document, int32_t mapping, const struct document *other,
                          int32_t other_mapping)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    int32_t n = 0;
    for (int32_t i = document->node[mapping].child; i >= 0; i = document->node[i].next) {
        int32_t same = document_find(other, other_mapping, document->node[i].key);
        char *value = document_text(document, i), *theirs = same >= 0 ? document_text(other, same) : check_strdup("");
        if (strcmp(value, theirs) != 0)
            fprintf(file, "%s%s: %s", n++ > 0 ? ", " : "", document->node[i].key, value);
        free(value);
        free(theirs);
    }
    fputs(n == 0 ? "-" : "", file);
    CHECK(fclose(file) == 0);
    return text;
}

/** Return the name of a key among those that change together: "" if it is the difference's own. */
static const char *member_name(const char *path, const char *name)
{
    const char *key = without_entry(path);
    size_t n = strlen(name);
    if (strcmp(key, name) == 0)
        return "";
    return strncmp(key, name, n) == 0 && key[n] == '.' ? key + n + 1 : key;
}

/** Append a value to those of the other keys of a difference. A batch has only one size. */
static void append_value(char **values, const char *path, const char *name, char *value)
{
    const char *member = member_name(path, name), *gap = *member == '\0' ? "" : " ";
    if (strncmp(path, "data.", 5) != 0 || strcmp(value, "0") != 0) {
        char *all = *values == NULL ? check_asprintf("%s%s%s", member, gap, value)
                                    : check_asprintf("%s %s%s%s", *values, member, gap, value);
        free(*values);
        *values = all;
    }
    free(value);
}

static struct difference *find_or_add(struct differences *differences, const char *name)
{
    for (int32_t i = 0; i < differences->n; i++)
        if (strcmp(differences->list[i].name, name) == 0)
            return &differences->list[i];
    differences->list =
        check_grow(differences->list, (size_t)differences->n, &differences->capacity, sizeof *differences->list);
    struct difference *added = &differences->list[differences->n++];
    *added = (struct difference){.n_paths = 0};
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

static void add(struct differences *differences, const char *path, char *from, char *to)
{
    struct difference *difference = find_or_add(differences, name_of(path));
    CHECK(difference->n_paths < DIFFERENCE_MOST_PATHS);
    snprintf(difference->path[difference->n_paths++], DIFFERENCE_PATH_SIZE, "%s", path);
    if (strcmp(path, ENTRY ".plan_space") == 0) { /* the plan itself says it */
        free(from);
        free(to);
    } else if (is_grouped(path)) {
        append_value(&difference->from, path, difference->name, from);
        append_value(&difference->to, path, difference->name, to);
    } else {
        difference->from = from;
        difference->to = to;
    }
}

/** Return whether the children of two mappings are compared one by one. */
static bool divided(const struct document *from, int32_t a, const struct document *to, int32_t b, const char *path)
{
    bool named = strcmp(path, ENTRY) == 0 || strcmp(path, "platform") == 0;
    if (a < 0 || b < 0 || from->node[a].kind != DOCUMENT_MAPPING || to->node[b].kind != DOCUMENT_MAPPING)
        return false;
    int32_t name = document_find(from, a, "name"), other = document_find(to, b, "name");
    if (!named || (name < 0 && other < 0))
        return true;
    return name >= 0 && other >= 0 && strcmp(from->node[name].value, to->node[other].value) == 0;
}

static void compare(const struct document *from, const struct document *to, const char *path,
                    struct differences *differences);

/** Compare the children of a mapping, also those that only `to` has. */
static void compare_children(const struct document *from, const struct document *to, const char *path,
                             struct differences *differences)
{
    const struct document *sides[] = {from, to};
    for (int side = 0; side < 2; side++) {
        int32_t mapping = *path == '\0' ? 0 : document_find(sides[side], 0, path);
        for (int32_t i = sides[side]->node[mapping].child; i >= 0; i = sides[side]->node[i].next) {
            char *child = check_asprintf("%s%s%s", path, *path == '\0' ? "" : ".", sides[side]->node[i].key);
            if (side == 0 || document_find(from, 0, child) < 0)
                compare(from, to, strcmp(child, "systems") == 0 ? ENTRY : child, differences);
            free(child);
        }
    }
}

static void compare(const struct document *from, const struct document *to, const char *path,
                    struct differences *differences)
{
    int32_t a = document_find(from, 0, path), b = document_find(to, 0, path);
    if (is_ignored(path))
        return;
    if (divided(from, a, to, b, path)) {
        compare_children(from, to, path, differences);
        return;
    }
    char *written = a >= 0 ? document_text(from, a) : check_strdup(""),
         *other = b >= 0 ? document_text(to, b) : check_strdup("");
    bool platforms = strcmp(path, "platform") == 0 && a >= 0 && b >= 0;
    if (strcmp(written, other) != 0)
        add(differences, path, platforms ? changed_text(from, a, to, b) : value_text(from, a),
            platforms ? changed_text(to, b, from, a) : value_text(to, b));
    free(written);
    free(other);
}

void differences_find(const struct document *from, const struct document *to, struct differences *differences)
{
    *differences = (struct differences){0};
    compare_children(from, to, "", differences);
}

/** Remove a key. */
static void remove_key(struct document *document, const char *path)
{
    const char *dot = strrchr(path, '.');
    int32_t node = document_find(document, 0, path), parent = 0;
    if (node < 0)
        return;
    if (dot != NULL) {
        char *above = check_asprintf("%.*s", (int)(dot - path), path);
        parent = document_find(document, 0, above);
        free(above);
    }
    int32_t *link = &document->node[parent].child;
    while (*link != node)
        link = &document->node[*link].next;
    *link = document->node[node].next;
}

bool difference_apply(const struct difference *difference, const struct document *to, struct document *document,
                      struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < difference->n_paths; i++) {
        const char *path = difference->path[i];
        int32_t node = document_find(to, 0, path);
        if (node < 0) {
            remove_key(document, path);
            continue;
        }
        char *value = document_text(to, node);
        ok = document_set_value(document, path, value, to->file, err);
        free(value);
    }
    return ok;
}

void differences_free(struct differences *differences)
{
    for (int32_t i = 0; i < differences->n; i++) {
        free(differences->list[i].from);
        free(differences->list[i].to);
    }
    free(differences->list);
    *differences = (struct differences){0};
}
