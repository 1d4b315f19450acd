/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "validate/cause.h"
#include "validate/cell.h"
#include "validate/predict.h"

/** A row while it is read. */
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
    return measured_known(file->measured, file->row, column);
}

static double number(const struct file *file, const char *column)
{
    double value;
    measured_number(file->measured, file->row, column, &value, file->err);
    return value;
}

/** What the file's column `metric` means; false: it is none that can be predicted. */
static bool quantity_of(const struct file *file, enum validate_quantity *quantity)
{
    static const struct {
        const char *begin;
        enum validate_quantity quantity;
    } metrics[] = {
        {"max_memory_allocated", VALIDATE_ALLOCATED},      {"memory_allocated at step end", VALIDATE_STATES},
        {"max_memory_reserved", VALIDATE_RESERVED},        {"activations, first stage", VALIDATE_ACTIVATIONS},
        {"parameters + optimizer", VALIDATE_LAYER_STATES}, {"layer forward", VALIDATE_LAYER_FORWARD},
        {"layer backward", VALIDATE_LAYER_BACKWARD}};
    static const char prefix[] = "torch.cuda.";
    const char *metric = text(file, "metric");
    metric += strncmp(metric, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    *quantity = VALIDATE_THROUGHPUT;
    if (measured_column(file->measured, "metric") < 0 || (*metric == '\0' && *text(file, "fitted") != '\0'))
        return true;
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (strncmp(metric, metrics[i].begin, strlen(metrics[i].begin)) == 0) {
            *quantity = metrics[i].quantity;
            return true;
        }
    return false;
}

/** A formula without blanks and signs of multiplication. */
static void pack_formula(char *to, size_t room, const char *formula)
{
    size_t n = 0;
    for (; *formula != '\0' && n + 1 < room; formula++)
        if (strchr(" *", *formula) == NULL)
            to[n++] = *formula;
    to[n] = '\0';
}

/** Whether a formula stands in a packed cell and is not divided there. */
static bool has_formula(const char *packed, const char *formula)
{
    char wanted[96];
    pack_formula(wanted, sizeof wanted, formula);
    const char *at = strstr(packed, wanted);
    return at != NULL && at[strlen(wanted)] != '/';
}

/** Whether the words beside a formula take it back: attention that it counts in full is called halved, or work that it
 * leaves out is said to be counted. */
static bool is_taken_back(const struct file *file, double attention_flop)
{
    const struct cells cells = {.measured = file->measured, .row = file->row};
    return (attention_flop >= 12 && cell_says(&cells, "flops_formula", "half")) ||
           (attention_flop >= 12 && cell_says(&cells, "flops_formula", "halv")) ||
           cell_says(&cells, "flops_formula", "hardware") || cell_says(&cells, "flops_formula", "incl. recomp");
}

/**
 * Model FLOPs of a token: 6 for each weight of the layers' GEMMs and of the head, or for each parameter, and
 * attention_flop L h s; with heads_width heads times their width in place of h, where a source counts so (kv_channels x
 * num_attention_heads; d h; H Q), as others do not, whatever their models' heads. 0: the formula is none of these, or
 * the words beside it say something else. Source: 72BLsh^2 Korthikanti et al. 2022 (arXiv:2205.05198,
 * appendix A, whose layer has 12h^2 weights); get_flops huggingface/nanotron, src/nanotron/models/llama.py; the third
 * NVIDIA/dgxc-benchmarking; the fourth NVIDIA/Megatron-LM, megatron/training/training.py (core r0.8); N and S
 * mosaicml/llm-foundry, scripts/train/benchmarking/README.md; 12LHQT Chowdhery et al. 2022 (arXiv:2204.02311, appendix
 * B); the others Kaplan et al. 2020 (arXiv:2001.08361) with attention, all of it or its causal half.
 */
static double model_flop(const struct file *file, const struct setting *setting)
{
    static const struct {
        const char *text;
        double attention_flop;
        bool all_parameters, heads_width;
    } formulas[] = {{"72BLsh^2(1+s/6h", 12, false, false},
                    {"get_flops (full attention)", 12, false, false},
                    {"12*L*h^2*(1+g/a+s/h)+18*L*ffn*h+6*V*h", 12, false, false},
                    {"num_floating_point_operations (full attention", 12, false, true},
                    {"6N+12Lhs", 12, true, false},
                    {"6N+12LHQT", 12, true, true},
                    {"6N+6Lhs", 6, true, false},
                    {"3*2*N*S + 3*L*2*2*d*S^2", 12, true, false},
                    {"3*2*N*S + 3*L*4*d*S^2", 12, true, false},
                    {"6*N*tok + 6*s^2*d*h*L", 6, true, true}};
    const struct model *model = &setting->model;
    double h = (double)model->hidden, l = (double)model->layers;
    double gemms = l * (double)model_layer_parameters(model) + h * (double)model->vocabulary;
    char packed[512];
    pack_formula(packed, sizeof packed, text(file, "flops_formula"));
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (has_formula(packed, formulas[i].text) && !is_taken_back(file, formulas[i].attention_flop))
            return 6 * (formulas[i].all_parameters ? cost_stage_parameters(model, 1, (int32_t)l, true, true) : gemms) +
                   formulas[i].attention_flop * l * (formulas[i].heads_width ? (double)model_query_width(model) : h) *
                       (double)setting->seq_len;
    return 0;
}

/**
 * FLOPs of a token by the formula that a row counted its TFLOP/s with, 0: unknown. "96BsLh^2(1+s/6h+V/16Lh)": full
 * recomputation counted, GELU with f = 4h, attention not halved. Source: Narayanan et al. 2021 (arXiv:2104.04473),
 * section 5.1.
 */
static double formula_flop(const struct file *file, const struct setting *setting)
{
    double h = (double)setting->model.hidden, l = (double)setting->model.layers, s = (double)setting->seq_len;
    if (strstr(text(file, "flops_formula"), "96BsLh^2") == NULL)
        return model_flop(file, setting);
    return 96 * l * h * h * (1 + s / (6 * h) + (double)setting->model.vocabulary / (16 * l * h));
}

/** Say what makes a measurement doubtful, beside what the row leaves open. */
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

/** As number; behind a column that has one, a malformed cell is only doubtful. */
static double later_number(const struct file *file, const char *column, bool behind, struct setting *setting)
{
    double value;
    struct error err = {0};
    if (!behind || measured_number(file->measured, file->row, column, &value, &err))
        return number(file, column);
    doubt(setting, "%s '%.40s' is not a number", column, text(file, column));
    return 0;
}

/** Tokens a second and GPU as the row's columns make them, in the order in which they are believed; 0: none. */
static double measured_throughput(const struct file *file, struct setting *setting)
{
    enum { N_COLUMNS = 4, N_COMPARED = 3 };
    static const char *const columns[N_COLUMNS] = {"tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu"};
    double gpus = (double)setting->n_gpus, told[N_COLUMNS] = {0};
    double flop = formula_flop(file, setting);
    bool behind = false;
    for (int i = 0; i < (flop > 0 ? N_COLUMNS : N_COMPARED); i++) {
        told[i] = later_number(file, columns[i], behind, setting);
        behind = behind || told[i] > 0;
    }
    const double values[N_COLUMNS] = {
        told[0], told[1] / gpus, told[2] > 0 ? (double)(setting->global_batch * setting->seq_len) / told[2] / gpus : 0,
        flop > 0 ? told[3] * 1e12 / flop : 0};
    int first = 0;
    while (first < N_COLUMNS - 1 && values[first] == 0)
        first++;
    for (int i = first + 1; i < N_COMPARED; i++)
        if (values[i] > 0 && fabs(values[i] / values[first] - 1) > 0.05)
            doubt(setting, "%s taken: %.5g tokens/s/GPU, though %s gives %.5g", columns[first], values[first],
                  columns[i], values[i]);
    return values[first];
}

/** A run beyond the device's peak, or below 0.5% of it, is a number in another unit or of all GPUs. */
static void doubt_implausible(struct setting *setting, const struct device *device, const struct validate_row *row)
{
    const struct model *model = &setting->model;
    double gemms = (double)(model->layers * model_layer_parameters(model) + model->hidden * model->vocabulary);
    double share = row->measured * 6 * gemms / device->peak_flop_per_s;
    if (row->quantity == VALIDATE_THROUGHPUT && (share > 1 || share < 0.005))
        doubt(setting, "measured %.5g tokens/s/GPU would be %.2g%% of the device's peak", row->measured, 100 * share);
}

/** Of which ranks the column `ranks` tells: the last stage's, the first one's, else the fullest of all. */
enum ranks { RANKS_ALL, RANKS_FIRST, RANKS_LAST };

static enum ranks ranks_of(const struct file *file)
{
    const char *ranks = text(file, "ranks");
    if (strcasestr(ranks, "last") != NULL)
        return RANKS_LAST;
    return strcasestr(ranks, "rank 0") != NULL || strcasestr(ranks, "first") != NULL ? RANKS_FIRST : RANKS_ALL;
}

/** Whether a memory is a mean of ranks, or the least of them. */
static bool is_mean(const struct file *file)
{
    static const char *const words[] = {"mean", "average", "avg", "median", "least", "min ", "minimum"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(text(file, "ranks"), words[i]) != NULL)
            return true;
    return strcasecmp(text(file, "ranks"), "min") == 0;
}

/** A simulation that fails is a row that is skipped. */
static void simulate(const struct setting *setting, const struct device *device, enum ranks ranks,
                     struct validate_row *result)
{
    struct predict_result predicted = {0};
    struct error err = {0};
    if (setting->global_batch == 0)
        snprintf(result->reason, sizeof result->reason, "gbs is missing");
    else if (!predict_run(setting, device, &predicted, &err))
        snprintf(result->reason, sizeof result->reason, "simulation: %.150s",
                 err.text + strspn(err.text, ": ")); /* before which the scenario's file stands, here none */
    if (result->reason[0] != '\0')
        return;
    double bytes = ranks == RANKS_LAST    ? predicted.last_stage_bytes
                   : ranks == RANKS_FIRST ? predicted.first_stage_bytes
                                          : predicted.peak_bytes;
    result->predicted = result->quantity == VALIDATE_THROUGHPUT ? predicted.tokens_per_s_per_gpu
                        : result->quantity == VALIDATE_FITTED   ? predicted.misfit == EXCEEDED_NONE
                                                                : bytes;
    result->peak_bytes = predicted.peak_bytes;
    result->memory_bytes = predicted.memory_bytes;
    result->misfit = predicted.misfit;
}

/** Everything of a row but measured and predicted. */
static void name_row(const struct file *file, struct validate_row *result)
{
    *result = (struct validate_row){.calibration = strcmp(text(file, "split"), "calib") == 0,
                                    .n_gpus = (int64_t)number(file, "n_gpus")};
    copy_text(result->id, sizeof result->id, text(file, "id"), "");
    copy_text(result->source, sizeof result->source, text(file, "source"), "@ ,(");
    copy_text(result->model, sizeof result->model, text(file, "model"), "");
    copy_text(result->trust, sizeof result->trust, text(file, "trust"), " ");
    static const char *const degrees[][2] = {{"tp", "TP"},  {"pp", " PP"},     {"vpp", " VPP"}, {"cp", " CP"},
                                             {"dp", " DP"}, {"seq_len", " s"}, {"mbs", " mbs"}, {"gbs", " gbs"}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (*text(file, degrees[i][0]) != '\0' && used < sizeof result->plan)
            used += (size_t)snprintf(result->plan + used, sizeof result->plan - used, "%s%s", degrees[i][1],
                                     text(file, degrees[i][0]));
}

static void predict(const struct file *file, const struct setting *setting, const struct device *device,
                    struct validate_row *result)
{
    enum ranks ranks = ranks_of(file);
    bool of_layers = result->quantity == VALIDATE_ACTIVATIONS || result->quantity >= VALIDATE_LAYER_FORWARD;
    if (of_layers && setting->plan.recompute_layers > 0)
        snprintf(result->reason, sizeof result->reason, "recomputation of some layers has no model for this metric");
    else if (result->quantity != VALIDATE_THROUGHPUT && result->quantity != VALIDATE_FITTED && is_mean(file))
        snprintf(result->reason, sizeof result->reason, "ranks '%.60s': means of ranks have no model",
                 text(file, "ranks"));
    else if (result->quantity == VALIDATE_STATES)
        result->predicted = predict_state_bytes(setting, device, ranks == RANKS_LAST);
    else if (result->quantity == VALIDATE_LAYER_STATES)
        result->predicted = predict_layer_state_bytes(setting);
    else if (result->quantity == VALIDATE_ACTIVATIONS)
        result->predicted = predict_activation_bytes(setting);
    else if (result->quantity >= VALIDATE_LAYER_FORWARD)
        result->predicted =
            predict_layer_s(setting, device, result->quantity == VALIDATE_LAYER_FORWARD ? PASS_FORWARD : PASS_BACKWARD);
    else
        simulate(setting, device, ranks, result);
    if (result->reason[0] == '\0')
        result->error = result->quantity == VALIDATE_FITTED ? result->predicted - result->measured
                                                            : result->predicted / result->measured - 1;
}

/** What the column `fitted` adds: it is what is compared if the row gives nothing else. */
static void read_fitted(const struct file *file, struct validate_row *result)
{
    const char *fitted = text(file, "fitted");
    if (*fitted == '\0')
        return;
    result->ran_out = strcasecmp(fitted, "no") == 0;
    if (!result->ran_out && strcasecmp(fitted, "yes") != 0)
        snprintf(result->reason, sizeof result->reason, "fitted '%.60s' is neither yes nor no", fitted);
    else if (result->ran_out && result->measured > 0)
        snprintf(result->reason, sizeof result->reason, "fitted is no, though the row has a measured value");
    if (result->measured > 0)
        return;
    result->quantity = VALIDATE_FITTED;
    result->measured = !result->ran_out;
}

bool row_read(const struct measured *measured, int32_t row, const struct setting_tables *tables,
              struct setting *setting, struct validate_row *result, struct error *err)
{
    struct file file = {.measured = measured, .row = row, .err = err};
    name_row(&file, result);
    if (!quantity_of(&file, &result->quantity))
        snprintf(result->reason, sizeof result->reason, "metric '%.100s' cannot be compared", text(&file, "metric"));
    if (result->reason[0] == '\0')
        setting_of_row(measured, row, tables, setting, result->reason, err);
    if (err->status != ERROR_NONE || result->reason[0] != '\0')
        return err->status == ERROR_NONE;
    bool throughput = result->quantity == VALIDATE_THROUGHPUT, time = result->quantity >= VALIDATE_LAYER_FORWARD;
    result->measured = throughput ? measured_throughput(&file, setting)
                       : time     ? number(&file, "value_ms") / 1e3
                                  : number(&file, "value_bytes");
    read_fitted(&file, result);
    if (result->measured == 0 && result->quantity != VALIDATE_FITTED)
        snprintf(result->reason, sizeof result->reason, "%s",
                 throughput ? "no tps_per_gpu, tokens_per_s, step_time_s, nor tflops_per_gpu of a known formula"
                 : time     ? "value_ms is missing"
                            : "value_bytes is missing");
    return err->status == ERROR_NONE;
}

bool row_predict(const struct measured *measured, int32_t row, const struct setting_tables *tables,
                 struct validate_row *result, struct error *err)
{
    struct file file = {.measured = measured, .row = row, .err = err};
    struct setting setting;
    struct device device;
    if (!row_read(measured, row, tables, &setting, result, err))
        return false;
    if (result->reason[0] != '\0')
        return true;
    if (!device_read(scenario_data_dir(), setting.device, &device, err))
        return false;
    doubt_implausible(&setting, &device, result);
    predict(&file, &setting, &device, result);
    copy_text(result->assumed, sizeof result->assumed, setting.assumed, "");
    copy_text(result->device, sizeof result->device, setting.device, "");
    copy_text(result->cause, sizeof result->cause, cause_of(&tables->causes, measured, row), "");
    return true;
}
