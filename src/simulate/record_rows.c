/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/record_rows.h"
#include "search/score.h"

#include <math.h>

_Static_assert(EXCEEDED_N_LIMITS == 3, "names of misfits in trace/table.c");
_Static_assert(TRAFFIC_N_PURPOSES == 8, "trace/traffic.def has a column for each purpose");
_Static_assert(MEMORY_N_CLASSES == 7, "trace/memory_class.def has a column for each class");

/*
 * Columns of trace/bubble.def, trace/traffic.def, trace/memory_class.def and trace/rank.def, as designated
 * initialisers.
 */
#define BUBBLE_COLUMNS(of)                                                                                             \
    .bubble_fraction = bubble_fraction(&(of)), .busy_s = (of).busy_s, .ring_s = (of).ring_s,                           \
    .warm_up_s = (of).warm_up_s, .imbalance_s = (of).imbalance_s, .cool_down_s = (of).cool_down_s,                     \
    .dp_wait_s = (of).dp_wait_s, .sync_s = (of).sync_s, .reshard_s = (of).reshard_s, .total_s = (of).total_s
#define MEMORY_COLUMNS(of)                                                                                             \
    .states_bytes = (of)[MEMORY_STATES], .activations_bytes = (of)[MEMORY_ACTIVATIONS], .kv_bytes = (of)[MEMORY_KV],   \
    .kv_gradients_bytes = (of)[MEMORY_KV_GRADIENTS], .workspace_bytes = (of)[MEMORY_WORKSPACE],                        \
    .communication_bytes = (of)[MEMORY_COMMUNICATION], .libraries_bytes = (of)[MEMORY_LIBRARIES]
#define TRAFFIC_COLUMNS(of)                                                                                            \
    .sent_tensor_bytes = (of).bytes[TRAFFIC_TENSOR], .sent_shard_bytes = (of).bytes[TRAFFIC_SHARDS],                   \
    .sent_context_bytes = (of).bytes[TRAFFIC_CONTEXT], .sent_boundary_bytes = (of).bytes[TRAFFIC_BOUNDARY],            \
    .sent_exchange_bytes = (of).bytes[TRAFFIC_EXCHANGE], .sent_sync_bytes = (of).bytes[TRAFFIC_SYNC],                  \
    .sent_reshard_bytes = (of).bytes[TRAFFIC_RESHARD], .sent_host_bytes = (of).bytes[TRAFFIC_HOST]
#define PLACE_COLUMNS(of)                                                                                              \
    .phase = (of)->phase, .pipeline = (of)->pipeline, .stage = (of)->stage, .context = (of)->context,                  \
    .tensor = (of)->tensor, .rank = (of)->rank, .gpus = (of)->n_gpus

/* Return a spread, 1 if no pipeline has two units. */
static double spread_or_one(double spread)
{
    return isnan(spread) ? 1 : spread;
}

/* Fill in the columns about units, their spread, and the features that pipelines use. */
static void fill_units(const struct point_iteration *of, struct trace_iteration *row)
{
    row->padding_tokens = of->padding_tokens;
    row->forward_units = of->forward_units;
    row->backward_units = of->backward_units;
    row->listed_units = of->listed_units;
    row->full_units = of->full_units;
    row->unit_imbalance = of->unit_imbalance;
    row->dp_imbalance = of->dp_imbalance;
    row->forward_imbalance = of->spread[PASS_FORWARD].imbalance;
    row->backward_imbalance = of->spread[PASS_BACKWARD].imbalance;
    row->forward_flop_spread = spread_or_one(of->spread[PASS_FORWARD].flop);
    row->backward_flop_spread = spread_or_one(of->spread[PASS_BACKWARD].flop);
    row->forward_own_flop_spread = of->spread[PASS_FORWARD].own_flop;
    row->backward_own_flop_spread = of->spread[PASS_BACKWARD].own_flop;
    row->forward_time_spread = spread_or_one(of->spread[PASS_FORWARD].time);
    row->backward_time_spread = spread_or_one(of->spread[PASS_BACKWARD].time);
    row->pipelines = of->pipelines;
    row->sliced_pipelines = of->sliced_pipelines;
    row->asymmetric_pipelines = of->asymmetric_pipelines;
    row->just_in_time_pipelines = of->just_in_time_pipelines;
    row->persistent_pipelines = of->persistent_pipelines;
    row->long_warm_up_pipelines = of->long_warm_up_pipelines;
    row->merged_samples = of->merged_samples;
}

struct trace_iteration record_iteration(int32_t system, const struct point_iteration *of)
{
    struct trace_iteration row = {
        .system = system,
        .iteration = of->iteration,
        .measured = of->measured,
        .time_s = of->time_s,
        .critical_path_s = of->critical_path_s,
        .simgrid_s = of->simgrid_s,
        .tokens = of->tokens,
        .samples = of->samples,
        .documents = of->documents,
        .delayed_tokens = of->delayed_tokens,
        .candidates = of->candidates,
        .resolved = of->resolved,
        .nodes = of->nodes,
        .gap = of->gap,
        .model_flop = of->model_flop,
        .hardware_flop = of->hardware_flop,
        .tensor_s = of->tensor_s,
        .shard_s = of->shard_s,
        BUBBLE_COLUMNS(of->bubble),
        TRAFFIC_COLUMNS(of->traffic),
        .peak_bytes = of->peak_bytes,
        .peak_pipeline = of->peak_pipeline,
        .peak_stage = of->peak_stage,
        .host_peak_bytes = of->host.bytes,
        MEMORY_COLUMNS(of->at_peak),
    };
    fill_units(of, &row);
    return row;
}

struct trace_task record_task(const struct point_view *view, int32_t t)
{
    const struct dag_task *task = &view->dag->tasks[t];
    const struct dag_rank *dag_rank = &view->dag->ranks[task->dag_rank];
    struct trace_task row = {
        .system = view->system_index,
        .iteration = view->iteration->iteration,
        .task = t,
        .kind = task->kind,
        .purpose = task->purpose,
        .direction = task->pass,
        .stream = task->stream % DAG_N_STREAMS,
        PLACE_COLUMNS(dag_rank),
        .unit = task->unit,
        .bytes = task->kind == DAG_SEND ? task->wire_bytes : 0,
        .duration_s = view->dag->duration_s[t],
        .tensor_s = view->exposed[t].tensor_s,
        .shard_s = view->exposed[t].shard_s,
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

struct trace_memory record_memory(const struct point_view *view, const struct memory_event *event)
{
    return (struct trace_memory){
        .system = view->system_index,
        .iteration = view->iteration->iteration,
        .time_s = event->time_s,
        PLACE_COLUMNS(&view->dag->ranks[event->dag_rank]),
        MEMORY_COLUMNS(event->bytes),
    };
}

struct trace_stage record_stage(int32_t system, int32_t stage, const struct stage_peak *peak)
{
    return (struct trace_stage){
        .system = system,
        .stage = stage,
        .peak_bytes = peak->peak_bytes,
        MEMORY_COLUMNS(peak->at_peak),
        .iteration = peak->iteration,
        .pipeline = peak->pipeline,
    };
}

struct trace_plan record_plan(int32_t system, int32_t rank, const struct search_plan *plan)
{
    const struct search_score *score = &plan->score;
    return (struct trace_plan){
        .system = system,
        .rank = rank,
        .tp = (int32_t)plan->layout.tp,
        .pp = (int32_t)plan->layout.pp,
        .cp = (int32_t)plan->layout.cp,
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
}

/* Fill in the columns of the plan; dp is the point's. */
static void fill_plan(const struct scenario_plan *plan, struct trace_summary *row)
{
    row->tp = (int32_t)plan->tp;
    row->pp = (int32_t)plan->pp;
    row->cp = (int32_t)plan->cp;
    row->vpp = (int32_t)plan->vpp;
    row->schedule = plan->schedule;
    row->sequence_parallel = plan->sequence_parallel;
    row->sharding = plan->sharding;
    row->gradients = plan->gradients;
    row->gradient_buffers = plan->gradient_buffers;
    row->recompute = plan->recompute;
    row->recompute_layers = (int32_t)plan->recompute_layers;
    row->offload = plan->offload;
}

struct trace_summary record_summary(const struct scenario *scenario, const struct point *point, int32_t index,
                                    const struct point_summary *of)
{
    const struct point_system *system = &point->systems[index];
    int32_t gpus = platform_n_gpus(&scenario->platform);
    struct trace_summary row = {
        .system = index,
        .memory_bytes = point->memory_bytes,
        .gpus = gpus,
        .dp = (int32_t)system->dp,
        .fits = system->fits,
        .misfit = of->misfit,
        .measured_iterations = (int32_t)scenario->measured,
        .time_mean_s = of->time_mean_s,
        .time_p5_s = of->time_p5_s,
        .time_p95_s = of->time_p95_s,
        .tokens_per_s_per_gpu = of->tokens_per_s_per_gpu,
        .tokens_per_s_per_gpu_interval = of->tokens_interval,
        .tokens_per_s = of->tokens_per_s_per_gpu * gpus,
        .mfu = of->mfu,
        .hfu = of->hfu,
        .model_flop_per_s = of->mfu * gpus * scenario->device.peak_flop_per_s[PRECISION_BF16],
        .speed_up = of->speed_up,
        .speed_up_interval = of->speed_up_interval,
        .over_misfit = of->over_misfit,
        .token_delay = of->token_delay,
        .unit_imbalance = of->unit_imbalance,
        .dp_imbalance = of->dp_imbalance,
        .forward_imbalance = of->imbalance[PASS_FORWARD],
        .backward_imbalance = of->imbalance[PASS_BACKWARD],
        .critical_path_mean_s = of->critical_path_mean_s,
        .simgrid_mean_s = of->simgrid_mean_s,
        BUBBLE_COLUMNS(of->bubble),
        .tensor_s = of->tensor_s,
        .shard_s = of->shard_s,
        TRAFFIC_COLUMNS(of->traffic),
        .peak_bytes = of->peak_bytes,
        .peak_stage = of->peak_stage,
        .peak_class = of->peak_class,
        .host_memory_bytes = scenario->platform.host_memory_bytes,
        .host_peak_bytes = of->host.bytes,
        .host_node = of->host.node,
        .host_stage = of->host.stage,
        MEMORY_COLUMNS(of->at_peak),
        .power_w = of->power_w,
        .energy_j_per_token = of->energy_j_per_token,
        .usd_per_1t_tokens = of->usd_per_1t_tokens,
        .kg_co2_per_1t_tokens = of->kg_co2_per_1t_tokens,
    };
    fill_plan(&system->entry->plan, &row);
    return row;
}
