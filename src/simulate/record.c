/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/record.h"

#include "base/check.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "search/score.h"
#include "simulate/assumptions.h"
#include "simulate/plan_text.h"
#include "simulate/validated_range.h"
#include "trace/csv.h"

#include <gsl/gsl_version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(EXCEEDED_N_LIMITS == 3, "names of misfits in trace/table.c");

static bool set_hash(struct trace *trace, const char *name, uint64_t hash, struct error *err)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return trace_set_text(trace, name, text, err);
}

bool record_versions(struct trace *trace, struct error *err)
{
    return trace_set_text(trace, "program", "slimsim " SLIMSIM_VERSION, err) &&
           trace_set_text(trace, "simgrid_version", execute_simgrid_version(), err) &&
           trace_set_text(trace, "igraph_version", graph_igraph_version(), err) &&
           trace_set_text(trace, "gsl_version", gsl_version, err) &&
           trace_set_text(trace, "hdf5_version", trace_hdf5_version(), err);
}

static bool set_inputs(struct trace *trace, const struct scenario *scenario, const char *text,
                       const struct lengths *lengths, struct error *err)
{
    struct flop_curve curve = flop_model_curve(&scenario->model, PASS_FORWARD);
    char windows[256] = "";
    for (int32_t i = 0; i < curve.n_windows; i++)
        snprintf(windows + strlen(windows), sizeof windows - strlen(windows), "%s%lld:%lld", i > 0 ? " " : "",
                 (long long)curve.windows[i].q, (long long)curve.windows[i].window);
    if (curve.n_windows > 0 && !trace_set_text(trace, "layer_flop_windows", windows, err))
        return false;
    return trace_set_text(trace, "scenario", text, err) && set_hash(trace, "model_hash", scenario->model_hash, err) &&
           set_hash(trace, "device_hash", scenario->device_hash, err) &&
           set_hash(trace, "platform_hash", scenario->platform.hash, err) &&
           set_hash(trace, "lengths_hash", lengths->hash, err) &&
           (lengths->read == NULL || trace_set_text(trace, "lengths_read", lengths->read, err)) &&
           trace_set_integer(trace, "seed", scenario->seed, err) &&
           trace_set_text(trace, "name", scenario->name, err) &&
           trace_set_text(trace, "model", scenario->model.name, err) &&
           trace_set_text(trace, "device", scenario->device.name, err) &&
           trace_set_text(trace, "platform", scenario->platform.name, err) &&
           trace_set_text(trace, "lengths", scenario->data.lengths, err) &&
           trace_set_integer(trace, "context", scenario->data.context, err) &&
           trace_set_integer(trace, "peak_flop_per_s", (int64_t)scenario->device.peak_flop_per_s[PRECISION_BF16],
                             err) &&
           trace_set_integer(trace, "global_batch", scenario->data.global_batch, err) &&
           trace_set_integer(trace, "global_batch_tokens", scenario->data.global_batch_tokens, err) &&
           trace_set_integer(trace, "layer_flop_quadratic", curve.q, err) &&
           trace_set_integer(trace, "layer_flop_linear", curve.l, err);
}

static bool set_systems(struct trace *trace, const struct scenario *scenario, struct error *err)
{
    const char **label = check_malloc((size_t)scenario->n_systems * sizeof *label);
    for (int32_t s = 0; s < scenario->n_systems; s++)
        label[s] = scenario->systems[s].label;
    bool ok = trace_set_systems(trace, scenario->n_systems, label, err);
    free(label);
    return ok;
}

/* Create all tables, also those that stay empty, so that readers find them. */
static bool create_tables(struct record *record, struct error *err)
{
    bool ok = true;
    for (int32_t t = 0; t < TRACE_N_TABLES && ok; t++)
        if ((record->full && t < TRACE_FAULTS && t != TRACE_PLANS) || t == TRACE_SUMMARY || t == TRACE_ITERATIONS ||
            t == TRACE_STAGES)
            ok = trace_append(record->trace, (enum trace_table_id)t, NULL, 0, err);
    return ok;
}

static bool append_faults(struct trace *trace, const struct scenario *scenario, struct error *err)
{
    struct faults faults = faults_of(scenario->faults, scenario->n_faults, &scenario->platform);
    bool ok = true;
    for (int32_t kind = 0; kind < FAULT_N_KINDS; kind++)
        for (int32_t device = 0; device < faults.n[kind] && ok; device++) {
            struct trace_fault row = {-1, -1, -1, kind, faults.factor[kind][device]};
            if (kind == FAULT_SPINE)
                row.leaf = device;
            else
                row.node = kind == FAULT_UPLINK ? device : platform_node_of(&scenario->platform, device);
            if (fault_is_of_gpus(kind))
                row.rank = device;
            ok = row.factor == 1 || trace_append(trace, TRACE_FAULTS, &row, 1, err);
        }
    faults_free(&faults);
    return ok;
}

bool record_open(struct record *record, const char *directory, const struct scenario *scenario, const char *text,
                 const struct lengths *lengths, struct error *err)
{
    *record = (struct record){.full = scenario->trace == SCENARIO_TRACE_FULL};
    if (directory != NULL)
        record->csv_path = check_asprintf("%s/%s.csv", directory, scenario->name);
    record->trace =
        directory != NULL ? trace_create(directory, scenario->name, err) : trace_create_image(scenario->name, err);
    if (record->trace != NULL && record_versions(record->trace, err) &&
        set_inputs(record->trace, scenario, text, lengths, err) && set_systems(record->trace, scenario, err) &&
        (record->full || trace_set_integers(record->trace, "traced_iterations", 0, (int64_t[]){0}, err)) &&
        create_tables(record, err) && append_faults(record->trace, scenario, err))
        return true;
    record_abandon(record);
    return false;
}

static bool append_lengths(struct trace *trace, const struct point_view *view, struct error *err)
{
    bool ok = true;
    for (int32_t s = 0; s < view->batch->n_samples && ok; s++) {
        struct trace_length row = {view->iteration->row.iteration, s, view->batch->document[s], view->batch->tokens[s]};
        ok = trace_append(trace, TRACE_LENGTHS, &row, 1, err);
    }
    return ok;
}

static bool append_slices(struct trace *trace, struct trace_micro_batch row, const struct plan_partition *partition,
                          const struct model *model, struct error *err)
{
    struct flop_curve curve = flop_model_curve(model, (enum pass)row.direction);
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[row.micro_batch];
    row.formation = micro_batch->formation;
    row.context = micro_batch->context;
    row.group = micro_batch->group;
    bool ok = true;
    for (int32_t s = 0; s < micro_batch->n_slices && ok; s++) {
        const struct slice *slice = &partition->slices[micro_batch->first_slice + s];
        row.sample = slice->sample;
        row.begin = slice->begin;
        row.end = slice->end;
        row.flop = (double)flop_repeats(model) * (double)flop_of_slice(curve, slice->begin, slice->end);
        ok = trace_append(trace, TRACE_MICRO_BATCHES, &row, 1, err);
    }
    return ok;
}

static bool append_micro_batches(struct trace *trace, const struct point_view *view, struct error *err)
{
    struct trace_micro_batch row = {.system = view->system_index, .iteration = view->iteration->row.iteration};
    bool ok = true;
    for (row.phase = 0; row.phase < view->plan->n_phases; row.phase++) {
        const struct plan_phase *phase = &view->plan->phases[row.phase];
        for (row.pipeline = 0; row.pipeline < phase->n_pipelines; row.pipeline++)
            for (row.direction = 0; row.direction < N_PASSES; row.direction++) {
                const struct plan_partition *partition = &phase->pipelines[row.pipeline].partition[row.direction];
                for (row.micro_batch = 0; row.micro_batch < partition->n_micro_batches && ok; row.micro_batch++)
                    ok = append_slices(trace, row, partition, &view->scenario->model, err);
            }
    }
    return ok;
}

/* Columns of trace/rank.def, as designated initialisers. */
#define PLACE_COLUMNS(of)                                                                                              \
    .phase = (of)->phase, .pipeline = (of)->pipeline, .stage = (of)->stage, .context = (of)->context,                  \
    .tensor = (of)->tensor, .rank = (of)->rank, .gpus = (of)->n_gpus

/* Return the t-th task of the graph. */
static struct trace_task task_row(const struct point_view *view, int32_t t)
{
    const struct dag_task *task = &view->dag->tasks[t];
    const struct dag_rank *dag_rank = &view->dag->ranks[task->dag_rank];
    struct trace_task row = {
        .system = view->system_index,
        .iteration = view->iteration->row.iteration,
        .task = t,
        .kind = task->kind,
        .purpose = task->purpose,
        .direction = task->pass,
        .stream = task->stream % DAG_N_STREAMS,
        PLACE_COLUMNS(dag_rank),
        .micro_batch = task->micro_batch,
        .bytes = task->kind == DAG_SEND ? task->wire_bytes : 0,
        .duration_s = view->dag->duration_s[t],
        .tensor_s = view->exposed[t].tensor_s,
        .shard_s = view->exposed[t].shard_s,
        .expert_s = view->exposed[t].expert_s,
        .start_s = view->timeline->start_s[t],
        .finish_s = view->timeline->finish_s[t],
        .slack_s = view->slack_s[t],
    };
    if (task->purpose == DAG_RESHARD && task->kind == DAG_SEND) { /* its rank may represent several GPUs */
        row.rank = task->from_rank;
        row.gpus = 1;
    }
    return row;
}

static bool append_transfer(struct trace *trace, const struct trace_task *row, const struct dag_task *task,
                            struct error *err)
{
    struct trace_transfer transfer = {
        .system = row->system,
        .iteration = row->iteration,
        .task = row->task,
        .purpose = row->purpose,
        .from_rank = task->from_rank,
        .to_rank = task->to_rank,
        .bytes = row->bytes,
        .start_s = row->start_s,
        .finish_s = row->finish_s,
    };
    return trace_append(trace, TRACE_TRANSFERS, &transfer, 1, err);
}

static bool append_tasks(struct trace *trace, const struct point_view *view, struct error *err)
{
    bool ok = true;
    for (int32_t t = 0; t < view->dag->n_tasks && ok; t++) {
        struct trace_task row = task_row(view, t);
        ok = trace_append(trace, TRACE_TASKS, &row, 1, err) &&
             (row.kind != DAG_SEND || append_transfer(trace, &row, &view->dag->tasks[t], err));
    }
    return ok;
}

static bool append_edges(struct trace *trace, const struct point_view *view, struct error *err)
{
    const struct dag *dag = view->dag;
    bool ok = true;
    for (int32_t t = 0; t < dag->n_tasks && ok; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1] && ok; e++) {
            struct trace_edge row = {.system = view->system_index,
                                     .iteration = view->iteration->row.iteration,
                                     .from_task = dag->in_task[e],
                                     .to_task = t,
                                     .kind = dag->in_kind[e]};
            ok = trace_append(trace, TRACE_EDGES, &row, 1, err);
        }
    return ok;
}

static bool append_memory(struct trace *trace, const struct point_view *view, struct error *err)
{
    bool ok = true;
    for (int64_t e = 0; e < view->memory->n_events && ok; e++) {
        const struct memory_event *event = &view->memory->events[e];
        struct trace_memory row = {
            .system = view->system_index,
            .iteration = view->iteration->row.iteration,
            .time_s = event->time_s,
            PLACE_COLUMNS(&view->dag->ranks[event->dag_rank]),
        };
        memcpy(row.class_bytes, event->bytes, sizeof row.class_bytes);
        ok = trace_append(trace, TRACE_MEMORY, &row, 1, err);
    }
    return ok;
}

bool record_observe(void *context, const struct point_view *view, struct error *err)
{
    const struct record *record = context;
    struct trace *trace = record->trace;
    if (!trace_append(trace, TRACE_ITERATIONS, &view->iteration->row, 1, err))
        return false;
    return !record->full || view->system_index > 0 || append_lengths(trace, view, err);
}

bool record_observe_again(void *context, const struct point_view *view, struct error *err)
{
    const struct record *record = context;
    struct trace *trace = record->trace;
    const int64_t *iteration = &view->iteration->row.iteration;
    return (view->system_index > 0 || trace_set_integers(trace, "traced_iterations", 1, iteration, err)) &&
           append_micro_batches(trace, view, err) && append_tasks(trace, view, err) &&
           append_memory(trace, view, err) && append_edges(trace, view, err);
}

bool record_typical_iteration(struct record *record, const struct scenario *scenario, const struct lengths *lengths,
                              const struct search_result *searches, const struct point *point, struct error *err)
{
    struct point_options options = {.searches = searches, .observer = record_observe_again, .context = record};
    return !record->full || point_run_again(scenario, lengths, &options, point_typical_iteration(scenario, point), err);
}

struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan)
{
    const struct search_score *score = &plan->score;
    struct trace_plan row = {
        .system = system,
        .rank = rank,
        .tp = (int32_t)plan->layout.tp,
        .pp = (int32_t)plan->layout.pp,
        .cp = (int32_t)plan->layout.cp,
        .ep = (int32_t)plan->layout.ep,
        .dp = (int32_t)plan->layout.dp,
        .vpp = (int32_t)plan->layout.vpp,
        .sharding = plan->layout.sharding,
        .recompute = plan->layout.recompute,
        .offload = plan->layout.offload,
        .host_bytes = score->worst.host_bytes,
        .verdict = (int32_t)plan->verdict,
        .iterations = score->n_iterations,
        .time_s = score->time_s,
        .slower = score->slower,
        .slower_error = score_is_whole(score) ? score->slower_error : 0,
        .contention = score->contention,
        .peak_bytes = score->worst.peak_bytes,
        .peak_stage = score->worst.stage,
        .compute_fraction = score->compute,
        .bubble_fraction = score->bubble,
        .communication_fraction = score->communication,
        .bound_time_s = plan->bound.time_s,
        .bound_peak_bytes = plan->bound.peak_bytes,
    };
    plan_text_name(&plan->layout, score->worst.host_bytes > 0, row.plan_text);
    return row;
}

static bool append_plan(struct trace *trace, int32_t system, int32_t rank, const struct search_plan *plan,
                        struct error *err)
{
    const struct trace_plan row = record_plan(system, rank, plan);
    return trace_append(trace, TRACE_PLANS, &row, 1, err);
}

bool record_search(struct record *record, int32_t system, const struct search_result *result, struct error *err)
{
    bool ok = true;
    for (int32_t i = 0; result->n_plans > 0 && i < SEARCH_DECIDING_ITERATIONS && ok; i++) {
        const struct search_iteration *of = &result->iterations[i];
        struct trace_deciding row = {system, result->seed, of->iteration, of->weight, of->model_flop};
        ok = trace_append(record->trace, TRACE_DECIDING, &row, 1, err);
    }
    for (int32_t i = 0; i < result->n_ranked && ok; i++)
        ok = append_plan(record->trace, system, i, &result->plans[result->ranked[i]], err);
    for (int32_t i = 0; i < result->n_plans && ok; i++)
        if (result->plans[i].verdict > SEARCH_MISFIT) /* otherwise it is ranked */
            ok = append_plan(record->trace, system, -1, &result->plans[i], err);
    return ok;
}

/* Write the summary as a file of its own, which lacks only its name. */
static bool write_csv(const char *h5_path, const char *csv_path, struct output *output, struct error *err)
{
    struct trace_reader *reader = trace_open(h5_path, err);
    FILE *file = reader != NULL ? output_open(output, csv_path, err) : NULL;
    bool ok = file != NULL && output_end(output, file, csv_print(reader, TRACE_SUMMARY, file, err), err);
    if (!ok && err->status == ERROR_INVALID) /* somebody removed or changed the run's own file */
        err->status = ERROR_IO;
    trace_reader_close(reader);
    return ok;
}

static bool set_assumed(struct trace *trace, const struct scenario *scenario, const struct point *point,
                        struct error *err)
{
    int32_t n;
    char(*lines)[ASSUMPTIONS_SIZE] = assumptions_lines(scenario, point, &n);
    const char **texts = check_malloc((size_t)n * sizeof *texts);
    for (int32_t i = 0; i < n; i++)
        texts[i] = lines[i];
    bool ok = trace_set_texts(trace, "assumed", n, texts, err);
    free(texts);
    free(lines);
    return ok;
}

/* Write what of the point lies outside the measured runs, as `run` prints it; empty: nothing. */
static bool set_outside(struct trace *trace, const struct scenario *scenario, const struct point *point,
                        struct error *err)
{
    struct validated_range range;
    if (!validated_range_read(scenario_data_dir(), &range, err))
        return false;
    char items[OUTSIDE_MOST][OUTSIDE_SIZE], text[OUTSIDE_MOST * (OUTSIDE_SIZE + 2)] = "";
    int32_t n = validated_range_outside(&range, scenario, point, items);
    for (int32_t i = 0, used = 0; i < n; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", i > 0 ? ", " : "", items[i]);
    return trace_set_text(trace, "outside_measured_runs", text, err);
}

/* Append the results that exist only at the end. */
static bool append_results(struct record *record, const struct scenario *scenario, const struct point *point,
                           const struct trace_summary *summary, struct error *err)
{
    struct trace *trace = record->trace;
    bool ok = set_assumed(trace, scenario, point, err) && set_outside(trace, scenario, point, err) &&
              trace_append(trace, TRACE_SUMMARY, summary, point->n_systems, err);
    for (int32_t s = 0; s < point->n_systems && ok; s++)
        ok = trace_append(trace, TRACE_STAGES, point->systems[s].stages.at, point->systems[s].stages.n, err);
    return ok;
}

bool record_close(struct record *record, const struct scenario *scenario, const struct point *point,
                  const struct trace_summary *summary, struct error *err)
{
    bool ok = append_results(record, scenario, point, summary, err);
    if (ok) {
        struct output outputs[2] = {0};
        ok = trace_end(record->trace, &outputs[0], err) &&
             write_csv(outputs[0].temporary, record->csv_path, &outputs[1], err);
        record->trace = NULL;
        if (ok)
            ok = output_commit(outputs, 2, err);
        else
            output_abandon(&outputs[0]);
    }
    record_abandon(record);
    return ok;
}

bool record_close_image(struct record *record, const struct scenario *scenario, const struct point *point,
                        const struct trace_summary *summary, struct record_image *image, struct error *err)
{
    bool ok = append_results(record, scenario, point, summary, err);
    if (ok) {
        ok = trace_close_image(record->trace, &image->bytes, &image->n_bytes, err);
        record->trace = NULL;
    }
    record_abandon(record);
    return ok;
}

void record_abandon(struct record *record)
{
    trace_abandon(record->trace);
    free(record->csv_path);
    *record = (struct record){0};
}
