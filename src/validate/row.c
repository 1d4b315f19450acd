/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cost/states.h"
#include "document/schema_text.h"
#include "validate/predict.h"

const char *const validate_kind_names[VALIDATE_N_KINDS] = {
    "", "fp8", "experts", "experts in fp8", "blackwell", "experts on blackwell"};

/** A row that is being read. */
struct file {
    const struct measured *measured;
    int32_t row;
    struct error *err;
};

static void copy_text(char *to, size_t room, const char *from, const char *until)
{
    snprintf(to, room, "%.*s", (int)strcspn(from, until), from);
}

static const char *text(const struct file *file, const char *column)
{
    return measured_text(file->measured, file->row, column);
}

static double number(const struct file *file, const char *column)
{
    double value;
    measured_number(file->measured, file->row, column, &value, file->err);
    return value;
}

/** Return the index of a cell's word among some words. An empty cell means the first one. Any other word is a line of
 * err. */
static int32_t choice(const struct file *file, const char *column, const char *choices)
{
    const char *word = text(file, column);
    int32_t i = *word == '\0' ? 0 : schema_choice(choices, word);
    if (i < 0)
        error_add(file->err, "%s:%d: %s: '%.100s' is not allowed; allowed: %s", file->measured->path,
                  (int)file->measured->lines[file->row], column, word, choices);
    return i < 0 ? 0 : i;
}

/** Return the meaning of the column `metric`. An empty cell means training throughput. */
static enum validate_quantity quantity_of(const struct file *file)
{
    static const char metrics[] = "throughput|max_memory_allocated|static-state|max_memory_reserved|"
                                  "activation-formula|state-formula|layer-forward|layer-backward|replayed-span";
    static const enum validate_quantity quantities[] = {
        VALIDATE_THROUGHPUT,   VALIDATE_ALLOCATED,     VALIDATE_STATES,         VALIDATE_RESERVED, VALIDATE_ACTIVATIONS,
        VALIDATE_LAYER_STATES, VALIDATE_LAYER_FORWARD, VALIDATE_LAYER_BACKWARD, VALIDATE_SPAN};
    return quantities[choice(file, "metric", metrics)];
}

/**
 * Return the FLOPs of a token by the formula that a row's TFLOP/s use; 0: unknown.
 * 1. A formula counts 6 for each weight of the layers' GEMMs and of the head (gemms), or for each parameter (6N). With
 *    experts those that compute a token count.
 * 2. It adds a number times L h s. With q in place of h, it uses the width of all heads.
 * 3. "96BsLh^2" counts full recomputation, GELU with f = 4h, and all of attention: 96 L h^2 (1 + s/6h + V/16Lh).
 *
 * Sources: flops_formula in model/validation/dictionary.csv.
 */
static double formula_flop(const struct file *file, const struct setting *setting)
{
    static const struct {
        double attention_flop;
        bool all_parameters, heads_width;
    } formulas[] = {{0, false, false}, {12, false, false}, {12, false, true}, {12, true, false}, {12, true, true},
                    {6, true, false},  {6, true, true},    {6, false, true},  {0, false, false}};
    enum { NONE, SC21 = sizeof formulas / sizeof *formulas - 1 };
    int32_t i = choice(file, "flops_formula",
                       "none|gemms+12Lhs|gemms+12Lqs|6N+12Lhs|6N+12Lqs|6N+6Lhs|6N+6Lqs|gemms+6Lqs|96BsLh^2");
    const struct model *model = &setting->scenario.model;
    double h = (double)model->hidden, l = (double)model->layers, s = (double)setting->scenario.data.context;
    const struct flop_model of = flop_model_of(model);
    if (i == NONE)
        return 0;
    if (i == SC21)
        return 96 * l * h * h * (1 + s / (6 * h) + (double)model->vocabulary / (16 * l * h));
    return 6 * (formulas[i].all_parameters ? cost_model_active_parameters(model) : of.parameters) +
           formulas[i].attention_flop * (formulas[i].heads_width ? of.width : l * h) * s;
}

/** Add a reason to doubt a measurement to the row's assumptions. */
__attribute__((format(printf, 2, 3))) static void doubt(struct setting *setting, const char *format, ...)
{
    size_t used = strlen(setting->assumed);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0)
        used += (size_t)snprintf(setting->assumed + used, sizeof setting->assumed - used, "; ");
    if (used < sizeof setting->assumed)
        vsnprintf(setting->assumed + used, sizeof setting->assumed - used, format, arguments);
    va_end(arguments);
}

/** Return the tokens a second and GPU that the row's columns give; 0: none. Their order is that of their reliability.
 * If lengths vary, a step counts as one token until it is simulated. */
static double measured_throughput(const struct file *file, struct setting *setting)
{
    enum { N_COLUMNS = 4, N_COMPARED = 3 };
    static const char *const columns[N_COLUMNS] = {"tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu"};
    const struct scenario_data *data = &setting->scenario.data;
    double gpus = platform_n_gpus(&setting->scenario.platform), told[N_COLUMNS] = {0};
    double flop = formula_flop(file, setting), tokens = (double)(data->global_batch * data->context);
    for (int i = 0; i < N_COLUMNS; i++)
        told[i] = number(file, columns[i]);
    const double values[N_COLUMNS] = {told[0], told[1] / gpus,
                                      told[2] > 0 ? (setting->varies ? 1 : tokens) / told[2] / gpus : 0,
                                      flop > 0 ? told[3] * 1e12 / flop : 0};
    int first = 0;
    while (first < N_COLUMNS - 1 && values[first] == 0)
        first++;
    for (int i = first + 1; i < N_COMPARED && !setting->varies; i++)
        if (values[i] > 0 && fabs(values[i] / values[first] - 1) > 0.05)
            doubt(setting, "%s is used: %.5g tokens/s/GPU, though %s gives %.5g", columns[first], values[first],
                  columns[i], values[i]);
    return values[first];
}

/** Doubt a run above the device's peak, or below 0.5% of it. Its number is in another unit or counts all GPUs. */
static void doubt_implausible(struct setting *setting, const struct device *device, const struct validate_row *row)
{
    const struct model *model = &setting->scenario.model;
    double share = row->measured * 6 * flop_model_of(model).parameters / device->peak_flop_per_s[PRECISION_BF16];
    if (row->quantity == VALIDATE_THROUGHPUT && (share > 1 || share < 0.005))
        doubt(setting, "measured %.5g tokens/s/GPU would be %.2g%% of the device's peak", row->measured, 100 * share);
}

/** Doubt a row if its sizes give more than 10% more or fewer parameters than it says, params_b. */
static void doubt_parameters(const struct file *file, struct setting *setting)
{
    const struct model *model = &setting->scenario.model;
    double stated = number(file, "params_b"), made = cost_model_parameters(model) / 1e9;
    if (stated > 0 && fabs(made - stated) > 0.1 * stated)
        doubt(setting, "params_b is %s, though the sizes give %.2f", text(file, "params_b"), made);
}

/** Ranks whose memory a row gives: the fullest rank, the first stage, or the last stage. */
enum ranks { RANKS_ALL, RANKS_FIRST, RANKS_LAST };

static enum ranks ranks_of(const struct file *file)
{
    return (enum ranks)choice(file, "ranks", "all|first|last");
}

/** Skip a row that ran if it does not say what it recomputes, and nothing cannot have been it. */
static void skip_unknown(const struct file *file, const struct predict_result *predicted, struct validate_row *result)
{
    if (*text(file, "plan.recompute") != '\0' || result->ran_out || predicted->exceeded_limit == EXCEEDED_NONE)
        return;
    snprintf(result->reason, sizeof result->reason,
             "plan.recompute is not given, and none does not fit: %.3g of %.3g GiB (%s %+.1f%% off)",
             predicted->peak_bytes / 0x1p30, predicted->memory_bytes / 0x1p30,
             result->quantity == VALIDATE_THROUGHPUT ? "tokens/s" : "memory",
             100 * (result->predicted / result->measured - 1));
}

/** Simulate a row. If the simulation fails, the row is skipped. */
static void simulate(const struct file *file, const struct setting *setting, const struct device *device,
                     enum ranks ranks, struct validate_row *result)
{
    struct predict_result predicted = {0};
    struct error err = {0};
    if (!predict_run(setting, device, &predicted, &err))
        snprintf(result->reason, sizeof result->reason, "simulation: %.150s",
                 err.text +
                     strspn(err.text, ": ")); /* the message begins with the scenario's file, which is empty here */
    if (result->reason[0] != '\0')
        return;
    if (result->quantity == VALIDATE_SPAN) { /* the model of such a row is not known, so neither is its memory */
        result->predicted = predicted.time_s;
        return;
    }
    double bytes = ranks == RANKS_LAST    ? predicted.last_stage_bytes
                   : ranks == RANKS_FIRST ? predicted.first_stage_bytes
                                          : predicted.peak_bytes;
    result->predicted = result->quantity == VALIDATE_THROUGHPUT ? predicted.tokens_per_s_per_gpu
                        : result->quantity == VALIDATE_FITTED   ? predicted.exceeded_limit == EXCEEDED_NONE
                                                                : bytes;
    if (setting->varies && result->quantity == VALIDATE_THROUGHPUT && *text(file, "tps_per_gpu") == '\0' &&
        *text(file, "tokens_per_s") == '\0')
        result->measured *= predicted.tokens;
    result->peak_bytes = predicted.peak_bytes;
    result->memory_bytes = predicted.memory_bytes;
    result->exceeded_limit = predicted.exceeded_limit;
    result->tight = predicted.tight;
    skip_unknown(file, &predicted, result);
}

/** Fill in everything of a row except measured and predicted. */
static void name_row(const struct file *file, struct validate_row *result)
{
    const char *model = *text(file, "model.name") != '\0' ? "model.name" : "model";
    *result = (struct validate_row){.calibration = strcmp(text(file, "split"), "calib") == 0};
    copy_text(result->id, sizeof result->id, text(file, "id"), "");
    copy_text(result->framework, sizeof result->framework, text(file, "framework"), "");
    copy_text(result->group, sizeof result->group, text(file, "group"), "");
    copy_text(result->pair, sizeof result->pair, text(file, "pair"), "");
    result->varies = *text(file, "system") != '\0';
    copy_text(result->source, sizeof result->source, text(file, "source"), "@ ,(");
    copy_text(result->model, sizeof result->model, text(file, model), "");
    copy_text(result->trust, sizeof result->trust, text(file, "trust"), " ");
    copy_text(result->reason, sizeof result->reason, text(file, "skip"), "");
    static const char *const keys[][2] = {
        {"plan.tp", "TP"},      {"plan.pp", " PP"},      {"plan.vpp", " VPP"},
        {"plan.cp", " CP"},     {"plan.ep", " EP"},      {"plan.dp", " DP"},
        {"data.context", " s"}, {"micro_batch", " mbs"}, {"data.global_batch", " gbs"},
        {"system", " "}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (*text(file, keys[i][0]) != '\0' && used < sizeof result->plan)
            used += (size_t)snprintf(result->plan + used, sizeof result->plan - used, "%s%s", keys[i][1],
                                     text(file, keys[i][0]));
}

static void predict(const struct file *file, const struct setting *setting, const struct device *device,
                    struct validate_row *result)
{
    enum ranks ranks = ranks_of(file);
    bool layer = result->quantity == VALIDATE_LAYER_FORWARD || result->quantity == VALIDATE_LAYER_BACKWARD;
    bool of_layers = result->quantity == VALIDATE_ACTIVATIONS || layer;
    if (of_layers && setting->plan.recompute_layers > 0)
        snprintf(result->reason, sizeof result->reason, "recomputation of some layers has no model for this metric");
    else if (result->quantity == VALIDATE_STATES)
        result->predicted = predict_state_bytes(setting, device, ranks == RANKS_LAST);
    else if (result->quantity == VALIDATE_LAYER_STATES)
        result->predicted = predict_layer_state_bytes(setting);
    else if (result->quantity == VALIDATE_ACTIVATIONS)
        result->predicted = predict_activation_bytes(setting);
    else if (layer)
        result->predicted =
            predict_layer_s(setting, device, result->quantity == VALIDATE_LAYER_FORWARD ? PASS_FORWARD : PASS_BACKWARD);
    else
        simulate(file, setting, device, ranks, result);
    if (result->reason[0] == '\0')
        result->error = result->quantity == VALIDATE_FITTED ? result->predicted - result->measured
                                                            : result->predicted / result->measured - 1;
    if (!isfinite(result->error))
        snprintf(result->reason, sizeof result->reason, "measured %g is too small to be compared", result->measured);
}

/** Read the column `fitted`. It is compared if the row gives nothing else. */
static void read_fitted(const struct file *file, struct validate_row *result)
{
    enum { YES, NO };
    int32_t fitted = choice(file, "fitted", "yes|no");
    result->ran_out = fitted == NO;
    if (result->ran_out && result->measured > 0)
        error_add(file->err, "%s:%d: fitted: no is not allowed in a row with a measured value", file->measured->path,
                  (int)file->measured->lines[file->row]);
    if (*text(file, "fitted") == '\0' || result->measured > 0)
        return;
    result->quantity = VALIDATE_FITTED;
    result->measured = fitted == YES;
}

/** Add the lines of a row's error to those of all rows. @return whether there are none */
static bool add_lines(struct error *err, struct error *own)
{
    char *rest = NULL;
    for (char *line = strtok_r(own->text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        error_add(err, "%s", line);
    return own->status == ERROR_NONE;
}

static enum validate_kind kind_of(const struct scenario *scenario)
{
    bool experts = model_has_experts(&scenario->model), fp8 = scenario->precision != PRECISION_BF16;
    if (device_is_blackwell(&scenario->device))
        return experts ? VALIDATE_EXPERTS_BLACKWELL : VALIDATE_BLACKWELL;
    return experts ? (fp8 ? VALIDATE_EXPERTS_FP8 : VALIDATE_EXPERTS) : fp8 ? VALIDATE_FP8 : VALIDATE_DENSE;
}

bool row_read(const struct measured *measured, int32_t row, struct setting *setting, struct validate_row *result,
              struct error *err)
{
    struct error own = {0};
    struct file file = {.measured = measured, .row = row, .err = &own};
    name_row(&file, result);
    double gpus = number(&file, "platform.nodes") * number(&file, "platform.gpus_per_node");
    result->n_gpus = gpus <= INT32_MAX ? (int64_t)gpus : 0;
    if (result->reason[0] != '\0')
        return true;
    own = (struct error){0};
    if (!setting_read(measured, row, setting, &own))
        return add_lines(err, &own);
    copy_text(result->reason, sizeof result->reason, setting->refusal, "");
    if (result->reason[0] != '\0')
        return true;
    result->quantity = quantity_of(&file);
    result->kind = kind_of(&setting->scenario);
    bool throughput = result->quantity == VALIDATE_THROUGHPUT, time = result->quantity >= VALIDATE_LAYER_FORWARD;
    doubt_parameters(&file, setting);
    result->measured = throughput ? measured_throughput(&file, setting)
                       : time     ? number(&file, "value_ms") / 1e3
                                  : number(&file, "value_bytes");
    ranks_of(&file);
    result->ratio_only = choice(&file, "compared", "all|ratio") > 0;
    read_fitted(&file, result);
    if (result->measured == 0 && result->quantity != VALIDATE_FITTED && own.status == ERROR_NONE)
        error_add(&own, "%s:%d: %s", measured->path, (int)measured->lines[row],
                  throughput ? "one of tps_per_gpu, tokens_per_s, step_time_s, fitted, or tflops_per_gpu with a "
                               "flops_formula is required"
                  : time     ? "value_ms: is required"
                             : "value_bytes: is required");
    return add_lines(err, &own);
}

bool row_predict(const struct measured *measured, int32_t row, const struct measured *causes, struct setting *setting,
                 struct validate_row *result, struct error *err)
{
    struct file file = {.measured = measured, .row = row, .err = err};
    struct device device;
    struct error unknown = {0};
    if (!device_read(scenario_data_dir(), setting->scenario.device_name, &device, &unknown))
        return error_add(err, "%s:%d: device: %s", measured->path, (int)measured->lines[row], unknown.text);
    predict(&file, setting, &device, result);
    doubt_implausible(setting, &device, result);
    copy_text(result->assumed, sizeof result->assumed, setting->assumed, "");
    copy_text(result->device, sizeof result->device, setting->scenario.device_name, "");
    copy_text(result->cause, sizeof result->cause, cause_of(causes, measured, row), "");
    return true;
}
