/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/table.h"

#include "base/check.h"
#include "bounds/memory.h"
#include "dag/dag.h"
#include "plan/plan.h"
#include "search/search.h"

#include <math.h>
#include <string.h>

/* The names follow the enumeration. A wrong number of names does not compile. */
#define NAMES(column, n, ...)                                                                                          \
    static const char *const column##_text[] = {__VA_ARGS__};                                                          \
    _Static_assert(sizeof column##_text / sizeof column##_text[0] == (n), "names of " #column);                        \
    const struct trace_names trace_##column##_names = {n, column##_text};

const struct trace_names trace_kind_names = {DAG_N_KINDS, dag_kind_name};
const struct trace_names trace_purpose_names = {DAG_N_PURPOSES, dag_purpose_name};
NAMES(pass, N_STEP_PASSES, "forward", "backward", "weight")
NAMES(schedule, SCENARIO_N_SCHEDULES, "1f1b", "interleaved", "gpipe", "zero-bubble", "seq1f1b", "terapipe")
NAMES(stream, DAG_N_STREAMS, "compute", "send forward", "send backward", "collective", "rail", "shards", "shard rail",
      "to host", "from host")
const struct trace_names trace_edge_names = {DAG_N_EDGES, dag_edge_name};
NAMES(formation, PLAN_PACK + 1, "slim", "mix", "pack")
static const struct trace_names trace_memory_class_names = {MEMORY_N_CLASSES, memory_class_name};
NAMES(exceeded_limit, 3, "-", "GPU memory", "host memory")
const struct trace_names trace_recompute_names = {RECOMPUTE_FULL + 1, scenario_recompute_name};
NAMES(quantity, 10, "tokens/s/GPU", "max_memory_allocated", "static state", "max_memory_reserved", "activation formula",
      "state formula", "fitted", "layer forward", "layer backward", "replayed span")
NAMES(sharding, SCENARIO_UNSHARDED + 1, "zero1", "zero2", "zero3", "none")
NAMES(gradients, SCENARIO_BF16 + 1, "fp32", "bf16")
NAMES(gradient_buffers, SCENARIO_GRADIENTS_PLACEHOLDERS + 1, "kept", "freed", "placeholders")
NAMES(verdict, SEARCH_N_VERDICTS, "chosen", "runner-up", "slower", "did not fit all iterations", "fits tightly",
      "too large", "refused", "bound-pruned", "memory-pruned", "not demanded")
static const struct trace_names trace_fault_names = {FAULT_N_KINDS, fault_kind_name};
static const struct trace_names trace_system_names = {0, NULL};

/* A block has one column for each number of its member. A wrong number of columns does not compile. */
#define BLOCK_FITS(first, last, bytes)                                                                                 \
    _Static_assert(offsetof(struct trace_summary, last) + sizeof(double) - offsetof(struct trace_summary, first) ==    \
                       (bytes),                                                                                        \
                   "columns from " #first " to " #last)
BLOCK_FITS(busy_s, total_s, sizeof(struct bubble));
BLOCK_FITS(sent_tensor_bytes, sent_host_bytes, sizeof(struct traffic));
BLOCK_FITS(states_bytes, libraries_bytes, MEMORY_N_CLASSES * sizeof(double));

#define COLUMN(c_type, hdf5_type, name, unit, meaning)                                                                 \
    {#name, unit, meaning, TRACE_##hdf5_type, false, offsetof(struct ROW, name), NULL, 0},
#define NAMED(c_type, hdf5_type, name, names, meaning)                                                                 \
    {#name, "1", meaning, TRACE_##hdf5_type, false, offsetof(struct ROW, name), &trace_##names##_names, 0},
#define OPTIONAL(name, unit, meaning) {#name, unit, meaning, TRACE_DOUBLE, true, offsetof(struct ROW, name), NULL, 0},
#define BLOCK(member)
#define BLOCK_END
#define TEXT(name, meaning)                                                                                            \
    {#name, "1", meaning, TRACE_TEXT, false, offsetof(struct ROW, name), NULL, TRACE_TEXT_BYTES},
#define STRING(name, meaning) {#name, "1", meaning, TRACE_STRING, false, offsetof(struct ROW, name), NULL, 0},

#define ROW trace_summary
static const struct trace_column summary_columns[] = {
#include "trace/summary.def"
};
#undef ROW
#define ROW trace_iteration
static const struct trace_column iteration_columns[] = {
#include "trace/iteration.def"
};
#undef ROW
#define ROW trace_stage
static const struct trace_column stage_columns[] = {
#include "trace/stage.def"
};
#undef ROW
#define ROW trace_plan
static const struct trace_column plan_columns[] = {
#include "trace/plan.def"
};
#undef ROW
#define ROW trace_length
static const struct trace_column length_columns[] = {
#include "trace/length.def"
};
#undef ROW
#define ROW trace_micro_batch
static const struct trace_column micro_batch_columns[] = {
#include "trace/micro_batch.def"
};
#undef ROW
#define ROW trace_task
static const struct trace_column task_columns[] = {
#include "trace/task.def"
};
#undef ROW
#define ROW trace_transfer
static const struct trace_column transfer_columns[] = {
#include "trace/transfer.def"
};
#undef ROW
#define ROW trace_memory
static const struct trace_column memory_columns[] = {
#include "trace/memory.def"
};
#undef ROW
#define ROW trace_edge
static const struct trace_column edge_columns[] = {
#include "trace/edge.def"
};
#undef ROW
#define ROW trace_fault
static const struct trace_column fault_columns[] = {
#include "trace/fault.def"
};
#undef ROW
#define ROW trace_deciding
static const struct trace_column deciding_columns[] = {
#include "trace/deciding.def"
};
#undef ROW
#define ROW trace_validation
static const struct trace_column validation_columns[] = {
#include "trace/validation.def"
};
#undef ROW
#define ROW trace_candidate
static const struct trace_column candidate_columns[] = {
#include "trace/candidate.def"
};
#undef ROW
#define ROW trace_change
static const struct trace_column change_columns[] = {
#include "trace/change.def"
};
#undef ROW
#define ROW trace_date
static const struct trace_column date_columns[] = {
#include "trace/date.def"
};
#undef ROW
#define ROW trace_sensitivity
static const struct trace_column sensitivity_columns[] = {
#include "trace/sensitivity.def"
};
#undef ROW

#define TABLE(name, row)                                                                                               \
    {                                                                                                                  \
        name, sizeof(struct trace_##row), sizeof row##_columns / sizeof row##_columns[0], row##_columns                \
    }

const struct trace_table trace_tables[TRACE_N_ROWS] = {
    [TRACE_SUMMARY] = TABLE("summary", summary),
    [TRACE_ITERATIONS] = TABLE("iterations", iteration),
    [TRACE_STAGES] = TABLE("stages", stage),
    [TRACE_PLANS] = TABLE("plans", plan),
    [TRACE_LENGTHS] = TABLE("lengths", length),
    [TRACE_MICRO_BATCHES] = TABLE("micro_batches", micro_batch),
    [TRACE_TASKS] = TABLE("tasks", task),
    [TRACE_TRANSFERS] = TABLE("transfers", transfer),
    [TRACE_MEMORY] = TABLE("memory", memory),
    [TRACE_EDGES] = TABLE("edges", edge),
    [TRACE_FAULTS] = TABLE("faults", fault),
    [TRACE_DECIDING] = TABLE("deciding", deciding),
    [TRACE_VALIDATION] = TABLE("validation", validation),
    [TRACE_CANDIDATES] = TABLE("candidates", candidate),
    [TRACE_CHANGES] = TABLE("changes", change),
    [TRACE_DATES] = TABLE("dates", date),
    [TRACE_SENSITIVITY] = TABLE("sensitivity", sensitivity),
};

int32_t trace_table_find(const char *name)
{
    for (int32_t t = 0; t < TRACE_N_TABLES; t++)
        if (strcmp(trace_tables[t].name, name) == 0)
            return t;
    return -1;
}

struct trace_value trace_value_of(const struct trace_column *column, const void *row, trace_namer *namer,
                                  const void *context)
{
    struct trace_value value = {0};
    const char *at = (const char *)row + column->offset;
    int32_t narrow;
    CHECK(column->type != TRACE_TEXT);
    if (column->type == TRACE_DOUBLE) {
        memcpy(&value.number, at, sizeof value.number);
    } else if (column->type == TRACE_STRING) {
        memcpy(&value.text, at, sizeof value.text);
    } else if (column->type == TRACE_INT64) {
        memcpy(&value.whole, at, sizeof value.whole);
    } else {
        memcpy(&narrow, at, sizeof narrow);
        value.whole = narrow;
    }
    const struct trace_names *names = column->names;
    if (names != NULL && 0 <= value.whole && value.whole < names->n)
        value.text = names->text[value.whole];
    else if (namer != NULL && (column->type == TRACE_INT32 || column->type == TRACE_INT64))
        value.text = namer(context, column, value.whole);
    return value;
}

bool trace_column_is_bool(const struct trace_column *column)
{
    return strcmp(column->unit, "bool") == 0;
}

const struct trace_column *trace_column_find(enum trace_table_id table, const char *name)
{
    for (int32_t c = 0; c < trace_tables[table].n_columns; c++)
        if (strcmp(trace_tables[table].columns[c].name, name) == 0)
            return &trace_tables[table].columns[c];
    return NULL;
}

static bool value_fits(const struct trace_column *column, const char *row, int32_t n_systems)
{
    if (column->type != TRACE_DOUBLE && column->names == NULL)
        return true;
    struct trace_value value = trace_value_of(column, row, NULL, NULL);
    if (column->type == TRACE_DOUBLE)
        return isfinite(value.number) || (column->optional && isnan(value.number));
    return 0 <= value.whole && value.whole < (column->names->n > 0 ? column->names->n : n_systems);
}

bool trace_row_fits(const struct trace_table *table, const void *row, int32_t n_systems)
{
    bool fits = true;
    for (int32_t c = 0; c < table->n_columns && fits; c++)
        fits = value_fits(&table->columns[c], row, n_systems);
    return fits;
}
