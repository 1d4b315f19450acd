/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/json.h"

#include <math.h>
#include <string.h>

#include "document/quantity.h"

json_t *json_of_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_of_cell(const char *text)
{
    double number;
    if (!quantity_parse(text, "-", &number))
        return *text != '\0' ? json_string(text) : json_null();
    return number == floor(number) && fabs(number) < 1e15 ? json_integer((json_int_t)number) : json_real(number);
}

json_t *json_of_texts(int32_t n, const char *const *texts)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

json_t *json_of_row(enum trace_table_id table, const void *row, trace_namer *namer, const void *context)
{
    json_t *object = json_object();
    for (int32_t c = 0; c < trace_tables[table].n_columns; c++) {
        const struct trace_column *column = &trace_tables[table].columns[c];
        if (column->type == TRACE_TEXT) {
            const char *text = (const char *)row + column->offset;
            json_object_set_new(object, column->name, json_stringn(text, strnlen(text, column->bytes)));
            continue;
        }
        struct trace_value value = trace_value_of(column, row, namer, context);
        json_object_set_new(object, column->name,
                            column->type == TRACE_STRING || value.text != NULL
                                ? (value.text != NULL ? json_string(value.text) : json_null())
                            : column->type == TRACE_DOUBLE ? json_of_number(value.number)
                                                           : json_integer((json_int_t)value.whole));
    }
    return object;
}
