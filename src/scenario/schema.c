/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "scenario/quantity.h"

enum { NAME_BYTES = 64, TEXT_BYTES = 512, SHOWN_BYTES = 84 };

/** What one schema_read works on. */
struct reading {
    const struct document *document;
    const struct schema_key *keys;
    int32_t n_keys;
    const char *const *others;
    struct error *err;
    bool ok;
};

static const char *const type_names[] = {
    [SCHEMA_BOOL] = "bool",   [SCHEMA_INT] = "integer",    [SCHEMA_REAL] = "real", [SCHEMA_CHOICE] = "choice",
    [SCHEMA_SET] = "list",    [SCHEMA_WORD] = "word",      [SCHEMA_TEXT] = "text", [SCHEMA_INTS] = "integers",
    [SCHEMA_REALS] = "reals", [SCHEMA_CHOICES] = "choices"};

static bool is_list(enum schema_type type)
{
    return type == SCHEMA_INTS || type == SCHEMA_REALS || type == SCHEMA_CHOICES;
}

/** The i-th element of a list as a key of its own. */
static struct schema_key element_of(const struct schema_key *list, int32_t i)
{
    struct schema_key key = *list;
    size_t first = list->type == SCHEMA_CHOICES ? offsetof(struct schema_choices, at)
                   : list->type == SCHEMA_INTS  ? offsetof(struct schema_ints, at)
                                                : offsetof(struct schema_reals, at);
    size_t bytes = list->type == SCHEMA_CHOICES ? sizeof(int32_t) : sizeof(int64_t);
    _Static_assert(sizeof(int64_t) == sizeof(double), "elements of integers and reals are as wide");
    key.type = list->type == SCHEMA_CHOICES ? SCHEMA_CHOICE : list->type == SCHEMA_INTS ? SCHEMA_INT : SCHEMA_REAL;
    key.offset = list->offset + first + (size_t)i * bytes;
    return key;
}

/** How many elements a list holds; n is the first field of each. */
static int32_t *length_of(const struct schema_key *list, void *object)
{
    return (int32_t *)((char *)object + list->offset);
}

int32_t schema_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (int32_t i = 0;; i++) {
        size_t length = strcspn(choices, "|");
        if (length == n && strncmp(choices, value, n) == 0)
            return i;
        if (choices[length] == '\0')
            return -1;
        choices += length + 1;
    }
}

void schema_choice_name(const char *choices, int32_t i, char name[64])
{
    for (; i > 0; i--) {
        choices += strcspn(choices, "|");
        CHECK(*choices == '|');
        choices++;
    }
    snprintf(name, NAME_BYTES, "%.*s", (int)strcspn(choices, "|"), choices);
}

/** Whole numbers in full, others short. */
static void print_number(double number, char text[32])
{
    if (fabs(number) < 1e17 && number == floor(number))
        snprintf(text, 32, "%.0f", number);
    else
        snprintf(text, 32, "%.6g", number);
}

static bool has_range(const struct schema_key *key)
{
    return key->type != SCHEMA_WORD && key->type != SCHEMA_TEXT && (key->min != 0 || key->max != 0) &&
           (isfinite(key->min) || isfinite(key->max));
}

static bool in_range(const struct schema_key *key, double number)
{
    return !has_range(key) || (key->min <= number && number <= key->max);
}

static void print_range(const struct schema_key *key, char text[128])
{
    char min[32], max[32];
    print_number(key->min, min);
    print_number(key->max, max);
    if (!has_range(key))
        snprintf(text, 128, "any");
    else if (!isfinite(key->max))
        snprintf(text, 128, "at least %s", min);
    else if (!isfinite(key->min))
        snprintf(text, 128, "at most %s", max);
    else
        snprintf(text, 128, "%s to %s", min, max);
}

/** "a|b|c" as "a, b, c". */
static void print_choices(const char *choices, char text[512])
{
    size_t n = 0;
    for (; *choices != '\0' && n + 3 < 512; choices++)
        if (*choices == '|') {
            text[n++] = ',';
            text[n++] = ' ';
        } else {
            text[n++] = *choices;
        }
    text[n] = '\0';
}

/** What a user may write for this key. */
static void print_allowed(const struct schema_key *key, char text[640])
{
    char range[128], choices[512], unit[80] = "";
    if (is_list(key->type)) {
        struct schema_key element = element_of(key, 0);
        print_allowed(&element, text);
        strncat(text, "; or a list of them", 640 - strlen(text) - 1);
        return;
    }
    if (key->unit != NULL && strcmp(key->unit, "-") != 0)
        snprintf(unit, sizeof unit, " [%s]", key->unit);
    switch (key->type) {
    case SCHEMA_BOOL:
        snprintf(text, 640, "true or false");
        return;
    case SCHEMA_INT:
    case SCHEMA_REAL:
        print_range(key, range);
        snprintf(text, 640, "%s%s, %s", key->type == SCHEMA_INT ? "a whole number" : "a number", unit, range);
        return;
    case SCHEMA_CHOICE:
        print_choices(key->choices, choices);
        snprintf(text, 640, "%s", choices);
        return;
    case SCHEMA_SET:
        print_choices(key->choices, choices);
        snprintf(text, 640, "none, or one or a [list] of %s", choices);
        return;
    case SCHEMA_WORD:
    case SCHEMA_TEXT:
        snprintf(text, 640, "text of at most %d bytes", (key->type == SCHEMA_WORD ? NAME_BYTES : TEXT_BYTES) - 1);
        return;
    default:
        CHECK(false);
    }
}

/** Up to 2^63 - 1 as digits, up to 2^53 in any other form. @return what is wrong, or NULL */
static const char *store_int(const struct schema_key *key, const char *text, int64_t *field)
{
    char *end;
    double number;
    if (!quantity_parse(text, key->unit ? key->unit : "-", &number))
        return "is not a number";
    if (number != floor(number))
        return "is not a whole number";
    if (!in_range(key, number))
        return "is out of range";
    errno = 0;
    *field = strtoll(text, &end, 10);
    if (*end == '\0' && errno == 0)
        return NULL;
    if (fabs(number) > 0x1p53)
        return "is too large to be exact";
    *field = (int64_t)number;
    return NULL;
}

static const char *store_real(const struct schema_key *key, const char *text, double *field)
{
    if (!quantity_parse(text, key->unit ? key->unit : "-", field))
        return "is not a number";
    return in_range(key, *field) ? NULL : "is out of range";
}

static const char *store_text(const struct schema_key *key, const char *text, char *field, size_t n_bytes)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') /* a folded block ends in one */
        n--;
    if (n >= n_bytes)
        return "is too long";
    if (n == 0 && key->fallback == NULL)
        return "is empty";
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            return "holds a line end or control character";
    memcpy(field, text, n);
    field[n] = '\0';
    return NULL;
}

static const char *add_to_set(const struct schema_key *key, const char *text, int32_t *field)
{
    int32_t choice = schema_choice(key->choices, text);
    if (choice < 0)
        return "is not known";
    *field |= 1 << choice;
    return NULL;
}

/** Parse text into the key's field. @return what is wrong, or NULL */
static const char *store(const struct schema_key *key, const char *text, bool quoted, void *object)
{
    char *field = (char *)object + key->offset;
    bool is_text =
        key->type == SCHEMA_WORD || key->type == SCHEMA_TEXT || key->type == SCHEMA_CHOICE || key->type == SCHEMA_SET;
    if (quoted && !is_text)
        return "stands in quotes, so it is text";
    switch (key->type) {
    case SCHEMA_BOOL:
        *(bool *)field = strcmp(text, "true") == 0;
        return *(bool *)field || strcmp(text, "false") == 0 ? NULL : "is neither";
    case SCHEMA_INT:
        return store_int(key, text, (int64_t *)field);
    case SCHEMA_REAL:
        return store_real(key, text, (double *)field);
    case SCHEMA_CHOICE:
        *(int32_t *)field = schema_choice(key->choices, text);
        return *(int32_t *)field >= 0 ? NULL : "is not known";
    case SCHEMA_SET:
        *(int32_t *)field = 0;
        return strcmp(text, "none") == 0 ? NULL : add_to_set(key, text, (int32_t *)field);
    case SCHEMA_WORD:
        return store_text(key, text, field, NAME_BYTES);
    case SCHEMA_TEXT:
        return store_text(key, text, field, TEXT_BYTES);
    case SCHEMA_INTS:
    case SCHEMA_REALS:
    case SCHEMA_CHOICES:
        CHECK(*text == '\0'); /* the default of a list; its elements are stored one by one */
        *length_of(key, object) = 0;
    }
    return NULL;
}

/** "; did you mean 'x'?" when x is near, else "; `instead`". */
static void print_suggestion(const char *name, const char *const *candidates, int32_t n, const char *instead,
                             char text[800])
{
    const char *nearest = nearest_name(name, candidates, n);
    if (nearest != NULL)
        snprintf(text, 800, "did you mean '%s'? ", nearest);
    snprintf(text + strlen(text), 800 - strlen(text), "allowed: %s", instead);
}

/** A choice that is not known, with the one that was likely meant. */
static void print_choice_suggestion(const struct schema_key *key, const char *value, char text[800])
{
    enum { MOST = 32 };
    char names[MOST][NAME_BYTES], allowed[640];
    const char *candidates[MOST];
    int32_t n = 1;
    for (const char *at = key->choices; (at = strchr(at, '|')) != NULL && n < MOST; at++)
        n++;
    for (int32_t i = 0; i < n; i++) {
        schema_choice_name(key->choices, i, names[i]);
        candidates[i] = names[i];
    }
    print_allowed(key, allowed);
    text[0] = '\0';
    print_suggestion(value, candidates, n, allowed, text);
}

/** Each word of a list into the key's set, or a message. */
static void read_set(struct reading *reading, const struct schema_key *key, int32_t node, int32_t *field)
{
    const struct document *document = reading->document;
    char hint[800];
    *field = 0;
    for (int32_t child = document->node[node].child; child >= 0; child = document->node[child].next) {
        const struct document_node *at = &document->node[child];
        const char *word = at->kind == DOCUMENT_SCALAR ? at->value : "", *problem = add_to_set(key, word, field);
        if (problem == NULL)
            continue;
        print_choice_suggestion(key, word, hint);
        reading->ok = document_error(document, child, reading->err, "%s: '%.200s' in the list %s; %s", key->name, word,
                                     problem, hint);
    }
}

/** A value as messages show it: on one line, its beginning if it is long. */
static void print_shown(const char *value, char text[SHOWN_BYTES])
{
    size_t n = strnlen(value, SHOWN_BYTES);
    bool cut = n == SHOWN_BYTES;
    n = cut ? SHOWN_BYTES - 4 : n;
    for (size_t i = 0; i < n; i++)
        text[i] = (unsigned char)value[i] < ' ' || value[i] == '\x7f' ? '?' : value[i];
    strcpy(text + n, cut ? "..." : "");
}

/** One value of the file into its field, or a message. */
static void read_value(struct reading *reading, const struct schema_key *key, int32_t node, void *object)
{
    const struct document_node *at = &reading->document->node[node];
    const char *problem = NULL;
    char allowed[640], hint[800], shown[SHOWN_BYTES];
    print_allowed(key, allowed);
    snprintf(hint, sizeof hint, "allowed: %s", allowed);
    if (document_is_null(at)) {
        reading->ok = document_error(reading->document, node, reading->err, "%s: has no value; %s", key->name, hint);
    } else if (key->type == SCHEMA_SET && at->kind == DOCUMENT_SEQUENCE) {
        read_set(reading, key, node, (int32_t *)((char *)object + key->offset));
    } else if (at->kind != DOCUMENT_SCALAR) {
        reading->ok = document_error(reading->document, node, reading->err, "%s: is a %s, not one value; %s", key->name,
                                     at->kind == DOCUMENT_SEQUENCE ? "list" : "mapping of keys", hint);
    } else if ((problem = store(key, at->value, at->quoted, object)) != NULL) {
        if (key->type == SCHEMA_CHOICE || key->type == SCHEMA_SET)
            print_choice_suggestion(key, at->value, hint);
        print_shown(at->value, shown);
        reading->ok =
            document_error(reading->document, node, reading->err, "%s: '%s' %s; %s", key->name, shown, problem, hint);
    }
}

/** One value, or a sequence of them. */
static void read_list(struct reading *reading, const struct schema_key *key, int32_t node, void *object)
{
    const struct document_node *nodes = reading->document->node;
    int32_t *n = length_of(key, object);
    *n = 0;
    if (nodes[node].kind != DOCUMENT_SEQUENCE) {
        struct schema_key element = element_of(key, (*n)++);
        read_value(reading, &element, node, object);
        return;
    }
    for (int32_t child = nodes[node].child; child >= 0 && *n < SCHEMA_LIST_MOST; child = nodes[child].next) {
        struct schema_key element = element_of(key, (*n)++);
        read_value(reading, &element, child, object);
        if (nodes[child].next >= 0 && *n == SCHEMA_LIST_MOST)
            reading->ok = document_error(reading->document, node, reading->err, "%s: more than %d values; use fewer",
                                         key->name, SCHEMA_LIST_MOST);
    }
    if (*n == 0)
        reading->ok = document_error(reading->document, node, reading->err,
                                     "%s: is an empty list; name at least one value, or leave the key out", key->name);
}

/** The innermost mapping that exists on the way to a key, for the place of "is required". */
static int32_t existing_group(const struct document *document, int32_t mapping, const char *name)
{
    char group[NAME_BYTES];
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        snprintf(group, sizeof group, "%.*s", (int)(dot - name), name);
        int32_t node = document_find(document, mapping, group);
        if (node < 0)
            break;
        if (strchr(dot + 1, '.') == NULL)
            return node;
    }
    return mapping;
}

static void read_key(struct reading *reading, const struct schema_key *key, int32_t mapping, void *object)
{
    int32_t node = document_find(reading->document, mapping, key->name);
    if (node >= 0 && is_list(key->type)) {
        read_list(reading, key, node, object);
    } else if (node >= 0) {
        read_value(reading, key, node, object);
    } else if (key->fallback != NULL) {
        CHECK(store(key, key->fallback, false, object) == NULL);
    } else {
        char allowed[640];
        print_allowed(key, allowed);
        reading->ok =
            document_error(reading->document, existing_group(reading->document, mapping, key->name), reading->err,
                           "%s: is required (%s); allowed: %s", key->name, key->meaning, allowed);
    }
}

enum place { PLACE_UNKNOWN, PLACE_KEY, PLACE_GROUP };

/** What a dotted name is in the table. */
static enum place place_of(const struct reading *reading, const char *name)
{
    size_t n = strlen(name);
    for (int32_t i = 0; i < reading->n_keys; i++)
        if (strncmp(reading->keys[i].name, name, n) == 0) {
            if (reading->keys[i].name[n] == '\0')
                return PLACE_KEY;
            if (reading->keys[i].name[n] == '.')
                return PLACE_GROUP;
        }
    for (const char *const *other = reading->others; other != NULL && *other != NULL; other++)
        if (strcmp(*other, name) == 0)
            return PLACE_KEY;
    return PLACE_UNKNOWN;
}

/** Append the next segment of `name` behind `prefix`, unless it belongs elsewhere or stands there already. */
static int32_t add_candidate(const char *name, const char *prefix, char (*names)[NAME_BYTES], int32_t n)
{
    size_t length = strlen(prefix);
    char segment[NAME_BYTES];
    if (strncmp(name, prefix, length) != 0)
        return n;
    snprintf(segment, sizeof segment, "%.*s", (int)strcspn(name + length, "."), name + length);
    for (int32_t i = 0; i < n; i++)
        if (strcmp(names[i], segment) == 0)
            return n;
    strcpy(names[n], segment);
    return n + 1;
}

/** A key that stands in another group ("context" for "data.context"), or NULL. */
static const char *key_elsewhere(const struct reading *reading, const char *name)
{
    for (int32_t i = 0; i < reading->n_keys; i++) {
        const char *last = strrchr(reading->keys[i].name, '.');
        if (strcmp(last != NULL ? last + 1 : reading->keys[i].name, name) == 0 ||
            strcmp(reading->keys[i].name, name) == 0)
            return reading->keys[i].name;
    }
    return NULL;
}

/** Say that a key is unknown and which was likely meant. prefix: of its group, "" or "data.". */
static void refuse_key(struct reading *reading, int32_t node, const char *prefix)
{
    const char *name = reading->document->node[node].key, *elsewhere = key_elsewhere(reading, name);
    int32_t n = 0, n_others = 0;
    while (reading->others != NULL && reading->others[n_others] != NULL)
        n_others++;
    char(*names)[NAME_BYTES] = check_calloc((size_t)(reading->n_keys + n_others), sizeof *names);
    const char **candidates = check_calloc((size_t)(reading->n_keys + n_others), sizeof *candidates);
    for (int32_t i = 0; i < reading->n_keys; i++)
        n = add_candidate(reading->keys[i].name, prefix, names, n);
    for (int32_t i = 0; i < n_others; i++)
        n = add_candidate(reading->others[i], prefix, names, n);
    char allowed[512] = "", hint[800] = "";
    for (int32_t i = 0; i < n; i++) {
        candidates[i] = names[i];
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    if (elsewhere != NULL)
        snprintf(hint, sizeof hint, "did you mean '%s' (a dot stands for a level of nesting)?", elsewhere);
    else
        print_suggestion(name, candidates, n, n > 0 ? allowed : "no keys", hint);
    reading->ok =
        document_key_error(reading->document, node, reading->err, "%s%.200s: unknown key; %s", prefix, name, hint);
    free(candidates);
    free(names);
}

/** Every key of a mapping is one of the table's, its group a mapping. */
static void refuse_unknown_keys(struct reading *reading, int32_t mapping, const char *prefix)
{
    const struct document_node *node = reading->document->node;
    for (int32_t child = node[mapping].child; child >= 0; child = node[child].next) {
        char name[2 * NAME_BYTES];
        int length = snprintf(name, sizeof name, "%s%s", prefix, node[child].key);
        bool dotted = strchr(node[child].key, '.') != NULL;
        enum place place = length >= (int)sizeof name || dotted ? PLACE_UNKNOWN : place_of(reading, name);
        if (place == PLACE_UNKNOWN) {
            refuse_key(reading, child, prefix);
        } else if (place == PLACE_GROUP && node[child].kind == DOCUMENT_MAPPING) {
            strcat(name, ".");
            refuse_unknown_keys(reading, child, name);
        } else if (place == PLACE_GROUP && !document_is_null(&node[child])) {
            reading->ok =
                document_error(reading->document, child, reading->err, "%s: expected a mapping of keys, found %s", name,
                               node[child].kind == DOCUMENT_SEQUENCE ? "a list" : "a single value");
        }
    }
}

/* Seven parameters: a table, its mapping, and where results and errors go. */
/* NOLINTNEXTLINE(readability-function-size) */
bool schema_read(const struct document *document, int32_t mapping, const struct schema_key *keys, int32_t n_keys,
                 const char *const *others, void *object, struct error *err)
{
    struct reading reading = {
        .document = document, .keys = keys, .n_keys = n_keys, .others = others, .err = err, .ok = true};
    if (mapping >= 0 && document_is_null(&document->node[mapping]))
        mapping = -1;
    if (mapping >= 0 && document->node[mapping].kind != DOCUMENT_MAPPING) {
        const char *name = document->node[mapping].key;
        return document_error(document, mapping, err, "%s: expected a mapping of keys, found %s",
                              name != NULL ? name : "this entry",
                              document->node[mapping].kind == DOCUMENT_SEQUENCE ? "a list" : "a single value");
    }
    if (mapping >= 0)
        refuse_unknown_keys(&reading, mapping, "");
    for (int32_t i = 0; i < n_keys; i++)
        read_key(&reading, &keys[i], mapping, object);
    return reading.ok;
}

/** With as few digits as give the same bits again. */
static void write_real(FILE *file, double value)
{
    char text[32];
    for (int digits = 5; digits <= 17; digits += 2) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, file);
}

/** One word, or a list. */
static void write_set(FILE *file, const struct schema_key *key, int32_t set)
{
    char name[NAME_BYTES];
    const char *before = (set & (set - 1)) != 0 ? "[" : "";
    if (set == 0)
        fputs("none", file);
    for (int32_t i = 0; i < 31 && set >> i != 0; i++)
        if (set >> i & 1) {
            schema_choice_name(key->choices, i, name);
            fprintf(file, "%s%s", before, name);
            before = ", ";
        }
    if ((set & (set - 1)) != 0)
        fputc(']', file);
}

static void write_value(FILE *file, const struct schema_key *key, const void *object)
{
    const char *field = (const char *)object + key->offset;
    char name[NAME_BYTES];
    switch (key->type) {
    case SCHEMA_BOOL:
        fputs(*(const bool *)field ? "true" : "false", file);
        return;
    case SCHEMA_INT:
        fprintf(file, "%" PRId64, *(const int64_t *)field);
        return;
    case SCHEMA_REAL:
        write_real(file, *(const double *)field);
        return;
    case SCHEMA_CHOICE:
        schema_choice_name(key->choices, *(const int32_t *)field, name);
        fputs(name, file);
        return;
    case SCHEMA_SET:
        write_set(file, key, *(const int32_t *)field);
        return;
    case SCHEMA_WORD:
    case SCHEMA_TEXT:
        document_write_text(file, field);
        return;
    default: /* a list, in brackets; an empty one is left out */
        fputc('[', file);
        for (int32_t i = 0; i < *(const int32_t *)field; i++) {
            struct schema_key element = element_of(key, i);
            fputs(i > 0 ? ", " : "", file);
            write_value(file, &element, object);
        }
        fputc(']', file);
    }
}

/** The keys below a prefix; a group stands where its first key does. */
static void write_level(FILE *file, const struct schema_key *keys, int32_t n_keys, const void *object, int32_t indent,
                        const char *prefix)
{
    size_t length = strlen(prefix);
    for (int32_t i = 0; i < n_keys; i++) {
        if (strncmp(keys[i].name, prefix, length) != 0)
            continue;
        const char *rest = keys[i].name + length;
        size_t segment = strcspn(rest, ".");
        if (rest[segment] == '\0' && is_list(keys[i].type) &&
            *(const int32_t *)((const char *)object + keys[i].offset) == 0)
            continue;
        if (rest[segment] == '\0') {
            fprintf(file, "%*s%s: ", indent, "", rest);
            write_value(file, &keys[i], object);
            fputc('\n', file);
            continue;
        }
        char group[NAME_BYTES];
        snprintf(group, sizeof group, "%.*s", (int)(length + segment + 1), keys[i].name);
        bool written = false;
        for (int32_t j = 0; j < i && !written; j++)
            written = strncmp(keys[j].name, group, strlen(group)) == 0;
        if (!written) {
            fprintf(file, "%*s%.*s:\n", indent, "", (int)segment, rest);
            write_level(file, keys, n_keys, object, indent + 2, group);
        }
    }
}

void schema_write(FILE *file, const struct schema_key *keys, int32_t n_keys, const void *object, int32_t indent)
{
    write_level(file, keys, n_keys, object, indent, "");
}

/** Text of one column of the list, 0 to 4: key, type, unit, range, default. */
static void print_column(const struct schema_key *key, const char *prefix, int column, char text[640])
{
    char range[128];
    switch (column) {
    case 0:
        snprintf(text, 640, "%s%s", prefix, key->name);
        return;
    case 1:
        snprintf(text, 640, "%s", type_names[key->type]);
        return;
    case 2:
        snprintf(text, 640, "%s", key->unit != NULL && *key->unit != '\0' ? key->unit : "-");
        return;
    case 3:
        print_range(key, range);
        if (key->type == SCHEMA_SET)
            snprintf(text, 640, "none|[%s]", key->choices);
        else if (key->type == SCHEMA_CHOICE || key->type == SCHEMA_CHOICES || key->type == SCHEMA_BOOL)
            snprintf(text, 640, "%s", key->type == SCHEMA_BOOL ? "true|false" : key->choices);
        else if (is_list(key->type))
            snprintf(text, 640, "%s", range);
        else
            snprintf(text, 640, "%s", key->type == SCHEMA_INT || key->type == SCHEMA_REAL ? range : "-");
        return;
    default:
        snprintf(text, 640, "%s", key->fallback == NULL ? "required" : *key->fallback ? key->fallback : "-");
    }
}

void schema_list(FILE *file, const struct schema_key *keys, int32_t n_keys, const char *prefix)
{
    enum { N_COLUMNS = 5 };
    static const char *const titles[N_COLUMNS] = {"key", "type", "unit", "allowed", "default"};
    int width[N_COLUMNS], indent = (int)strspn(prefix, " ");
    char text[640];
    for (int column = 0; column < N_COLUMNS; column++)
        width[column] = (int)strlen(titles[column]);
    for (int32_t i = 0; i < n_keys; i++)
        for (int column = 0; column < N_COLUMNS; column++) {
            print_column(&keys[i], prefix, column, text);
            int length = (int)strlen(text);
            width[column] = length > width[column] ? length : width[column];
        }
    fprintf(file, "%*s", indent, "");
    for (int column = 0; column < N_COLUMNS; column++)
        fprintf(file, "%-*s  ", width[column] - (column == 0 ? indent : 0), titles[column]);
    fputs("meaning\n", file);
    for (int32_t i = 0; i < n_keys; i++) {
        for (int column = 0; column < N_COLUMNS; column++) {
            print_column(&keys[i], prefix, column, text);
            fprintf(file, "%-*s  ", width[column], text);
        }
        fprintf(file, "%s\n", keys[i].meaning);
    }
}
