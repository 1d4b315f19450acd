/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/schema_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text_table.h"
#include "document/document.h"
#include "document/quantity.h"

bool schema_is_list(enum schema_type type)
{
    return type == SCHEMA_INTS || type == SCHEMA_REALS || type == SCHEMA_CHOICES || type == SCHEMA_COUNTS;
}

struct schema_key schema_element(const struct schema_key *list, int32_t i)
{
    static const struct {
        enum schema_type type;
        size_t first, bytes;
    } elements[] = {
        [SCHEMA_INTS] = {SCHEMA_INT, offsetof(struct schema_ints, at), sizeof(int64_t)},
        [SCHEMA_REALS] = {SCHEMA_REAL, offsetof(struct schema_reals, at), sizeof(double)},
        [SCHEMA_CHOICES] = {SCHEMA_CHOICE, offsetof(struct schema_choices, at), sizeof(int32_t)},
        [SCHEMA_COUNTS] = {SCHEMA_COUNT, offsetof(struct schema_counts, at), sizeof(uint8_t)},
    };
    struct schema_key key = *list;
    CHECK(schema_is_list(list->type));
    key.type = elements[list->type].type;
    key.offset = list->offset + elements[list->type].first + (size_t)i * elements[list->type].bytes;
    return key;
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

void schema_choice_name(const char *choices, int32_t i, char name[SCHEMA_WORD_BYTES])
{
    for (; i > 0; i--) {
        choices += strcspn(choices, "|");
        CHECK(*choices == '|');
        choices++;
    }
    snprintf(name, SCHEMA_WORD_BYTES, "%.*s", (int)strcspn(choices, "|"), choices);
}

/** Print whole numbers in full and others in short form. */
static void print_number(double number, char text[32])
{
    if (fabs(number) < 1e17 && number == floor(number))
        snprintf(text, 32, "%.0f", number);
    else
        snprintf(text, 32, "%.6g", number);
}

bool schema_has_range(const struct schema_key *key)
{
    return key->type != SCHEMA_WORD && key->type != SCHEMA_TEXT && (key->min != 0 || key->max != 0) &&
           (isfinite(key->min) || isfinite(key->max));
}

static void print_range(const struct schema_key *key, char text[128])
{
    char min[32], max[32];
    print_number(key->min, min);
    print_number(key->max, max);
    if (!schema_has_range(key))
        snprintf(text, 128, "any");
    else if (!isfinite(key->max))
        snprintf(text, 128, "at least %s", min);
    else if (!isfinite(key->min))
        snprintf(text, 128, "at most %s", max);
    else
        snprintf(text, 128, "%s to %s", min, max);
}

/** Print "a|b|c" as "a, b, c". */
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

void schema_print_allowed(const struct schema_key *key, char text[640])
{
    char range[128], choices[512], unit[160] = "";
    if (schema_is_list(key->type)) {
        struct schema_key element = schema_element(key, 0);
        schema_print_allowed(&element, text);
        strncat(text, "; or a list of them", 640 - strlen(text) - 1);
        return;
    }
    if (key->unit != NULL && strcmp(key->unit, "bytes/s") == 0)
        snprintf(unit, sizeof unit, " with its unit (" QUANTITY_BANDWIDTHS ")");
    else if (key->unit != NULL && strcmp(key->unit, "bytes") == 0)
        snprintf(unit, sizeof unit, " [bytes] (80GiB, 2TB)");
    else if (key->unit != NULL && strcmp(key->unit, "s") == 0)
        snprintf(unit, sizeof unit, " [s] (90s, 30min, 2h, 5us)");
    else if (key->unit != NULL && strcmp(key->unit, "-") != 0)
        snprintf(unit, sizeof unit, " [%s]", key->unit);
    switch (key->type) {
    case SCHEMA_BOOL:
        snprintf(text, 640, "true or false");
        return;
    case SCHEMA_INT:
    case SCHEMA_COUNT:
    case SCHEMA_OPTION:
    case SCHEMA_REAL:
        print_range(key, range);
        snprintf(text, 640, "%s%s, %s%s%s", key->type == SCHEMA_REAL ? "a number" : "a whole number", unit, range,
                 key->choices != NULL ? ", or " : "", key->choices != NULL ? key->choices : "");
        return;
    case SCHEMA_CHOICE:
        print_choices(key->choices, choices);
        snprintf(text, 640, "%s", choices);
        return;
    case SCHEMA_SET:
        print_choices(key->choices, choices);
        snprintf(text, 640, "none, one of these or a [list] of them: %s", choices);
        return;
    case SCHEMA_WORD:
    case SCHEMA_TEXT:
        snprintf(text, 640, "text of at most %d bytes",
                 (key->type == SCHEMA_WORD ? SCHEMA_WORD_BYTES : SCHEMA_TEXT_BYTES) - 1);
        return;
    default:
        CHECK(false);
    }
}

/** Write a number with as few digits as give the same bits again. */
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

/** Write one word or a list. */
static void write_set(FILE *file, const struct schema_key *key, int32_t set)
{
    char name[SCHEMA_WORD_BYTES];
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
    char name[SCHEMA_WORD_BYTES];
    switch (key->type) {
    case SCHEMA_BOOL:
        fputs(*(const bool *)field ? "true" : "false", file);
        return;
    case SCHEMA_INT:
        fprintf(file, "%" PRId64, *(const int64_t *)field);
        return;
    case SCHEMA_COUNT:
        fprintf(file, "%d", *(const uint8_t *)field);
        return;
    case SCHEMA_OPTION:
        if (((const struct schema_option *)field)->given)
            fprintf(file, "%" PRId64, ((const struct schema_option *)field)->value);
        else
            fputs(key->choices, file);
        return;
    case SCHEMA_REAL:
        if (isnan(*(const double *)field))
            fputs(key->choices, file);
        else
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
    default: /* a list in brackets; an empty one is left out */
        fputc('[', file);
        for (int32_t i = 0; i < *(const int32_t *)field; i++) {
            struct schema_key element = schema_element(key, i);
            fputs(i > 0 ? ", " : "", file);
            write_value(file, &element, object);
        }
        fputc(']', file);
    }
}

/** Write the keys below a prefix. A group is written at the position of its first key. */
static void write_level(FILE *file, const struct schema_key *keys, int32_t n_keys, const void *object, int32_t indent,
                        const char *prefix)
{
    size_t length = strlen(prefix);
    for (int32_t i = 0; i < n_keys; i++) {
        if (strncmp(keys[i].name, prefix, length) != 0)
            continue;
        const char *rest = keys[i].name + length;
        size_t segment = strcspn(rest, ".");
        if (rest[segment] == '\0' && schema_is_list(keys[i].type) &&
            *(const int32_t *)((const char *)object + keys[i].offset) == 0)
            continue;
        if (rest[segment] == '\0') {
            fprintf(file, "%*s%s: ", indent, "", rest);
            write_value(file, &keys[i], object);
            fputc('\n', file);
            continue;
        }
        char group[SCHEMA_WORD_BYTES];
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

static const char *const type_names[] = {
    [SCHEMA_BOOL] = "bool",      [SCHEMA_INT] = "integer",     [SCHEMA_REAL] = "real",     [SCHEMA_CHOICE] = "choice",
    [SCHEMA_SET] = "list",       [SCHEMA_WORD] = "word",       [SCHEMA_TEXT] = "text",     [SCHEMA_INTS] = "integers",
    [SCHEMA_REALS] = "reals",    [SCHEMA_CHOICES] = "choices", [SCHEMA_COUNT] = "integer", [SCHEMA_OPTION] = "integer",
    [SCHEMA_COUNTS] = "integers"};

/** Print the text of one column of the list. */
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
        else if (schema_is_list(key->type))
            snprintf(text, 640, "%s", range);
        else if ((key->type == SCHEMA_REAL || key->type == SCHEMA_OPTION) && key->choices != NULL)
            snprintf(text, 640, "%s|%s", range, key->choices);
        else
            snprintf(text, 640, "%s", key->type == SCHEMA_INT || key->type == SCHEMA_REAL ? range : "-");
        return;
    default:
        snprintf(text, 640, "%s", key->fallback == NULL ? "required" : *key->fallback ? key->fallback : "-");
    }
}

const char *const schema_column_name[SCHEMA_N_COLUMNS] = {"key", "type", "unit", "allowed", "default", "meaning"};

void schema_list(const struct schema_listing *listing, const struct schema_key *keys, int32_t n_keys,
                 const char *prefix)
{
    char text[SCHEMA_N_COLUMNS][640], first[32];
    struct text_table table = {0};
    snprintf(first, sizeof first, "%*skey", (int)strspn(prefix, " "), "");
    for (int c = 0; c < SCHEMA_N_COLUMNS; c++)
        text_table_column(&table, c == 0 ? first : schema_column_name[c], "<");
    for (int32_t i = 0; i < n_keys; i++) {
        const char *columns[SCHEMA_N_COLUMNS];
        for (int c = 0; c < SCHEMA_N_COLUMNS; c++) {
            columns[c] = c + 1 < SCHEMA_N_COLUMNS ? text[c] : keys[i].meaning;
            print_column(&keys[i], prefix, c, text[c]);
            text_table_cell(&table, "%s", columns[c]);
        }
        if (listing->visit != NULL)
            listing->visit(listing->context, columns);
    }
    if (listing->visit == NULL)
        text_table_print(&table, listing->file, 0);
    text_table_free(&table);
}
