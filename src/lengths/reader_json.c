/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Read lengths from JSON: numbers, lists of tokens, or a field of records that holds one of both. */
#include "lengths/reader.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** A file being read. The first pass sees all fields, and the second one reads lengths. */
struct json {
    const struct reader_choice *choice;
    struct reader_lengths *lengths;
    struct reader_columns fields; /* a record that is no object has one field without a name */
    const char *field, *weights;  /* their names; weights NULL: none */
    const char *place;            /* format of a record's place behind the path */
    int64_t position;
};

/** Add an error with the place of the current record. @return false */
static bool wrong_record(const struct json *json, const char *what, const char *allowed, struct error *err)
{
    char place[64];
    snprintf(place, sizeof place, json->place, json->position);
    return error_set(err, "%s%s: '%.100s' is not allowed: %s", json->choice->path, place, what, allowed);
}

/** Return whether a value is a number, or a list of tokens, whose number counts. */
static bool number_of(const json_t *value, double *number)
{
    size_t i;
    json_t *token;
    *number = json_is_array(value) ? (double)json_array_size(value) : json_number_value(value);
    json_array_foreach((json_t *)value, i, token) if (!json_is_integer(token)) return false;
    return json_is_array(value) || json_is_number(value);
}

static void see_field(struct json *json, const char *name, const json_t *value)
{
    double number;
    int32_t field = reader_columns_find(&json->fields, name, 0);
    if (field < 0) {
        field = json->fields.n;
        reader_columns_add(&json->fields, name);
    }
    reader_columns_see(&json->fields, field, number_of(value, &number) ? &number : NULL);
}

static bool see_record(struct json *json, const json_t *record, struct error *err)
{
    const char *name;
    json_t *value;
    (void)err;
    if (!json_is_object(record))
        see_field(json, "", record);
    json_object_foreach((json_t *)record, name, value) see_field(json, name, value);
    json->fields.n_rows++;
    return true;
}

/** Read a field of a record. @return whether it is a number or a list of tokens; otherwise `text` receives it */
static bool read_field(const json_t *record, const char *name, double *number, char **text)
{
    const json_t *value = json_is_object(record) ? json_object_get(record, name) : *name == '\0' ? record : NULL;
    if (value != NULL && number_of(value, number)) {
        *text = check_asprintf("%.17g", *number);
        return true;
    }
    char *dumped = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    *text = check_strdup(dumped != NULL ? dumped : "");
    free(dumped);
    return false;
}

static bool take_record(struct json *json, const json_t *record, struct error *err)
{
    double number;
    char *text;
    bool ok = (read_field(record, json->field, &number, &text) && reader_add(json->lengths, number)) ||
              wrong_record(json, text, READER_ALLOWED, err);
    free(text);
    if (!ok || json->weights == NULL)
        return ok;
    ok = (read_field(record, json->weights, &number, &text) && reader_weigh(json->lengths, number)) ||
         wrong_record(json, text, READER_WEIGHT_ALLOWED, err);
    free(text);
    return ok;
}

typedef bool record_visitor(struct json *json, const json_t *record, struct error *err);

/** Visit each line of JSON Lines. Blank lines are left out. */
static bool visit_lines(struct json *json, const struct file_bytes *bytes, record_visitor *visitor, struct error *err)
{
    const char *text = (const char *)bytes->bytes;
    bool ok = true;
    json->place = ":%" PRId64;
    json->position = 0;
    for (size_t begin = 0, end; ok && begin < bytes->n; begin = end + 1) {
        const char *line_end = memchr(text + begin, '\n', bytes->n - begin);
        end = line_end != NULL ? (size_t)(line_end - text) : bytes->n;
        json->position++;
        json_error_t wrong;
        size_t blanks = begin;
        while (blanks < end && strchr(" \t\r", text[blanks]) != NULL && text[blanks] != '\0')
            blanks++;
        if (blanks == end)
            continue;
        json_t *record = json_loadb(text + begin, end - begin, JSON_DECODE_ANY, &wrong);
        ok = record != NULL
                 ? visitor(json, record, err)
                 : error_set(err, "%s:%" PRId64 ": is no JSON: %s", json->choice->path, json->position, wrong.text);
        json_decref(record);
    }
    return ok;
}

static bool visit_list(struct json *json, const json_t *list, record_visitor *visitor, struct error *err)
{
    bool ok = true;
    json->place = ": element %" PRId64 " (from 0)";
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        json->position = (int64_t)i;
        ok = visitor(json, json_array_get(list, i), err);
    }
    return ok;
}

/** Choose the field of lengths once all were seen. */
static bool choose(struct json *json, struct error *err)
{
    if (json->fields.n_rows == 0)
        return error_set(err, "%s: holds no length, at least one is needed", json->choice->path);
    if (!reader_columns_choose(&json->fields, json->choice, json->choice->path, json->lengths->part, err))
        return false;
    json->field = json->fields.at[json->fields.lengths].name;
    json->weights = json->fields.weights >= 0 ? json->fields.at[json->fields.weights].name : NULL;
    if (*json->field == '\0')
        *json->lengths->part = '\0';
    return true;
}

static bool read_list(struct json *json, const struct file_bytes *bytes, struct error *err)
{
    json_error_t wrong;
    json_t *root = json_loadb((const char *)bytes->bytes, bytes->n, JSON_DECODE_ANY, &wrong);
    bool ok;
    if (root == NULL)
        ok = error_set(err, "%s:%d: is no JSON: %s; a file with a record on each line ends in .jsonl",
                       json->choice->path, wrong.line, wrong.text);
    else if (!json_is_array(root))
        ok = error_set(err, "%s: holds no list; allowed: a list of numbers, of lists of tokens, or of records",
                       json->choice->path);
    else
        ok = visit_list(json, root, see_record, err) && choose(json, err) && visit_list(json, root, take_record, err);
    json_decref(root);
    return ok;
}

static bool read_lines(struct json *json, const struct file_bytes *bytes, struct error *err)
{
    return visit_lines(json, bytes, see_record, err) && choose(json, err) && visit_lines(json, bytes, take_record, err);
}

static bool read_file(const struct reader_choice *choice, bool lines, struct reader_lengths *lengths, struct error *err)
{
    struct file_bytes bytes = {0};
    struct json json = {.choice = choice, .lengths = lengths, .fields.kind = "field"};
    bool ok =
        reader_load(choice, &bytes, err) && (lines ? read_lines(&json, &bytes, err) : read_list(&json, &bytes, err));
    free(json.fields.at);
    free(bytes.bytes);
    return ok;
}

bool reader_json(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    return read_file(choice, false, lengths, err);
}

bool reader_jsonl(const struct reader_choice *choice, struct reader_lengths *lengths, struct error *err)
{
    return read_file(choice, true, lengths, err);
}
