/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/schema_text.h"

const char *scenario_data_dir(void)
{
    const char *folder = getenv("SLIMSIM_DATA");
    return folder != NULL && *folder != '\0' ? folder : "/usr/share/slimsim";
}

bool scenario_has_dispatcher(const struct device *device, int32_t dispatcher)
{
    bool deepep = device->experts.deepep_nic > 0;
    return dispatcher == SCENARIO_DISPATCH_DEEPEP      ? deepep
           : dispatcher == SCENARIO_DISPATCH_HYBRID_EP ? deepep && device->experts.hybrid_ep_nic > 0
                                                       : true;
}

/** Return whether one kernel computes all experts. */
static bool groups_experts(const struct scenario *scenario)
{
    return model_has_experts(&scenario->model) && scenario->expert_gemms == DEVICE_GROUPED;
}

/** Return whether GEMMs in a precision were measured, also grouped ones of experts if there are any. */
static bool has_precision(const struct device *device, int32_t precision, bool grouped)
{
    return device->gemm[precision].efficiency > 0 && (precision == PRECISION_BF16 || !grouped);
}

bool scenario_has_precision(const struct scenario *scenario, int32_t precision)
{
    return has_precision(&scenario->device, precision, groups_experts(scenario));
}

bool scenario_casts_are_eager(const struct scenario *scenario)
{
    return scenario->kernels == SCENARIO_EAGER && scenario->fp8_scaling == SCENARIO_SCALING_CURRENT;
}

enum { ALLOWED_SIZE = 80 };

/** Append the name of a choice to a list. */
static void add_allowed(char allowed[ALLOWED_SIZE], const char *choices, int32_t value)
{
    char name[SCHEMA_WORD_BYTES];
    size_t used = strlen(allowed);
    schema_choice_name(choices, value, name);
    snprintf(allowed + used, ALLOWED_SIZE - used, "%s%.30s", used > 0 ? ", " : "", name);
}

bool scenario_check_attention(const struct scenario *scenario, struct error *err)
{
    char name[SCHEMA_WORD_BYTES], allowed[ALLOWED_SIZE] = "fastest";
    if (device_has_attention(&scenario->device, (enum device_attention)scenario->attention))
        return true;
    for (int32_t i = 0; i < DEVICE_N_CURVES; i++)
        if (device_has_attention(&scenario->device, (enum device_attention)i))
            add_allowed(allowed, DEVICE_ATTENTION, i);
    schema_choice_name(DEVICE_ATTENTION, scenario->attention, name);
    return document_error(&scenario->document, document_find(&scenario->document, 0, "attention"), err,
                          "attention: %s was not measured on chips as device %s; allowed: %s", name,
                          scenario->device.name, allowed);
}

char *scenario_precision_refusal(const struct device *device, int32_t precision, const char *grouped)
{
    char name[SCHEMA_WORD_BYTES], allowed[ALLOWED_SIZE] = "";
    if (has_precision(device, precision, grouped != NULL))
        return NULL;
    schema_choice_name(PRECISION_NAMES, precision, name);
    if (has_precision(device, precision, false))
        return check_asprintf("%s: %s grouped was not measured in fp8; allowed with it: multi-stream, sequential", name,
                              grouped);
    for (int i = 0; i < PRECISION_N_GEMM; i++)
        if (has_precision(device, i, grouped != NULL))
            add_allowed(allowed, PRECISION_NAMES, i);
    return device->fp8_flop_per_s == 0
               ? check_asprintf("%s: device %s has no fp8 tensor cores; allowed: %s", name, device->name, allowed)
               : check_asprintf("%s was not measured on device %s; allowed: %s", name, device->name, allowed);
}

bool scenario_check_precision(const struct scenario *scenario, struct error *err)
{
    char *refusal = scenario_precision_refusal(&scenario->device, scenario->precision,
                                               groups_experts(scenario) ? "expert_gemms" : NULL);
    bool ok = refusal == NULL || document_error(&scenario->document, document_find(&scenario->document, 0, "precision"),
                                                err, "precision: %s", refusal);
    free(refusal);
    return ok;
}

bool scenario_takes_dispatch(const struct scenario *scenario, int32_t precision, int32_t dispatcher)
{
    return !scenario->communication.fp8_dispatch || !model_has_experts(&scenario->model) ||
           (precision == PRECISION_FP8_BLOCK && dispatcher == SCENARIO_DISPATCH_DEEPEP);
}

bool scenario_check_dispatcher(const struct scenario *scenario, struct error *err)
{
    char name[SCHEMA_WORD_BYTES];
    int32_t dispatcher = scenario->communication.dispatcher;
    schema_choice_name(SCENARIO_DISPATCHER, dispatcher, name);
    if (!scenario_takes_dispatch(scenario, scenario->precision, dispatcher))
        return document_error(&scenario->document, document_find(&scenario->document, 0, "communication.fp8_dispatch"),
                              err,
                              "communication.fp8_dispatch: true needs precision fp8-block and communication.dispatcher "
                              "deepep; allowed: false, or both of them");
    return !model_has_experts(&scenario->model) || scenario_has_dispatcher(&scenario->device, dispatcher) ||
           document_error(&scenario->document, document_find(&scenario->document, 0, "communication.dispatcher"), err,
                          "communication.dispatcher: %s was not measured on device %s; allowed: all-to-all, all-gather",
                          name, scenario->device.name);
}

bool scenario_lists_lengths(const struct scenario_data *data)
{
    return '0' <= *data->lengths && *data->lengths <= '9' && strpbrk(data->lengths, "./") == NULL;
}

void scenario_batch_text(const struct scenario_data *data, char text[SCENARIO_BATCH_BYTES])
{
    bool packed = data->global_batch_tokens > 0;
    int64_t n = packed ? data->global_batch_tokens / data->context : data->global_batch;
    snprintf(text, SCENARIO_BATCH_BYTES, "%" PRId64 " %s%s", n, packed ? "packed sequence" : "document",
             n == 1 ? "" : "s");
}

int32_t scenario_find_system(const struct scenario *scenario, const char *label, const char *where, struct error *err)
{
    for (int32_t i = 0; i < scenario->n_systems; i++)
        if (strcmp(scenario->systems[i].label, label) == 0)
            return i;
    if (err == NULL)
        return -1;
    char *labels = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&labels, &n_bytes);
    for (int32_t i = 0; i < scenario->n_systems; i++)
        fprintf(file, "%s%s", i > 0 ? ", " : "", scenario->systems[i].label);
    CHECK(fclose(file) == 0);
    error_set(err, "--system: %s has no system '%.200s'; allowed: %.4000s", where, label, labels);
    free(labels);
    return -1;
}

void scenario_free(struct scenario *scenario)
{
    document_free(&scenario->document);
    free(scenario->systems);
    free(scenario->faults);
    replay_free(&scenario->replay);
    *scenario = (struct scenario){0};
}
