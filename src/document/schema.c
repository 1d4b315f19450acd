/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/schema.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/unmodelled.h"
#include "document/document_read.h"
#include "document/quantity.h"
#include "document/schema_text.h"

enum { SHOWN_BYTES = 84 };

/** The state of one schema_read. */
struct reading {
    const struct document *document;
    const struct schema_key *keys;
    int32_t n_keys;
    const char *const *others;
    char group[SCHEMA_WORD_BYTES + 1]; /* the mapping's own name and a dot, which begin its keys in messages; or "" */
    struct error *err;
    bool ok;
};

static void refuse(struct reading *reading, int32_t node, const struct schema_key *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Add a message about a key with the place of a node. */
static void refuse(struct reading *reading, int32_t node, const struct schema_key *key, const char *format, ...)
{
    char what[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    reading->ok = document_error(reading->document, node, reading->err, "%s%s: %s", reading->group, key->name, what);
}

/** Return the length of a list. n is the first field of each list. */
static int32_t *length_of(const struct schema_key *list, void *object)
{
    return (int32_t *)((char *)object + list->offset);
}

static bool in_range(const struct schema_key *key, double number)
{
    return !schema_has_range(key) || (key->min <= number && number <= key->max);
}

/** Say why a text is no quantity of this unit. */
static const char *not_a_number(const char *text, const char *unit)
{
    char lower[64];
    double number;
    snprintf(lower, sizeof lower, "%s", text);
    char *k = strchr(lower, 'K');
    if (k != NULL) {
        *k = 'k';
        if (quantity_parse(lower, unit, &number))
            return "may mean 1000 or 1024: k is 1000, Ki 1024";
    }
    size_t digits = strspn(text, "0123456789.");
    bool bandwidth = strcmp(unit, "bytes/s") == 0 && digits > 0;
    const char *rest = text + digits;
    if (digits > 0 && *rest == 'x' && quantity_parse(rest + 1, unit, &number))
        return "names several at once; write that of one GPU, the number behind the x";
    if (digits > 0 && (*rest == ',' || *rest == '_') && isdigit((unsigned char)rest[1]))
        return "has a sign between digits; write the digits alone";
    if (digits > 0 && strstr(text, "..") != NULL)
        return "is a range; name each value";
    if (digits > 0 && strcmp(rest, "B") == 0 && strcmp(unit, "bytes") != 0 && !bandwidth)
        return "has a B, which is a byte; a billion is G";
    if (digits > 0 && *rest == ':')
        return "is a ratio; write one number";
    return bandwidth ? "has no known unit of bandwidth" : "is not a number";
}

/** Store an integer: up to 2^63 - 1 if written as digits, up to 2^53 in any other form. @return what is wrong, or NULL
 */
static const char *store_int(const struct schema_key *key, const char *text, int64_t *field)
{
    char *end;
    double number;
    const char *unit = key->unit != NULL && strcmp(key->unit, "-") != 0 ? key->unit : "";
    if (!quantity_parse(text, unit, &number))
        return not_a_number(text, unit);
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

static const char *store_count(const struct schema_key *key, const char *text, uint8_t *field)
{
    int64_t number;
    const char *problem = store_int(key, text, &number);
    if (problem == NULL)
        *field = (uint8_t)number;
    return problem;
}

static const char *store_option(const struct schema_key *key, const char *text, struct schema_option *field)
{
    *field = (struct schema_option){.given = strcmp(text, key->choices) != 0};
    return field->given ? store_int(key, text, &field->value) : NULL;
}

static const char *store_real(const struct schema_key *key, const char *text, double *field)
{
    const char *unit = key->unit ? key->unit : "-";
    if (key->choices != NULL && strcmp(text, key->choices) == 0) {
        *field = NAN;
        return NULL;
    }
    if (!quantity_parse(text, unit, field))
        return not_a_number(text, unit);
    if (strcmp(unit, "bytes/s") == 0 && *field > 0 && *field < QUANTITY_LEAST_BANDWIDTH)
        return "is below 1 MB/s";
    if (in_range(key, *field))
        return NULL;
    return key->max == 1 && 10 <= *field && *field <= 100 ? "is out of range; 95% is 0.95" : "is out of range";
}

static const char *store_text(const struct schema_key *key, const char *text, char *field, size_t n_bytes)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') /* a folded block ends with a line end */
        n--;
    if (n >= n_bytes)
        return "is too long";
    if (n == 0 && key->fallback == NULL)
        return "is empty";
    bool control = false;
    for (size_t i = 0; i < n && !control;)
        i += text_character(text + i, &control);
    if (control)
        return "contains a line end or control character";
    memcpy(field, text, n);
    field[n] = '\0';
    return NULL;
}

/** Add a word, or several joined by +, to the key's set. @return what is wrong, or NULL */
static const char *add_to_set(const struct schema_key *key, const char *text, int32_t *field)
{
    char word[SCHEMA_WORD_BYTES];
    for (const char *at = text; at != NULL; at = strchr(at, '+')) {
        at += *at == '+';
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "+"), at);
        int32_t choice = schema_choice(key->choices, word);
        if (choice < 0)
            return "is not known";
        *field |= 1 << choice;
    }
    return NULL;
}

/** Parse text into the key's field. @return what is wrong, or NULL */
static const char *store(const struct schema_key *key, const char *text, bool quoted, void *object)
{
    char *field = (char *)object + key->offset;
    bool is_text =
        key->type == SCHEMA_WORD || key->type == SCHEMA_TEXT || key->type == SCHEMA_CHOICE || key->type == SCHEMA_SET;
    if (quoted && !is_text)
        return "is text, because it is in quotes";
    switch (key->type) {
    case SCHEMA_BOOL:
        *(bool *)field = strcmp(text, "true") == 0;
        return *(bool *)field || strcmp(text, "false") == 0 ? NULL : "is not a truth value";
    case SCHEMA_INT:
        return store_int(key, text, (int64_t *)field);
    case SCHEMA_COUNT:
        return store_count(key, text, (uint8_t *)field);
    case SCHEMA_OPTION:
        return store_option(key, text, (struct schema_option *)field);
    case SCHEMA_REAL:
        return store_real(key, text, (double *)field);
    case SCHEMA_CHOICE:
        *(int32_t *)field = schema_choice(key->choices, text);
        return *(int32_t *)field >= 0 ? NULL : "is not known";
    case SCHEMA_SET:
        *(int32_t *)field = 0;
        return strcmp(text, "none") == 0 ? NULL : add_to_set(key, text, (int32_t *)field);
    case SCHEMA_WORD:
        return store_text(key, text, field, SCHEMA_WORD_BYTES);
    case SCHEMA_TEXT:
        return store_text(key, text, field, SCHEMA_TEXT_BYTES);
    case SCHEMA_INTS:
    case SCHEMA_REALS:
    case SCHEMA_CHOICES:
    case SCHEMA_COUNTS:
        CHECK(*text == '\0'); /* this is a list's default; its elements are stored one by one */
        *length_of(key, object) = 0;
    }
    return NULL;
}

/** Print the likely meaning and the allowed names. */
static void print_suggestion(const char *name, const char *const *candidates, int32_t n, const char *instead,
                             char text[800])
{
    char hint[NEAREST_HINT_BYTES];
    nearest_hint(name, candidates, n, hint);
    snprintf(text, 800, "%sallowed: %s", hint, instead);
}

/** Print the likely choice instead of an unknown one. */
static void print_choice_suggestion(const struct schema_key *key, const char *value, char text[800])
{
    enum { MOST = 32 };
    char names[MOST][SCHEMA_WORD_BYTES], allowed[640];
    const char *candidates[MOST];
    int32_t n = 1;
    for (const char *at = key->choices; (at = strchr(at, '|')) != NULL && n < MOST; at++)
        n++;
    for (int32_t i = 0; i < n; i++) {
        schema_choice_name(key->choices, i, names[i]);
        candidates[i] = names[i];
    }
    schema_print_allowed(key, allowed);
    const char *dot = strrchr(key->name, '.'), *last = dot != NULL ? dot + 1 : key->name;
    const char *reason = unmodelled_reason(last, value), *here = unmodelled_name_here(last, value);
    if (reason != NULL || here != NULL)
        snprintf(text, 800, "%s%s; allowed: %s", reason != NULL ? reason : "here it is ", reason != NULL ? "" : here,
                 allowed);
    else
        print_suggestion(value, candidates, n, allowed, text);
}

/** Read each word of a list into the key's set, or add a message. */
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
        refuse(reading, child, key, "'%.200s' in the list %s; %s", word, problem, hint);
    }
}

/** Print a value as messages show it: on one line, and only its beginning if it is long. */
static void print_shown(const char *value, char text[SHOWN_BYTES])
{
    size_t n = strnlen(value, SHOWN_BYTES);
    bool cut = n == SHOWN_BYTES;
    n = cut ? SHOWN_BYTES - 4 : n;
    for (size_t i = 0; i < n; i++)
        text[i] = (unsigned char)value[i] < ' ' || value[i] == '\x7f' ? '?' : value[i];
    strcpy(text + n, cut ? "..." : "");
}

/** Read one value of the file into its field, or add a message. */
static void read_value(struct reading *reading, const struct schema_key *key, int32_t node, void *object)
{
    const struct document_node *at = &reading->document->node[node];
    const char *problem = NULL;
    char allowed[640], hint[800], shown[SHOWN_BYTES];
    schema_print_allowed(key, allowed);
    snprintf(hint, sizeof hint, "allowed: %s", allowed);
    if (document_is_null(at)) {
        refuse(reading, node, key, "has no value; %s", hint);
    } else if (key->type == SCHEMA_SET && at->kind == DOCUMENT_SEQUENCE) {
        read_set(reading, key, node, (int32_t *)((char *)object + key->offset));
    } else if (at->kind != DOCUMENT_SCALAR) {
        refuse(reading, node, key, "is a %s instead of one value; %s",
               at->kind == DOCUMENT_SEQUENCE ? "list" : "mapping of keys", hint);
    } else if ((problem = store(key, at->value, at->quoted, object)) != NULL) {
        if (key->type == SCHEMA_CHOICE || key->type == SCHEMA_SET)
            print_choice_suggestion(key, at->value, hint);
        print_shown(at->value, shown);
        refuse(reading, node, key, "'%s' %s; %s", shown, problem, hint);
    }
}

/** Read one value or a sequence of them. */
static void read_list(struct reading *reading, const struct schema_key *key, int32_t node, void *object)
{
    const struct document_node *nodes = reading->document->node;
    int32_t *n = length_of(key, object);
    *n = 0;
    if (nodes[node].kind != DOCUMENT_SEQUENCE) {
        struct schema_key element = schema_element(key, (*n)++);
        read_value(reading, &element, node, object);
        return;
    }
    const int32_t most = key->type == SCHEMA_COUNTS ? SCHEMA_COUNTS_MOST : SCHEMA_LIST_MOST;
    for (int32_t child = nodes[node].child; child >= 0 && *n < most; child = nodes[child].next) {
        struct schema_key element = schema_element(key, (*n)++);
        read_value(reading, &element, child, object);
        if (nodes[child].next >= 0 && *n == most)
            refuse(reading, node, key, "has more than %d values; use fewer", most);
    }
    if (*n == 0)
        refuse(reading, node, key, "is an empty list; name at least one value, or leave the key out");
}

/** Find the innermost mapping that exists on the way to a key. It is the place of "is required". */
static int32_t existing_group(const struct document *document, int32_t mapping, const char *name)
{
    char group[SCHEMA_WORD_BYTES];
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
    if (node >= 0 && schema_is_list(key->type)) {
        read_list(reading, key, node, object);
    } else if (node >= 0) {
        read_value(reading, key, node, object);
    } else if (key->fallback != NULL) {
        CHECK(store(key, key->fallback, false, object) == NULL);
    } else {
        char allowed[640];
        schema_print_allowed(key, allowed);
        refuse(reading, existing_group(reading->document, mapping, key->name), key, "is required (%s); allowed: %s",
               key->meaning, allowed);
    }
}

enum place { PLACE_UNKNOWN, PLACE_KEY, PLACE_GROUP };

/** Return the place of a dotted name in the table. */
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

/** Append the next segment of `name` after `prefix`, unless it belongs to another group or was already added. */
static int32_t add_candidate(const char *name, const char *prefix, char (*names)[SCHEMA_WORD_BYTES], int32_t n)
{
    size_t length = strlen(prefix);
    char segment[SCHEMA_WORD_BYTES];
    if (strncmp(name, prefix, length) != 0)
        return n;
    snprintf(segment, sizeof segment, "%.*s", (int)strcspn(name + length, "."), name + length);
    for (int32_t i = 0; i < n; i++)
        if (strcmp(names[i], segment) == 0)
            return n;
    strcpy(names[n], segment);
    return n + 1;
}

/** Find the key with this name in another group ("context" for "data.context"). @return NULL if there is none */
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

/** List the names that a group may contain, and one text of all names. The caller frees it. prefix: "" or "data." */
static char (*names_in(const struct reading *reading, const char *prefix, int32_t *n,
                       char allowed[512]))[SCHEMA_WORD_BYTES]
{
    int32_t n_others = 0;
    while (reading->others != NULL && reading->others[n_others] != NULL)
        n_others++;
    char(*names)[SCHEMA_WORD_BYTES] = check_calloc((size_t)(reading->n_keys + n_others), sizeof *names);
    *n = 0;
    for (int32_t i = 0; i < reading->n_keys; i++)
        *n = add_candidate(reading->keys[i].name, prefix, names, *n);
    for (int32_t i = 0; i < n_others; i++)
        *n = add_candidate(reading->others[i], prefix, names, *n);
    allowed[0] = '\0';
    for (int32_t i = 0; i < *n; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, 512 - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return names;
}

/** Return whether a single insertion, deletion or other letter makes one name of four letters or more the other. */
static bool one_slip(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m, longer = n < m ? m : n, begin = 0, end = 0;
    while (begin < shorter && a[begin] == b[begin])
        begin++;
    while (end < shorter - begin && a[n - 1 - end] == b[m - 1 - end])
        end++;
    return longer >= 4 && longer - begin - end <= 1;
}

/** Return the name here of what other tools call so, unless a key of the group differs by a slip. Keys of a scenario
 * are none of other files. */
static const char *name_here(const struct document *document, const char *name, const char *const *candidates,
                             int32_t n)
{
    const char *here = unmodelled_name_here("key", name);
    for (int32_t i = 0; here != NULL && i < n; i++)
        if (one_slip(name, candidates[i]))
            here = NULL;
    bool of_scenario = here != NULL && strchr(here, '.') != NULL;
    return of_scenario && document_find(document, 0, "systems") < 0 ? NULL : here;
}

/** Add an error about an unknown key, with its likely meaning. prefix: of its group, "" or "data." */
static void refuse_key(struct reading *reading, int32_t node, const char *prefix)
{
    const char *name = reading->document->node[node].key, *elsewhere = key_elsewhere(reading, name);
    const char *reason = unmodelled_reason("key", name);
    char allowed[512], hint[800];
    int32_t n;
    char(*names)[SCHEMA_WORD_BYTES] = names_in(reading, prefix, &n, allowed);
    const char **candidates = check_calloc((size_t)n + 1, sizeof *candidates);
    for (int32_t i = 0; i < n; i++)
        candidates[i] = names[i];
    const char *here = name_here(reading->document, name, candidates, n);
    if (elsewhere != NULL)
        snprintf(hint, sizeof hint, "did you mean '%s' (a dot means a level of nesting)?", elsewhere);
    else if (reason != NULL || here != NULL)
        snprintf(hint, sizeof hint, "%s%s", reason != NULL ? reason : "here it is ", reason != NULL ? "" : here);
    else
        print_suggestion(name, candidates, n, n > 0 ? allowed : "no keys", hint);
    reading->ok = document_key_error(reading->document, node, reading->err, "%s%s%.200s: unknown key; %s",
                                     reading->group, prefix, name, hint);
    free(candidates);
    free(names);
}

/** Add an error about a value in place of a group. The group's name is like "data.". */
static void refuse_no_group(struct reading *reading, int32_t node, const char *name)
{
    char allowed[512];
    int32_t n;
    free(names_in(reading, name, &n, allowed));
    reading->ok = document_error(reading->document, node, reading->err,
                                 "%s%.*s: expected a mapping of keys, found %s; allowed: %s (as in %s%.*s)",
                                 reading->group, (int)strlen(name) - 1, name,
                                 reading->document->node[node].kind == DOCUMENT_SEQUENCE ? "a list" : "a single value",
                                 allowed, name, (int)strcspn(allowed, ","), allowed);
}

/** Refuse every key of a mapping that the table does not have, and every group that is no mapping. */
static void refuse_unknown_keys(struct reading *reading, int32_t mapping, const char *prefix)
{
    const struct document_node *node = reading->document->node;
    for (int32_t child = node[mapping].child; child >= 0; child = node[child].next) {
        char name[2 * SCHEMA_WORD_BYTES];
        int length = snprintf(name, sizeof name, "%s%s", prefix, node[child].key);
        bool dotted = strchr(node[child].key, '.') != NULL;
        enum place place = length >= (int)sizeof name || dotted ? PLACE_UNKNOWN : place_of(reading, name);
        if (place == PLACE_UNKNOWN) {
            refuse_key(reading, child, prefix);
        } else if (place == PLACE_GROUP && !document_is_null(&node[child])) {
            strcat(name, ".");
            if (node[child].kind == DOCUMENT_MAPPING)
                refuse_unknown_keys(reading, child, name);
            else
                refuse_no_group(reading, child, name);
        }
    }
}

/** Refuse a file of another kind, such as a scenario instead of a model, with a single error. Such a file has three
 * keys and more besides `name` and `source`, which many kinds have. At most one key in eight is one of the table. */
static bool refuse_other_kind(struct reading *reading, int32_t mapping)
{
    const struct document_node *node = reading->document->node;
    int32_t n_keys = 0, n_known = 0, n;
    for (int32_t child = node[mapping].child; child >= 0; child = node[child].next) {
        const char *key = node[child].key;
        if (strcmp(key, "name") == 0 || strcmp(key, "source") == 0)
            continue;
        n_keys++;
        n_known += strlen(key) < SCHEMA_WORD_BYTES && place_of(reading, key) != PLACE_UNKNOWN;
    }
    if (n_keys < 3 || 8 * n_known > n_keys)
        return false;
    char allowed[512];
    free(names_in(reading, "", &n, allowed));
    document_error(reading->document, mapping, reading->err,
                   "a file of another kind, since %d of its keys are unknown and %d known; allowed: %s",
                   n_keys - n_known, n_known, allowed);
    return true;
}

/* It has seven parameters: a table, its mapping, and where results and errors go. */
/* NOLINTNEXTLINE(readability-function-size) */
bool schema_read(const struct document *document, int32_t mapping, const struct schema_key *keys, int32_t n_keys,
                 const char *const *others, void *object, struct error *err)
{
    struct reading reading = {
        .document = document, .keys = keys, .n_keys = n_keys, .others = others, .err = err, .ok = true};
    if (mapping >= 0 && document_is_null(&document->node[mapping]))
        mapping = -1;
    if (mapping >= 0 && document->node[mapping].kind != DOCUMENT_MAPPING) {
        const struct document_node *node = &document->node[mapping];
        if (node->key == NULL && node->kind == DOCUMENT_SCALAR)
            return document_error(document, mapping, err,
                                  "this entry: expected a mapping of keys, found a single value; allowed: as in "
                                  "{%s: %.200s}",
                                  keys[0].name, node->value);
        return document_error(document, mapping, err, "%s: expected a mapping of keys, found %s",
                              node->key != NULL ? node->key : "this entry",
                              node->kind == DOCUMENT_SEQUENCE ? "a list" : "a single value");
    }
    if (mapping >= 0 && document->node[mapping].key != NULL)
        snprintf(reading.group, sizeof reading.group, "%s.", document->node[mapping].key);
    if (mapping == 0 && refuse_other_kind(&reading, mapping))
        return false;
    if (mapping >= 0)
        refuse_unknown_keys(&reading, mapping, "");
    for (int32_t i = 0; i < n_keys; i++)
        read_key(&reading, &keys[i], mapping, object);
    return reading.ok;
}

bool schema_read_file(const char *path, const struct schema_key *keys, int32_t n_keys, const char *const *others,
                      void *object, struct error *err)
{
    struct document document = {0};
    bool ok = document_read(path, &document, err) && schema_read(&document, 0, keys, n_keys, others, object, err);
    document_free(&document);
    return ok;
}
