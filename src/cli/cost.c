/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This file is `slimsim cost`. It prints the costs of one micro-batch, on which all results rest, so that
 * they can be checked.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_table.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cost/activation.h"
#include "cost/communication.h"
#include "cost/dispatch.h"
#include "cost/pass.h"
#include "document/quantity.h"
#include "document/schema_text.h"
#include "scenario/layout.h"
#include "scenario/taken.h"
#include "simulate/assumptions.h"

#define KERNELS          "fused|eager|compiled"
#define DEFAULT_DEVICE   "h800"
#define DEFAULT_PLATFORM "hopper-16x8"
enum { MAX_SLICES = 256 };

struct arguments {
    const char *model, *device, *platform, *slice[MAX_SLICES]; /* device and platform are NULL if they are not given */
    int32_t n_slices;
    int64_t tp, cp, ep, layers; /* layers 0: all layers of the model */
    int32_t recompute, attention, kernels, accumulation, sequence_parallel, cp_type, expert_gemms, precision;
    struct options options;
};

/** These are the inputs that the arguments name. They are read and checked. */
struct question {
    const char *device_note, *platform_note; /* " (default)" if the argument is not given */
    struct model model;
    struct device device;
    struct platform platform;
    struct slice slices[MAX_SLICES]; /* slices of one micro-batch, each of a different sample */
    struct scenario_plan plan;
    struct cost_setting setting;
    struct cost_micro_batch micro_batch;
};

static bool read_slice(const char *text, struct slice *slice, struct error *err)
{
    char begin_text[64];
    const char *colon = strchr(text, ':');
    double begin, end;
    size_t length = colon != NULL ? (size_t)(colon - text) : sizeof begin_text;
    if (length < sizeof begin_text) {
        memcpy(begin_text, text, length);
        begin_text[length] = '\0';
        if (quantity_parse(begin_text, "tokens", &begin) && quantity_parse(colon + 1, "tokens", &end) && begin >= 0 &&
            begin < end && end <= 1 << 23 && begin == (int32_t)begin && end == (int32_t)end) {
            slice->begin = (int32_t)begin;
            slice->end = (int32_t)end;
            return true;
        }
    }
    return error_set(err, "--slice: '%s' is not BEGIN:END with whole tokens 0 <= BEGIN < END <= 8Mi", text);
}

static bool read_slices(const struct arguments *arguments, struct question *question, struct error *err)
{
    for (int32_t i = 0; i < arguments->n_slices; i++) {
        question->slices[i].sample = i;
        if (!read_slice(arguments->slice[i], &question->slices[i], err))
            return false;
    }
    return true;
}

static bool check_slices(const struct question *question, int64_t layers, struct error *err)
{
    const struct model *model = &question->model;
    int64_t end_tokens = 0;
    for (int32_t i = 0; i < question->micro_batch.n_slices; i++) {
        int32_t end = question->slices[i].end;
        if (model->positions > 0 && end > model->positions)
            return error_set(err, "--slice: model %s has learned positions for %" PRId64 " tokens, fewer than END, %d",
                             model->name, model->positions, end);
        end_tokens += end;
    }
    if (!flop_fits(model, layers, end_tokens)) /* one sample of all these tokens has more FLOPs than several */
        return error_set(err,
                         "--slice: the FLOPs of %" PRId64 " layers up to token %" PRId64
                         " exceed 2^63 and would not be exact; take fewer --layers or earlier tokens",
                         layers, end_tokens);
    return true;
}

static bool check_degrees(const struct arguments *arguments, const struct question *question, struct error *err)
{
    if (!model_shares_heads(&question->model, arguments->tp, true))
        return error_set(
            err,
            "--tp: %" PRId64 " does not divide the %" PRId64 " heads and %" PRId64 " groups of %s; it may also be a "
            "multiple of the groups",
            arguments->tp, question->model.kinds[0].heads, question->model.kinds[0].kv_heads, question->model.name);
    if (!model_takes_tensor(&question->model, arguments->tp))
        return error_set(err, "--tp: %s has norms of all queries and keys (qk_norm: full); allowed: 1",
                         question->model.name);
    int64_t domain = platform_nvlink_domain(&question->platform), ranks = arguments->tp * arguments->cp;
    if (domain % arguments->tp != 0)
        return error_set(err, "--tp: %" PRId64 " does not divide the %" PRId64 " GPUs of %s of %s", arguments->tp,
                         domain, platform_domain_name(&question->platform), question->platform.name);
    if (arguments->cp_type == SCENARIO_ULYSSES && !model_shares_heads(&question->model, ranks, true))
        return error_set(err,
                         "--cp-type: ulysses needs tp x cp = %" PRId64 " x %" PRId64 " to divide the %" PRId64
                         " heads and %" PRId64 " groups of %s, or be a multiple of the groups",
                         arguments->tp, arguments->cp, question->model.kinds[0].heads,
                         question->model.kinds[0].kv_heads, question->model.name);
    if (model_has_windows(&question->model) && arguments->cp > 1 && scenario_is_ring(arguments->cp_type))
        return error_set(err, "--cp-type: a ring does not run the sliding windows of %s; allowed: all-gather, ulysses",
                         question->model.name);
    if (model_has_windows(&question->model) && arguments->attention == DEVICE_FLASH1)
        return error_set(err, "--attention: flash1 has no sliding windows, which %s has", question->model.name);
    if (arguments->layers > question->model.layers)
        return error_set(err, "--layers: %s has %" PRId64 " layers, not %" PRId64, question->model.name,
                         question->model.layers, arguments->layers);
    return true;
}

/** Return the fewest replicas whose ranks can share experts. */
static int64_t replicas_of(const struct arguments *arguments)
{
    int64_t ranks = arguments->tp * arguments->cp;
    return arguments->ep > ranks ? arguments->ep / ranks : 1;
}

/** Check the ranks that share experts by the rules of plan.ep. */
static bool check_experts(const struct arguments *arguments, const struct question *question, struct error *err)
{
    const struct model *model = &question->model;
    int64_t tp = arguments->tp, cp = arguments->cp, ep = arguments->ep, gpus = platform_n_gpus(&question->platform);
    const struct scenario_plan plan = {.tp = tp, .cp = cp, .dp = replicas_of(arguments), .ep = ep};
    if (!model_has_experts(model))
        return ep == 1 || error_set(err, "--ep: %" PRId64 ", but model %s has no experts; allowed: 1", ep, model->name);
    if (tp > 1 && !arguments->sequence_parallel)
        return error_set(err, "--sequence-parallel: off, but with experts --tp above 1 needs on, as in Megatron-LM");
    if (!layout_shares_experts(model, &plan))
        return error_set(err,
                         "--ep: %" PRId64 "; allowed: divisors of the experts of each layer of %s that are multiples "
                         "or divisors of --tp = %" PRId64 " and of --tp x --cp = %" PRId64,
                         ep, model->name, tp, tp * cp);
    return ep <= gpus ||
           error_set(err, "--ep: %" PRId64 " exceeds the %" PRId64 " GPUs of %s", ep, gpus, question->platform.name);
}

/** Check that the device has a curve of the precision's GEMMs, and experts a kernel. */
static bool check_precision(const struct arguments *arguments, const struct question *question, struct error *err)
{
    bool grouped = model_has_experts(&question->model) && arguments->expert_gemms == DEVICE_GROUPED;
    char *refusal =
        scenario_precision_refusal(&question->device, arguments->precision, grouped ? "--expert-gemms" : NULL);
    bool ok = refusal == NULL || error_set(err, "--precision: %s", refusal);
    free(refusal);
    return ok;
}

/** Fill in `question`. Its address must not change afterwards, since its setting points into it. */
static bool read_question(const struct arguments *arguments, struct question *question, struct error *err)
{
    struct platform_keys keys;
    struct error notes = {0};
    const char *device = arguments->device != NULL ? arguments->device : DEFAULT_DEVICE;
    const char *platform = arguments->platform != NULL ? arguments->platform : DEFAULT_PLATFORM;
    question->device_note = arguments->device != NULL ? "" : " (default)";
    question->platform_note = arguments->platform != NULL ? "" : " (default)";
    if (!model_read(scenario_data_dir(), arguments->model, &question->model, err) ||
        !device_read(scenario_data_dir(), device, &question->device, err) ||
        !platform_keys_of_name(scenario_data_dir(), platform, &keys, err) ||
        !platform_from_keys(&keys, &question->device, &question->platform, err) ||
        !read_slices(arguments, question, err) || !check_degrees(arguments, question, err) ||
        !check_experts(arguments, question, err) || !check_precision(arguments, question, err))
        return false;
    taken_model(arguments->model, &notes);
    command_print_notes(notes.text);
    const char *misfit = scenario_recompute_misfit(arguments->recompute, &question->model);
    if (misfit != NULL)
        return error_set(err, "--recompute: %s", misfit);
    question->plan = (struct scenario_plan){.tp = arguments->tp,
                                            .pp = 1,
                                            .cp = arguments->cp,
                                            .cp_type = arguments->cp_type,
                                            .dp = replicas_of(arguments),
                                            .ep = arguments->ep,
                                            .vpp = 1,
                                            .sequence_parallel = arguments->sequence_parallel != 0,
                                            .kv_copies = true};
    question->setting = (struct cost_setting){
        .model = &question->model,
        .device = &question->device,
        .platform = &question->platform,
        .tp_overlap = SCENARIO_BULK,
        .cp_overlap = true,
        .pp_overlap = SCENARIO_STAGES_OVERLAP,
        .attention = (enum device_attention)arguments->attention,
        .kernels = (enum scenario_kernels)arguments->kernels,
        .single = arguments->kernels == SCENARIO_EAGER ? COST_SINGLE_QKV | COST_SINGLE_GATE_UP : 0,
        .gradient_accumulation = (enum scenario_accumulation)arguments->accumulation,
        .expert_gemms = arguments->expert_gemms,
        .precision = (enum precision)arguments->precision,
    };
    cost_take_plan(&question->setting, &question->plan);
    cost_hold_layers(&question->setting, 0,
                     (int32_t)(arguments->layers > 0 ? arguments->layers : question->model.layers));
    question->micro_batch = (struct cost_micro_batch){
        .slices = question->slices,
        .n_slices = arguments->n_slices,
        .context = (int32_t)arguments->cp,
        .recompute = (enum recompute)arguments->recompute,
    };
    return check_slices(question, cost_n_layers(&question->setting), err);
}

/** These are exact FLOPs of all slices in the requested layers, before any division by TP or CP. */
struct exact {
    int64_t layers, attention, head;
};

static struct exact exact_flop(const struct question *question, enum pass pass)
{
    const struct model *model = &question->model;
    struct exact exact = {0};
    for (int32_t i = 0; i < question->micro_batch.n_slices; i++) {
        const struct slice *slice = &question->slices[i];
        for (int32_t j = 0; j < question->setting.n_runs; j++) {
            const struct cost_run *run = &question->setting.runs[j];
            struct flop_curve curve = flop_layer_curve(model, run->kind, pass);
            exact.layers += run->n * flop_of_slice(curve, slice->begin, slice->end);
            exact.attention += run->n * flop_attention(model, run->kind, pass, slice->begin, slice->end);
        }
        exact.head += flop_head(model, pass, slice_tokens(*slice));
    }
    return exact;
}

/** Return the bytes of the micro-batch's tokens on one rank from forward to backward, in the requested layers. */
static double activation_bytes(const struct question *question, enum recompute recompute)
{
    struct cost_micro_batch micro_batch = question->micro_batch;
    micro_batch.recompute = recompute;
    bool sliced = false;
    for (int32_t i = 0; i < micro_batch.n_slices; i++)
        sliced = sliced || micro_batch.slices[i].begin > 0;
    double token = cost_activation_bytes(&question->setting, recompute, sliced) +
                   cost_copied_kv_bytes(&question->setting, recompute, micro_batch.context);
    return token * cost_micro_batch_tokens(&micro_batch) + cost_scores_bytes(&question->setting, &micro_batch);
}

static void print_kernels(const char *title, const struct cost_kernels *kernels)
{
    struct text_table table = {0};
    text_table_column(&table, "", "<");
    text_table_column(&table, title, "<36");
    text_table_columns(&table, "FLOP>15;HBM bytes>13;seconds>11");
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        text_table_row(&table, "\t%s\t%.0f\t%.0f\t%.6e", kernel->name, kernel->flop, kernel->bytes, kernel->seconds);
    }
    text_table_print(&table, stdout, 0);
}

/** One of the all-to-alls of a layer with experts. */
struct exchange {
    const char *name;
    double bytes, seconds; /* bytes that a rank sends to others */
};

/** List the all-to-alls of a layer in a pass, without those that recomputation repeats. @return their number */
static int32_t list_exchanges(const struct question *question, int32_t kind, enum pass pass,
                              struct exchange exchanges[2])
{
    static const char *const names[][2] = {{"tokens to experts", "outputs of experts back"},
                                           {"gradients to experts", "gradients of experts back"}};
    if (question->model.kinds[kind].experts == 0 || pass == PASS_WEIGHT)
        return 0;
    double tokens = cost_micro_batch_tokens(&question->micro_batch);
    for (enum cost_way way = COST_TO_EXPERTS; way < COST_N_WAYS; way++) {
        const struct cost_dispatch cost = cost_dispatch_of(&question->setting, kind, tokens, way);
        exchanges[way] = (struct exchange){names[pass != PASS_FORWARD][way], cost.sent_bytes, cost.seconds};
    }
    return 2;
}

static void print_exchanges(const struct question *question, int32_t kind, enum pass pass, const char *title)
{
    struct exchange exchanges[2];
    struct text_table table = {0};
    int32_t n = list_exchanges(question, kind, pass, exchanges);
    text_table_column(&table, "", "<");
    text_table_column(&table, title, "<36");
    text_table_columns(&table, "bytes sent>15;seconds>11");
    for (int32_t i = 0; i < n; i++)
        text_table_row(&table, "\t%s\t%.0f\t%.6e", exchanges[i].name, exchanges[i].bytes, exchanges[i].seconds);
    if (n > 0)
        text_table_print(&table, stdout, 0);
}

static void print_pass(const struct question *question, enum pass pass)
{
    struct cost_kernels kernels;
    struct exact exact = exact_flop(question, pass);
    struct cost_pass layers = cost_of_pass(&question->setting, pass, &question->micro_batch);
    struct cost_pass head = cost_of_head(&question->setting, pass, &question->micro_batch);
    struct cost_pass embedding = cost_of_embedding(&question->setting, pass, &question->micro_batch);
    printf("\n%s\n", pass_name[pass]);
    printf("  FLOPs of %d layers: %" PRId64 " (attention %" PRId64 "), head: %" PRId64 "\n",
           cost_n_layers(&question->setting), exact.layers, exact.attention, exact.head);
    for (int32_t i = 0; i < question->setting.n_runs; i++) {
        char caption[128];
        int32_t kind = question->setting.runs[i].kind;
        const char *name = question->model.kinds[kind].name, *space = *name != '\0' ? " " : "";
        snprintf(caption, sizeof caption, "kernels of one %s%slayer on one rank", name, space);
        cost_layer_kernels(&question->setting, kind, pass, &question->micro_batch, &kernels);
        print_kernels(caption, &kernels);
        snprintf(caption, sizeof caption, "all-to-alls of one %s%slayer on one rank", name, space);
        print_exchanges(question, kind, pass, caption);
    }
    cost_embedding_kernels(&question->setting, pass, &question->micro_batch, &kernels);
    print_kernels("kernels of the embedding on one rank", &kernels);
    cost_head_kernels(&question->setting, pass, &question->micro_batch, &kernels);
    print_kernels("kernels of the head on one rank", &kernels);
    printf("  seconds of a rank: layers %.6f (attention %.6f), tensor-parallel collectives %.6f, context-parallel "
           "collectives %.6f, embedding %.6f, head %.6f\n",
           layers.kernels_s + layers.attention_s, layers.attention_s, layers.tensor_s, layers.context_s,
           embedding.kernels_s + embedding.tensor_s, head.kernels_s + head.tensor_s);
    if (model_has_experts(&question->model))
        printf("  tokens to experts and back: %.6f seconds of a rank, which sends %.0f bytes\n", layers.expert_s,
               layers.expert_bytes);
    printf("  bytes a rank sends: tensor-parallel %.0f, context-parallel %.0f, to the next stage %.0f\n",
           layers.tensor_bytes, layers.ring_bytes, layers.boundary_bytes);
}

/** Return the bytes between the gradients of inputs and those of weights, for a schedule that splits backwards. */
static double weight_bytes(const struct question *question)
{
    return cost_weight_bytes(&question->setting) * cost_micro_batch_tokens(&question->micro_batch);
}

static void print_split(const struct question *question)
{
    struct cost_pass input = cost_of_pass(&question->setting, PASS_INPUT, &question->micro_batch);
    struct cost_pass weight = cost_of_pass(&question->setting, PASS_WEIGHT, &question->micro_batch);
    printf("  split, seconds of a rank: gradients of inputs %.6f, of weights %.6f; held between them: %.0f bytes\n",
           cost_pass_s(&input), cost_pass_s(&weight), weight_bytes(question));
}

/** Return whether the text has a line for a recomputation. Entries from mla-up-proj on have one alone, since all their
 * lists would be hundreds. */
static bool is_listed(int32_t recompute)
{
    return recompute < RECOMPUTE_MLA_UP_PROJ || (recompute & (recompute - 1)) == 0;
}

static void print_text(const struct question *question)
{
    char line[ASSUMPTIONS_SIZE], cp_type[SCHEMA_WORD_BYTES], experts[32] = "", precision[SCHEMA_WORD_BYTES];
    schema_choice_name(PRECISION_NAMES, question->setting.precision, precision);
    schema_choice_name(SCENARIO_CONTEXT, question->plan.cp_type, cp_type);
    printf("%s, tokens", question->model.name);
    for (int32_t i = 0; i < question->micro_batch.n_slices; i++)
        printf("%s [%d, %d)", i > 0 ? "," : "", question->slices[i].begin, question->slices[i].end);
    if (question->micro_batch.n_slices == 1)
        printf(" of a sample");
    else
        printf(" of %d samples", question->micro_batch.n_slices);
    if (model_has_experts(&question->model))
        snprintf(experts, sizeof experts, ", EP %" PRId64, question->plan.ep);
    printf(", TP %d, sequence parallelism %s, CP %d (%s)%s, %d layers%s%s, on %s%s with links of %s%s\n",
           question->setting.tensor, question->plan.sequence_parallel ? "on" : "off", question->micro_batch.context,
           cp_type, experts, cost_n_layers(&question->setting),
           question->setting.precision != PRECISION_BF16 ? ", " : "",
           question->setting.precision != PRECISION_BF16 ? precision : "", question->device.name, question->device_note,
           question->platform.name, question->platform_note);
    if (assumptions_unlike_nvlink(&question->platform, &question->device, line))
        puts(line);
    if (assumptions_copied_curves(&question->device, line))
        puts(line);
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
        print_pass(question, pass);
    print_split(question);
    puts("\nbytes held from forward to backward on one rank");
    for (int32_t recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++)
        if (is_listed(recompute) && scenario_recompute_misfit(recompute, &question->model) == NULL)
            printf("  recompute %-26s %.0f\n", scenario_recompute_name[recompute],
                   activation_bytes(question, (enum recompute)recompute));
}

static json_t *json_of_kernels(const struct cost_kernels *kernels)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < kernels->n; i++) {
        const struct cost_kernel *kernel = &kernels->kernel[i];
        json_array_append_new(array, json_pack("{s:s, s:f, s:f, s:f}", "name", kernel->name, "flop", kernel->flop,
                                               "hbm_bytes", kernel->bytes, "seconds", kernel->seconds));
    }
    return array;
}

/** Return the kernels of a kind of layer. */
static json_t *json_of_kind(const struct question *question, int32_t kind, enum pass pass)
{
    struct cost_kernels kernels;
    cost_layer_kernels(&question->setting, kind, pass, &question->micro_batch, &kernels);
    return json_of_kernels(&kernels);
}

/** Return the all-to-alls of a kind of layer. */
static json_t *json_of_exchanges(const struct question *question, int32_t kind, enum pass pass)
{
    json_t *array = json_array();
    struct exchange exchanges[2];
    int32_t n = list_exchanges(question, kind, pass, exchanges);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array, json_pack("{s:s, s:f, s:f}", "name", exchanges[i].name, "sent_bytes",
                                               exchanges[i].bytes, "seconds", exchanges[i].seconds));
    return array;
}

/** Return a list of each layer, `of_kind`: one, or of several kinds one by name. */
static json_t *json_of_layer(const struct question *question, enum pass pass,
                             json_t *of_kind(const struct question *question, int32_t kind, enum pass pass))
{
    if (question->model.n_runs == 0)
        return of_kind(question, question->setting.runs[0].kind, pass);
    json_t *kinds = json_object();
    for (int32_t i = 0; i < question->setting.n_runs; i++) {
        int32_t kind = question->setting.runs[i].kind;
        json_object_set_new(kinds, question->model.kinds[kind].name, of_kind(question, kind, pass));
    }
    return kinds;
}

static json_t *json_of_pass(const struct question *question, enum pass pass)
{
    struct cost_kernels embedding, head;
    struct cost_pass layers = cost_of_pass(&question->setting, pass, &question->micro_batch);
    struct cost_pass first = cost_of_embedding(&question->setting, pass, &question->micro_batch);
    struct cost_pass last = cost_of_head(&question->setting, pass, &question->micro_batch);
    cost_embedding_kernels(&question->setting, pass, &question->micro_batch, &embedding);
    cost_head_kernels(&question->setting, pass, &question->micro_batch, &head);
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "kernels_of_a_layer",
        json_of_layer(question, pass, json_of_kind), "kernels_of_the_embedding", json_of_kernels(&embedding),
        "kernels_of_the_head", json_of_kernels(&head), "layers_s", layers.kernels_s + layers.attention_s, "attention_s",
        layers.attention_s, "tensor_s", layers.tensor_s, "context_s", layers.context_s, "embedding_s",
        first.kernels_s + first.tensor_s, "head_s", last.kernels_s + last.tensor_s, "tensor_bytes", layers.tensor_bytes,
        "ring_bytes", layers.ring_bytes, "boundary_bytes", layers.boundary_bytes);
    if (model_has_experts(&question->model)) {
        json_object_set_new(object, "all_to_alls_of_a_layer", json_of_layer(question, pass, json_of_exchanges));
        json_object_set_new(object, "expert_s", json_real(layers.expert_s));
        json_object_set_new(object, "expert_bytes", json_real(layers.expert_bytes));
    }
    return object;
}

static json_t *json_of_slices(const struct question *question)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < question->micro_batch.n_slices; i++)
        json_array_append_new(array, json_pack("[i,i]", question->slices[i].begin, question->slices[i].end));
    return array;
}

static void print_json(const struct question *question)
{
    char cp_type[SCHEMA_WORD_BYTES], precision[SCHEMA_WORD_BYTES];
    struct exact forward = exact_flop(question, PASS_FORWARD), backward = exact_flop(question, PASS_BACKWARD);
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:o, s:i, s:b, s:i, s:i, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:o, s:o, s:{s:f, s:f, s:f}}",
        "model", question->model.name, "device", question->device.name, "platform", question->platform.name, "slices",
        json_of_slices(question), "tp", question->setting.tensor, "sequence_parallel", question->plan.sequence_parallel,
        "cp", question->micro_batch.context, "layers", cost_n_layers(&question->setting), "flop", "forward",
        (json_int_t)forward.layers, "backward", (json_int_t)backward.layers, "forward_attention",
        (json_int_t)forward.attention, "backward_attention", (json_int_t)backward.attention, "forward_head",
        (json_int_t)forward.head, "backward_head", (json_int_t)backward.head, "forward",
        json_of_pass(question, PASS_FORWARD), "backward", json_of_pass(question, PASS_BACKWARD), "activation_bytes",
        "none", activation_bytes(question, RECOMPUTE_NONE), "norm+activation",
        activation_bytes(question, RECOMPUTE_SELECTIVE), "full", activation_bytes(question, RECOMPUTE_FULL));
    schema_choice_name(SCENARIO_CONTEXT, question->plan.cp_type, cp_type);
    json_object_set_new(root, "cp_type", json_string(cp_type));
    schema_choice_name(PRECISION_NAMES, question->setting.precision, precision);
    json_object_set_new(root, "precision", json_string(precision));
    if (model_has_experts(&question->model))
        json_object_set_new(root, "ep", json_integer(question->plan.ep));
    json_object_set_new(root, "input", json_of_pass(question, PASS_INPUT));
    json_object_set_new(root, "weight", json_of_pass(question, PASS_WEIGHT));
    json_object_set_new(root, "weight_bytes", json_real(weight_bytes(question)));
    command_print_json(root);
}

enum {
    KEY_SLICE = 0x100,
    KEY_PLATFORM,
    KEY_TP,
    KEY_SP,
    KEY_CP,
    KEY_CP_TYPE,
    KEY_EP,
    KEY_LAYERS,
    KEY_RECOMPUTE,
    KEY_ATTENTION,
    KEY_KERNELS,
    KEY_ACCUMULATION,
    KEY_EXPERT_GEMMS,
    KEY_PRECISION
};

static int64_t parse_degree(const char *text, const char *option, struct argp_state *state)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 1 << 15)
        argp_error(state, "--%s must be a whole number from 1 to 32768, is '%s'", option, text);
    return value;
}

static int32_t parse_choice(const char *text, const char *choices, const char *option, struct argp_state *state)
{
    int32_t choice = schema_choice(choices, text);
    if (choice < 0)
        argp_error(state, "--%s must be one of %s, is '%s'", option, choices, text);
    return choice;
}

static int32_t parse_recompute(const char *text, struct argp_state *state)
{
    int32_t recompute = RECOMPUTE_NONE;
    while (recompute <= RECOMPUTE_FULL && strcmp(scenario_recompute_name[recompute], text) != 0)
        recompute++;
    if (recompute > RECOMPUTE_FULL)
        argp_error(state,
                   "--recompute must be none, full or entries of norm, activation, attention-core, "
                   "alternate-gemms, mla-up-proj, moe-act, mlp, moe in this order joined by +, is '%s'",
                   text);
    return recompute;
}

/** Parse an option of the micro-batch's layout. */
static error_t parse_layout(int key, const char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_TP:
        arguments->tp = parse_degree(argument, "tp", state);
        return 0;
    case KEY_SP:
        arguments->sequence_parallel = parse_choice(argument, "off|on", "sequence-parallel", state);
        return 0;
    case KEY_CP:
        arguments->cp = parse_degree(argument, "cp", state);
        return 0;
    case KEY_CP_TYPE:
        arguments->cp_type = parse_choice(argument, SCENARIO_CONTEXT, "cp-type", state);
        return 0;
    case KEY_EP:
        arguments->ep = parse_degree(argument, "ep", state);
        return 0;
    case KEY_LAYERS:
        arguments->layers = parse_degree(argument, "layers", state);
        return 0;
    case KEY_RECOMPUTE:
        arguments->recompute = parse_recompute(argument, state);
        return 0;
    case KEY_ATTENTION:
        arguments->attention = parse_choice(argument, DEVICE_ATTENTION, "attention", state);
        return 0;
    case KEY_KERNELS:
        arguments->kernels = parse_choice(argument, KERNELS, "kernels", state);
        return 0;
    case KEY_ACCUMULATION:
        arguments->accumulation = parse_choice(argument, SCENARIO_ACCUMULATION, "gradient-accumulation", state);
        return 0;
    case KEY_PRECISION:
        arguments->precision = parse_choice(argument, PRECISION_NAMES, "precision", state);
        return 0;
    case KEY_EXPERT_GEMMS:
        arguments->expert_gemms = parse_choice(argument, DEVICE_EXPERT_GEMMS, "expert-gemms", state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {OPTION(json), {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        options_begin(&arguments->options, children, state);
        return 0;
    case 'm':
        arguments->model = argument;
        return 0;
    case 'd':
        arguments->device = argument;
        return 0;
    case KEY_PLATFORM:
        arguments->platform = argument;
        return 0;
    case KEY_SLICE:
        if (arguments->n_slices == MAX_SLICES)
            argp_error(state, "--slice occurs more than %d times", MAX_SLICES);
        arguments->slice[arguments->n_slices++] = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "no argument is allowed; '%s' is one; the model is --model NAME (-m)", argument);
        return 0;
    case ARGP_KEY_END:
        if (arguments->model == NULL || arguments->n_slices == 0)
            argp_error(state, "--model and --slice are needed");
        return 0;
    default:
        return parse_layout(key, argument, state);
    }
}

static const struct argp_option cost_options[] = {
    {"model", 'm', "NAME", 0, "Language model (needed)", 0},
    {"slice", KEY_SLICE, "BEGIN:END", 0,
     "Tokens of a sample (needed), such as 0:4096 or 64Ki:96Ki (may be repeated: one micro-batch of several slices)",
     0},
    {"device", 'd', "NAME", 0, "GPU (default: " DEFAULT_DEVICE ")", 0},
    {"platform", KEY_PLATFORM, "NAME", 0, "Cluster whose links are used (default: " DEFAULT_PLATFORM ")", 0},
    {"tp", KEY_TP, "N", 0, "Tensor-parallel degree (default: 1)", 0},
    {"sequence-parallel", KEY_SP, "off|on", 0, "Sequence parallelism beside tensor parallelism (default: on)", 0},
    {"cp", KEY_CP, "N", 0, "Context-parallel degree (default: 1)", 0},
    {"cp-type", KEY_CP_TYPE, "TYPE", 0, "Context parallelism, like plan.cp_type: " SCENARIO_CONTEXT " (default: ring)",
     0},
    {"ep", KEY_EP, "N", 0,
     "Expert-parallel degree, like plan.ep: a multiple or a divisor of --tp, and of --tp x --cp (default: 1)", 0},
    {"layers", KEY_LAYERS, "N", 0, "Layers of the stage (default: all)", 0},
    {"recompute", KEY_RECOMPUTE, "KIND", 0,
     "none, full or entries joined by +: norm, activation, attention-core, "
     "alternate-gemms, mla-up-proj, moe-act, mlp, moe (default: none)",
     0},
    {"attention", KEY_ATTENTION, "KERNEL", 0, "flash2, flash3, cudnn, flash1 or unfused (default: flash2)", 0},
    {"kernels", KEY_KERNELS, "KIND", 0, "Element-wise kernels: " KERNELS " (default: fused)", 0},
    {"expert-gemms", KEY_EXPERT_GEMMS, "KIND", 0,
     "GEMMs of experts, like expert_gemms: " DEVICE_EXPERT_GEMMS " (default: sequential)", 0},
    {"precision", KEY_PRECISION, "FORMAT", 0,
     "GEMMs of layers, like precision: " PRECISION_NAMES ", with delayed scales (default: bf16)", 0},
    {"gradient-accumulation", KEY_ACCUMULATION, "KIND", 0,
     "Sum of gradients, of a micro-batch that is not the first: " SCENARIO_ACCUMULATION " (default: fused)", 0},
    {0},
};
static const struct argp argp = {
    cost_options, parse, NULL, "Print FLOPs, bytes and seconds of a micro-batch of slices, kernel by kernel.",
    children,     NULL,  NULL};

int command_cost(int argc, char **argv)
{
    struct arguments arguments = {.tp = 1, .cp = 1, .ep = 1, .sequence_parallel = 1};
    struct question question = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    if (!read_question(&arguments, &question, &err))
        return command_fail(&err);
    if (arguments.options.json)
        print_json(&question);
    else
        print_text(&question);
    return EXIT_SUCCESS;
}
