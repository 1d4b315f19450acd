/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/list_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text_table.h"
#include "capacity/question.h"
#include "cli/command.h"
#include "cost/flop.h"
#include "cost/states.h"
#include "document/document_read.h"
#include "document/library.h"
#include "document/schema_text.h"
#include "lengths/lengths.h"
#include "scenario/platform_keys.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

static const double giga = 1e9, tera = 1e12, gib = 1 << 30;
#define REFERENCE_MODEL "llama2-7b" /* whose FLOPs tell how heavy the tail of lengths is */

/** A list while it is made: what is printed, and the same rows as JSON. */
struct listing {
    bool json;
    struct text_table table;
    json_t *rows, *row;
};

static void add_entry(struct listing *listing, const char *key, const char *heading, json_t *value)
{
    if (json_array_size(listing->rows) == 1)
        text_table_column(&listing->table, heading, listing->table.n_columns == 0 ? "<" : "?");
    json_object_set_new(listing->row, key, value);
}

static void add_text(struct listing *listing, const char *key, const char *heading, const char *text)
{
    if (json_object_size(listing->row) == 0)
        json_array_append_new(listing->rows, listing->row);
    add_entry(listing, key, heading, json_string(text));
    text_table_cell(&listing->table, "%s", text);
}

/** Add a number. The table shows it in another unit. */
static void add_number(struct listing *listing, const char *key, const char *heading, double value, double unit,
                       int decimals)
{
    bool whole = unit == 1 && decimals == 0 && value == floor(value);
    add_entry(listing, key, heading, whole ? json_integer((json_int_t)value) : json_real(value));
    text_table_cell(&listing->table, "%.*f", decimals, value / unit);
}

/** Add the rows of the files in a folder of the data. `add` adds that of a file by its name. */
static bool add_files(const char *below, struct listing *listing,
                      bool (*add)(const char *name, struct listing *listing, struct error *err), struct error *err)
{
    size_t n;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", scenario_data_dir(), below);
    char **names = library_list(folder, ".yaml", &n);
    if (names == NULL)
        return error_set(err, "%s: cannot read this folder: %s", folder, strerror(errno));
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        listing->row = json_object();
        ok = ok && add(names[i], listing, err);
        free(names[i]);
    }
    free(names);
    return ok;
}

enum { CURVES = 512 };

/** Write each kind of layer: its layers, its name and the sizes in which it differs from the columns before. */
static void write_kinds(const struct model *model, char text[CURVES])
{
    int64_t n_layers[MODEL_MAX_KINDS];
    size_t used = 0;
    model_count_kinds(model, n_layers);
    text[0] = '\0';
    for (int32_t i = 0; i < MODEL_MAX_KINDS && n_layers[i] > 0; i++) {
        const struct model_kind *kind = &model->kinds[i], *first = &model->kinds[0];
        const struct {
            const char *before;
            int64_t size, usual;
            const char *behind;
        } sizes[] = {{"window ", kind->window, 0, ""},
                     {"ffn ", kind->ffn, first->ffn, ""},
                     {"", kind->experts, 0, " experts"},
                     {"top ", kind->top_k, 0, ""},
                     {"shared ffn ", kind->shared_ffn, 0, ""},
                     {"heads ", kind->heads, first->heads, ""},
                     {"kv heads ", kind->kv_heads, first->kv_heads, ""},
                     {"head width ", model_head_width(model, i), model_head_width(model, 0), ""},
                     {"kv_lora_rank ", kind->kv_lora_rank, i > 0 ? first->kv_lora_rank : 0, ""}};
        size_t begin = used;
        bool differs = false;
        used += (size_t)snprintf(text + used, CURVES - used, "%s%" PRId64 " %s", i > 0 ? ", " : "", n_layers[i],
                                 kind->name);
        if (model->n_runs == 0)
            used = begin + (size_t)snprintf(text + begin, CURVES - begin, "all");
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            if (sizes[k].size != sizes[k].usual) {
                used += (size_t)snprintf(text + used, CURVES - used, "%s%s%" PRId64 "%s", differs ? ", " : " (",
                                         sizes[k].before, sizes[k].size, sizes[k].behind);
                differs = true;
            }
        used += (size_t)snprintf(text + used, CURVES - used, "%s", differs ? ")" : "");
        if (model->n_runs == 0 && !differs)
            text[used = begin] = '\0';
        CHECK(used < CURVES);
    }
    if (model_has_experts(model))
        used +=
            (size_t)snprintf(text + used, CURVES - used, "; %.2fB active", cost_model_active_parameters(model) / giga);
    if (model->mtp_layers > 0)
        used += (size_t)snprintf(text + used, CURVES - used, "%s%" PRId64 " predict ahead", used > 0 ? ", " : "",
                                 model->mtp_layers);
    CHECK(used < CURVES);
}

static bool add_model(const char *name, struct listing *listing, struct error *err)
{
    struct model model;
    char kinds[CURVES];
    if (!model_read(scenario_data_dir(), name, &model, err))
        return false;
    const struct model_kind *kind = &model.kinds[0];
    add_text(listing, "model", "model", name);
    add_number(listing, "parameters", "parameters [B]", cost_model_parameters(&model), giga, 2);
    const struct {
        const char *key, *heading;
        int64_t size;
    } sizes[] = {{"layers", "layers", model.layers},
                 {"hidden", "hidden", model.hidden},
                 {"ffn", "ffn", kind->ffn},
                 {"heads", "heads", kind->heads},
                 {"kv_heads", "kv heads", kind->kv_heads},
                 {"head_width", "head width", model_head_width(&model, 0)},
                 {"vocabulary", "vocabulary", model.vocabulary}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_number(listing, sizes[i].key, sizes[i].heading, (double)sizes[i].size, 1, 0);
    write_kinds(&model, kinds);
    json_object_set_new(listing->row, "active_parameters", json_real(cost_model_active_parameters(&model)));
    json_object_set_new(listing->row, "kinds", json_string(kinds));
    return true;
}

/** Append a word to a list that is separated by ", ", unless it is there already. */
static void append_word(char list[CURVES], const char *word)
{
    size_t used = strlen(list), length = strlen(word);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",") + 2 * (strchr(at, ',') != NULL))
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return;
    snprintf(list + used, CURVES - used, "%s%s", used > 0 ? ", " : "", word);
}

/** Write whether the curves of a device's file were measured, or from which device they were copied, and the families
 * that are its own beside copied ones. */
static bool read_curves(const struct device *device, const char *path, char text[CURVES], char own[CURVES],
                        struct error *err)
{
    struct document document = {0};
    char measured[CURVES] = "", copied[CURVES] = "", from[CURVES] = "";
    *own = '\0';
    if (!document_read(path, &document, err))
        return false;
    int32_t fit = document_find(&document, 0, "fit");
    for (int32_t at = fit < 0 ? -1 : document.node[fit].child; at >= 0; at = document.node[at].next) {
        char group[SCHEMA_WORD_BYTES];
        const char *key = document.node[at].key;
        int32_t source = document_find(&document, at, "copied_from");
        snprintf(group, sizeof group, "%.*s", (int)strcspn(key, "."), key);
        append_word(source < 0 ? measured : copied, group);
        if (source >= 0 && document.node[source].kind == DOCUMENT_SCALAR)
            append_word(from, document.node[source].value);
    }
    document_free(&document);
    if (*copied == '\0')
        snprintf(text, CURVES, "%s", *measured != '\0' ? "measured" : "not told");
    else {
        snprintf(text, CURVES, "of %.64s, %s chip", from, device->own_curves ? "same" : "another");
        strcpy(own, measured);
    }
    return true;
}

/** Write the formats of fp8 that have a peak and a curve of GEMMs. */
static void write_fp8(const struct device *device, char text[CURVES])
{
    char word[SCHEMA_WORD_BYTES];
    *text = '\0';
    for (int32_t i = PRECISION_BF16 + 1; i < PRECISION_N_GEMM; i++)
        if (device->gemm[i].efficiency > 0) {
            schema_choice_name(PRECISION_NAMES, i, word);
            append_word(text, word);
        }
}

static bool add_device(const char *name, struct listing *listing, struct error *err)
{
    struct device device, whole;
    char path[1024], curves[CURVES], own[CURVES], fp8[CURVES];
    if (!device_read_sheet(scenario_data_dir(), name, &device, path, err))
        return false;
    device_follow_like(scenario_data_dir(), &device);
    if (!read_curves(&device, path, curves, own, err) || !device_read(scenario_data_dir(), name, &whole, err))
        return false;
    add_text(listing, "device", "device", name);
    add_number(listing, "memory_bytes", "memory [GiB]", device.memory_bytes, gib, 1);
    add_number(listing, "peak_flop_per_s", "TFLOP/s", device.peak_flop_per_s[PRECISION_BF16], tera, 0);
    add_number(listing, "hbm_bytes_per_s", "HBM [TB/s]", device.hbm_bytes_per_s, tera, 2);
    add_number(listing, "nvlink_bytes_per_s", "NVLink [GB/s]", device.nvlink_bytes_per_s, giga, 0);
    add_text(listing, "curves", "curves of kernels and links", curves);
    write_fp8(&whole, fp8);
    json_object_set_new(listing->row, "own_curves", json_string(own));
    json_object_set_new(listing->row, "fp8", json_string(fp8));
    return true;
}

static bool add_platform(const char *name, struct listing *listing, struct error *err)
{
    struct platform_keys keys;
    if (!platform_keys_of_name(scenario_data_dir(), name, &keys, err))
        return false;
    char word[SCHEMA_WORD_BYTES], text[SCHEMA_WORD_BYTES + 64];
    add_text(listing, "platform", "platform", name);
    snprintf(text, sizeof text, "%lld x %lld", (long long)keys.nodes, (long long)keys.gpus_per_node);
    add_text(listing, "nodes_x_gpus", "nodes x GPUs", text);
    add_number(listing, "nvlink_bytes_per_s", "NVLink [GB/s]", keys.nvlink_bytes_per_s, giga, 0);
    add_number(listing, "nic_bytes_per_s", "NIC [Gb/s]", keys.nic_bytes_per_s, giga / 8, 0);
    add_number(listing, "pcie_bytes_per_s", "PCIe [GB/s]", keys.pcie_bytes_per_s, giga, 0);
    add_number(listing, "host_memory_bytes", "host [GB]", keys.host_memory_bytes, giga, 0);
    schema_choice_name(PLATFORM_TOPOLOGIES, keys.topology, word);
    snprintf(text, sizeof text, "%s, leaf of %lld", word, (long long)keys.leaf);
    add_text(listing, "topology", "topology", text);
    int64_t domain = keys.nvlink_domain > 0 ? keys.nvlink_domain : keys.gpus_per_node;
    json_object_set_new(listing->row, "nvlink_domain", json_integer(domain));
    *text = '\0';
    if (domain != keys.gpus_per_node)
        snprintf(text, sizeof text, "%lld GPUs, %lld nodes", (long long)domain,
                 (long long)(domain / keys.gpus_per_node));
    json_object_set_new(listing->row, "joined_nodes", json_string(text));
    return true;
}

/** Return the quantile of whole documents [tokens]. */
static double quantile(const struct lengths *lengths, double p)
{
    return lengths->kind == LENGTHS_LAW ? law_quantile(&lengths->law, p) : table_quantile(&lengths->table, p);
}

/** Return the share of forward FLOPs in the longest 5% of documents, by quantiles at equal steps. */
static double tail_share(const struct lengths *lengths, struct flop_curve layer)
{
    enum { STEPS = 100000, TAIL = 95000 };
    double all = 0, tail = 0;
    for (int i = 0; i < STEPS; i++) {
        double tokens = quantile(lengths, (i + 0.5) / STEPS);
        double flop = (double)layer.q * tokens * tokens + (double)layer.l * tokens;
        all += flop;
        tail += i >= TAIL ? flop : 0;
    }
    return tail / all;
}

static bool add_lengths(const char *name, struct listing *listing, struct error *err)
{
    struct model model;
    struct lengths lengths = {0};
    struct scenario_data data = {.length_scale = 1, .context = 1 << 20, .global_batch = 1};
    snprintf(data.lengths, sizeof data.lengths, "%s", name);
    if (!model_read(scenario_data_dir(), REFERENCE_MODEL, &model, err) ||
        !lengths_open(&data, scenario_data_dir(), &lengths, err))
        return false;
    add_text(listing, "lengths", "lengths", name);
    add_number(listing, "mean_tokens", "mean", lengths_mean(&lengths), 1, 0);
    add_number(listing, "median_tokens", "median", quantile(&lengths, 0.5), 1, 0);
    add_number(listing, "p95_tokens", "95%", quantile(&lengths, 0.95), 1, 0);
    add_number(listing, "longest_tokens", "longest", quantile(&lengths, 1 - 1e-12), 1, 0);
    add_number(listing, "tail_flop_share", "FLOPs in the longest 5% [%]",
               tail_share(&lengths, flop_model_curve(&model, PASS_FORWARD)), 0.01, 1);
    lengths_close(&lengths);
    return true;
}

/* Settings in which frameworks differ most. */
static const struct {
    const char *head, *key;
} settings[] = {
    {"attention", "attention"},
    {"kernels", "kernels"},
    {"loss", "loss"},
    {"tp_overlap", "communication.tp_overlap"},
    {"dp_overlap", "communication.dp_overlap"},
    {"sharding", "plan.sharding"},
    {"gradients", "plan.gradients"},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/** Return the value of a key, or NULL if the framework leaves it out. */
static const char *value_of(const struct framework *framework, const char *key)
{
    for (int32_t i = 0; i < framework->n_values; i++)
        if (strcmp(framework->values[i].key, key) == 0 && *framework->values[i].text != '\0')
            return framework->values[i].text;
    return NULL;
}

static bool add_framework(const char *name, struct listing *listing, struct error *err)
{
    struct framework framework, base;
    if (!scenario_framework(name, &framework, err) || !scenario_framework(FRAMEWORK_BASE, &base, err))
        return false;
    add_text(listing, "framework", "framework", name);
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *own = value_of(&framework, settings[i].key), *left_out = value_of(&base, settings[i].key);
        add_text(listing, settings[i].key, settings[i].head, own != NULL ? own : left_out);
    }
    json_t *values = json_array();
    for (int32_t i = 0; i < framework.n_values; i++) {
        const struct framework_value *value = &framework.values[i];
        if (*value->text != '\0')
            json_array_append_new(
                values, json_pack("{s:s, s:s, s:s}", "key", value->key, "value", value->text, "source", value->source));
    }
    if (framework.selective != RECOMPUTE_NONE)
        json_array_append_new(values, json_pack("{s:s, s:s, s:s}", "key", "selective", "value",
                                                scenario_recompute_name[framework.selective], "source",
                                                framework.selective_source));
    json_object_set_new(listing->row, "source", json_string(framework.source));
    json_object_set_new(listing->row, "values", values);
    return true;
}

/** Print below a table a text of the rows that have it. `name` and `key` are keys of a row. */
static void print_below(const struct listing *listing, const char *name, const char *key, const char *heading)
{
    size_t i;
    json_t *row;
    int n = 0;
    json_array_foreach(listing->rows, i, row)
    {
        const char *of, *text;
        json_unpack(row, "{s:s, s:s}", name, &of, key, &text);
        if (*text != '\0')
            printf("%s%s%s  %s: %s\n", n == 0 ? "\n" : "", n == 0 ? heading : "", n == 0 ? ":\n" : "", of, text);
        n += *text != '\0';
    }
}

/** Print the values of frameworks with their sources. */
static void print_frameworks(const struct listing *listing)
{
    size_t i, k;
    json_t *row, *value;
    json_array_foreach(listing->rows, i, row)
    {
        const char *name, *source, *key, *text;
        json_unpack(row, "{s:s, s:s}", "framework", &name, "source", &source);
        printf("%s%s\n  source: %s\n", i == 0 ? "\n" : "", name, source);
        json_array_foreach(json_object_get(row, "values"), k, value)
        {
            json_unpack(value, "{s:s, s:s, s:s}", "key", &key, "value", &text, "source", &source);
            printf("  %s: %s%s%s\n", key, text, *source != '\0' ? "  # " : "", source);
        }
    }
}

static void list_visit_key(void *keys, const char *const text[SCHEMA_N_COLUMNS])
{
    json_t *row = json_object();
    for (int c = 0; c < SCHEMA_N_COLUMNS; c++)
        json_object_set_new(row, schema_column_name[c], json_string(text[c]));
    json_array_append_new(keys, row);
}

static void add_system(const struct training_system *system, struct listing *listing)
{
    static const char *const degrees[] = {"TP", "PP", "CP"}, *const decisions[] = {"recompute", "offload"};
    struct document document = {0};
    struct error none = {0};
    void *knobs = check_calloc(1, system->knobs_size + 1);
    CHECK(schema_read(&document, -1, system->knobs, system->n_knobs, NULL, knobs, &none));
    const struct scenario_plan layout = {.offload_mode = SCENARIO_OFFLOAD_AUTO};
    unsigned decides = system_decides(system, knobs, &layout);
    free(knobs);
    char taken[CURVES] = "", decided[CURVES] = "";
    for (int i = 0; i < 3; i++)
        if (system->degrees & 1U << i)
            snprintf(taken + strlen(taken), sizeof taken - strlen(taken), "%s%s", *taken != '\0' ? " " : "",
                     degrees[i]);
    if (system->degrees & SYSTEM_EP_IN_PIPELINE) /* in brackets: only among the GPUs of a pipeline's stage */
        snprintf(taken + strlen(taken), sizeof taken - strlen(taken), " %s",
                 (system->degrees & SYSTEM_EP) == SYSTEM_EP ? "EP" : "(EP)");
    for (int i = 0; i < 2; i++)
        if (decides & 1U << i)
            append_word(decided, decisions[i]);
    char meaning[CURVES];
    snprintf(meaning, sizeof meaning, "%.*s", (int)strcspn(system->meaning, ",:;"), system->meaning);
    listing->row = json_object();
    add_text(listing, "system", "system", system->name);
    add_text(listing, "degrees", "degrees", *taken != '\0' ? taken : "DP only");
    add_text(listing, "decides", "decides itself", *decided != '\0' ? decided : "-");
    add_text(listing, "meaning", "meaning", meaning);
    struct schema_listing knobs_list = {.visit = list_visit_key, .context = json_array()};
    schema_list(&knobs_list, system->knobs, system->n_knobs, "knobs.");
    json_object_set_new(listing->row, "meaning", json_string(system->meaning));
    json_object_set_new(listing->row, "source", json_string(system->source));
    json_object_set_new(listing->row, "knobs", knobs_list.context);
}

static void print_systems(void)
{
    const struct schema_listing listing = {.file = stdout};
    for (int i = 0; training_systems[i] != NULL; i++) {
        const struct training_system *system = training_systems[i];
        printf("%s%s: %s\n  source: %s\n", i == 0 ? "\n" : "", system->name, system->meaning, system->source);
        if (system->n_knobs > 0)
            schema_list(&listing, system->knobs, system->n_knobs, "  knobs.");
        else
            puts("  no knobs");
    }
}

/** Add the keys of scenarios, their prose in `file`. */
static bool list_keys(const struct schema_listing *listing, struct error *err)
{
    if (!scenario_list_keys(listing, err))
        return false;
    fputs("\n`capacity:` asks what to buy (slimsim capacity). An offer also takes device, platform, precision, power, "
          "price and\n"
          "reliability:\n\n",
          listing->file);
    question_list_keys(listing);
    return true;
}

/** Print the keys, or all of them as JSON without the prose. */
static bool print_keys(struct listing *listing, struct error *err)
{
    char *prose = NULL;
    size_t n_bytes;
    struct schema_listing keys = {.file = stdout};
    if (!listing->json)
        return list_keys(&keys, err);
    keys = (struct schema_listing){check_memstream(&prose, &n_bytes), list_visit_key, listing->rows};
    bool ok = list_keys(&keys, err);
    CHECK(fclose(keys.file) == 0);
    free(prose);
    return ok;
}

/* The files of a list, and the sentence below its table. */
static const struct {
    const char *name, *folder;
    bool (*add)(const char *name, struct listing *listing, struct error *err);
    const char *note;
} lists[] = {
    {"models", "model/llm", add_model, NULL},
    {"devices", "model/gpu", add_device, "TFLOP/s are the peak of dense bf16. NVLink is that of one direction."},
    {"platforms", "platforms", add_platform,
     "Bandwidths are those of a GPU in one direction. NAME-4x8 has 4 nodes of 8 GPUs instead."},
    {"frameworks", "model/framework", add_framework, NULL},
    {"lengths", "model/lengths", add_lengths,
     "Tokens of whole documents, before data.context cuts them; forward FLOPs of " REFERENCE_MODEL "."},
    {"systems", NULL, NULL, NULL},
    {"keys", NULL, NULL, NULL},
};
enum {
    N_LISTS = sizeof lists / sizeof *lists,
    MODELS = 0,
    DEVICES = 1,
    PLATFORMS = 2,
    FRAMEWORKS = 3,
    SYSTEMS = 5,
    KEYS
};

int list_find(const char *name)
{
    for (int i = 0; i < N_LISTS; i++)
        if (strcmp(name, lists[i].name) == 0)
            return i;
    return -1;
}

bool list_print(int which, bool json, struct error *err)
{
    struct listing listing = {.json = json, .rows = json_array()};
    bool ok = lists[which].add == NULL || add_files(lists[which].folder, &listing, lists[which].add, err);
    for (int i = 0; which == SYSTEMS && training_systems[i] != NULL; i++)
        add_system(training_systems[i], &listing);
    if (which == KEYS)
        ok = print_keys(&listing, err);
    if (ok && json) {
        command_print_json(json_pack("{s:s, s:O}", "list", lists[which].name, "rows", listing.rows));
    } else if (ok && which != KEYS) {
        text_table_print(&listing.table, stdout, 0);
        if (lists[which].note != NULL)
            printf("\n%s\n", lists[which].note);
        if (which == MODELS)
            print_below(&listing, "model", "kinds", "windows, experts and kinds of layers, by model");
        if (which == DEVICES)
            print_below(&listing, "device", "fp8", "precisions beside bf16");
        if (which == DEVICES)
            print_below(&listing, "device", "own_curves", "own curves beside copied ones");
        if (which == PLATFORMS)
            print_below(&listing, "platform", "joined_nodes", "nodes joined by NVLink");
        if (which == FRAMEWORKS)
            print_frameworks(&listing);
        if (which == SYSTEMS)
            print_systems();
    }
    text_table_free(&listing.table);
    json_decref(listing.rows);
    return ok;
}
