/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/list_tables.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/columns.h"
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
static const char reference_model[] = "llama2-7b"; /* whose FLOPs tell how heavy the tail of lengths is */

/** Print a table with a row for each file in a folder of the data. `add` adds the row of a file by its name. */
static bool print_files(const char *below, struct columns *table,
                        bool (*add)(const char *name, struct columns *table, struct error *err), struct error *err)
{
    size_t n;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/%s", scenario_data_dir(), below);
    char **names = library_list(folder, ".yaml", &n);
    if (names == NULL)
        return error_set(err, "%s: cannot read this folder: %s", folder, strerror(errno));
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        ok = ok && add(names[i], table, err);
        free(names[i]);
    }
    free(names);
    if (!ok) /* a message is all that is printed */
        table->n_cells = 0;
    columns_print(table);
    return ok;
}

static void add_head(struct columns *table, int32_t n, const char *const *head)
{
    table->n = n;
    for (int32_t i = 0; i < n; i++)
        columns_add(table, "%s", head[i]);
}
#define HEAD(table, ...)                                                                                               \
    add_head(table, sizeof(const char *[]){__VA_ARGS__} / sizeof(char *), (const char *const[]){__VA_ARGS__})

static bool add_model(const char *name, struct columns *table, struct error *err)
{
    struct model model;
    if (!model_read(scenario_data_dir(), name, &model, err))
        return false;
    columns_add(table, "%s", name);
    columns_add(table, "%.2f", cost_model_parameters(&model) / giga);
    const struct model_kind *kind = &model.kinds[0];
    const int64_t sizes[] = {model.layers,    model.hidden,   kind->ffn,
                             kind->heads,     kind->kv_heads, model_head_width(&model, 0),
                             model.vocabulary};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        columns_add(table, "%lld", (long long)sizes[i]);
    return true;
}

bool list_models(struct error *err)
{
    struct columns table = {0};
    HEAD(&table, "model", "parameters [B]", "layers", "hidden", "ffn", "heads", "kv heads", "head width", "vocabulary");
    return print_files("model/llm", &table, add_model, err);
}

enum { CURVES = 512 };

/** Append a word to a list that is separated by ", ", unless it is there already. */
static void append_word(char list[CURVES], const char *word)
{
    size_t used = strlen(list), length = strlen(word);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",") + 2 * (strchr(at, ',') != NULL))
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return;
    snprintf(list + used, CURVES - used, "%s%s", used > 0 ? ", " : "", word);
}

/** Write whether the curves of a device's file were measured, or from which device they were copied. */
static bool read_curves(const struct device *device, const char *path, char text[CURVES], struct error *err)
{
    struct document document = {0};
    char measured[CURVES] = "", copied[CURVES] = "", from[CURVES] = "";
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
    else
        snprintf(text, CURVES, "of %.64s, %s chip%s%.360s", from,
                 device_has_own_curves(scenario_data_dir(), device) ? "same" : "another",
                 *measured != '\0' ? "; own: " : "", measured);
    return true;
}

static bool add_device(const char *name, struct columns *table, struct error *err)
{
    struct device device;
    char path[1024], curves[CURVES];
    if (!device_read_sheet(scenario_data_dir(), name, &device, path, err) || !read_curves(&device, path, curves, err))
        return false;
    columns_add(table, "%s", name);
    columns_add(table, "%.1f", device.memory_bytes / gib);
    columns_add(table, "%.0f", device.peak_flop_per_s[PRECISION_BF16] / tera);
    columns_add(table, "%.2f", device.hbm_bytes_per_s / tera);
    columns_add(table, "%.0f", device.nvlink_bytes_per_s / giga);
    columns_add(table, "%s", curves);
    return true;
}

bool list_devices(struct error *err)
{
    struct columns table = {0};
    HEAD(&table, "device", "memory [GiB]", "TFLOP/s", "HBM [TB/s]", "NVLink [GB/s]", "curves of kernels and links");
    if (!print_files("model/gpu", &table, add_device, err))
        return false;
    puts("\nTFLOP/s are the peak of dense bf16. NVLink is that of one direction.");
    return true;
}

static bool add_platform(const char *name, struct columns *table, struct error *err)
{
    struct platform_keys keys;
    if (!platform_keys_of_name(scenario_data_dir(), name, &keys, err))
        return false;
    char topology[SCHEMA_WORD_BYTES];
    schema_choice_name(PLATFORM_TOPOLOGIES, keys.topology, topology);
    columns_add(table, "%s", name);
    columns_add(table, "%lld x %lld", (long long)keys.nodes, (long long)keys.gpus_per_node);
    columns_add(table, "%.0f", keys.nvlink_bytes_per_s / giga);
    columns_add(table, "%.0f", 8 * keys.nic_bytes_per_s / giga);
    columns_add(table, "%.0f", keys.pcie_bytes_per_s / giga);
    columns_add(table, "%.0f", keys.host_memory_bytes / giga);
    columns_add(table, "%s, %lld nodes a leaf", topology, (long long)keys.leaf);
    return true;
}

bool list_platforms(struct error *err)
{
    struct columns table = {0};
    HEAD(&table, "platform", "nodes x GPUs", "NVLink [GB/s]", "NIC [Gb/s]", "PCIe [GB/s]", "host [GB]", "topology");
    if (!print_files("platforms", &table, add_platform, err))
        return false;
    puts("\nBandwidths are those of a GPU in one direction. NAME-4x8 has 4 nodes of 8 GPUs instead.");
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

static bool add_lengths(const char *name, struct columns *table, struct error *err)
{
    struct model model;
    struct lengths lengths = {0};
    struct scenario_data data = {.length_scale = 1, .context = 1 << 20, .global_batch = 1};
    snprintf(data.lengths, sizeof data.lengths, "%s", name);
    if (!model_read(scenario_data_dir(), reference_model, &model, err) ||
        !lengths_open(&data, scenario_data_dir(), &lengths, err))
        return false;
    columns_add(table, "%s", name);
    columns_add(table, "%.0f", lengths_mean(&lengths));
    columns_add(table, "%.0f", quantile(&lengths, 0.5));
    columns_add(table, "%.0f", quantile(&lengths, 0.95));
    columns_add(table, "%.0f", quantile(&lengths, 1 - 1e-12));
    columns_add(table, "%.1f", 100 * tail_share(&lengths, flop_model_curve(&model, PASS_FORWARD)));
    lengths_close(&lengths);
    return true;
}

bool list_lengths(struct error *err)
{
    struct columns table = {0};
    HEAD(&table, "lengths", "mean", "median", "95%", "longest", "FLOPs in the longest 5% [%]");
    if (!print_files("model/lengths", &table, add_lengths, err))
        return false;
    printf("\nTokens of whole documents, before data.context cuts them; forward FLOPs of %s.\n", reference_model);
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

static bool add_framework(const char *name, struct columns *table, struct error *err)
{
    struct framework framework, base;
    if (!scenario_framework(name, &framework, err) || !scenario_framework(FRAMEWORK_BASE, &base, err))
        return false;
    columns_add(table, "%s", name);
    for (int i = 0; i < N_SETTINGS; i++) {
        const char *own = value_of(&framework, settings[i].key), *left_out = value_of(&base, settings[i].key);
        columns_add(table, "%s", own != NULL ? own : left_out);
    }
    return true;
}

/** Print the values of a framework with their sources. */
static bool print_framework(const char *name, struct columns *unused, struct error *err)
{
    (void)unused;
    struct framework framework;
    if (!scenario_framework(name, &framework, err))
        return false;
    printf("%s\n  source: %s\n", name, framework.source);
    for (int32_t i = 0; i < framework.n_values; i++) {
        const struct framework_value *value = &framework.values[i];
        if (*value->text != '\0')
            printf("  %s: %s%s%s\n", value->key, value->text, *value->source != '\0' ? "  # " : "", value->source);
    }
    return true;
}

bool list_frameworks(struct error *err)
{
    struct columns table = {.n = 1 + N_SETTINGS}, none = {.n = 1};
    columns_add(&table, "framework");
    for (int i = 0; i < N_SETTINGS; i++)
        columns_add(&table, "%s", settings[i].head);
    if (!print_files("model/framework", &table, add_framework, err))
        return false;
    puts("");
    return print_files("model/framework", &none, print_framework, err);
}

static void add_system(const struct training_system *system, struct columns *table)
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
    for (int i = 0; i < 2; i++)
        if (decides & 1U << i)
            append_word(decided, decisions[i]);
    columns_add(table, "%s", system->name);
    columns_add(table, "%s", *taken != '\0' ? taken : "DP only");
    columns_add(table, "%s", *decided != '\0' ? decided : "-");
    columns_add(table, "%.*s", (int)strcspn(system->meaning, ",:;"), system->meaning);
}

bool list_systems(struct error *err)
{
    (void)err;
    struct columns table = {0};
    HEAD(&table, "system", "degrees", "decides itself", "meaning");
    for (int i = 0; training_systems[i] != NULL; i++)
        add_system(training_systems[i], &table);
    columns_print(&table);
    puts("");
    for (int i = 0; training_systems[i] != NULL; i++) {
        const struct training_system *system = training_systems[i];
        printf("%s: %s\n  source: %s\n", system->name, system->meaning, system->source);
        if (system->n_knobs > 0)
            schema_list(stdout, system->knobs, system->n_knobs, "  knobs.");
        else
            puts("  no knobs");
    }
    return true;
}
