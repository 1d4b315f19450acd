/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario/scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *scenario_data_dir(void)
{
    const char *folder = getenv("SLIMSIM_DATA");
    return folder != NULL && *folder != '\0' ? folder : "/usr/share/slimsim";
}

bool scenario_lists_lengths(const struct scenario_data *data)
{
    return '0' <= *data->lengths && *data->lengths <= '9' && strpbrk(data->lengths, "./") == NULL;
}

void scenario_batch_text(const struct scenario_data *data, char text[SCENARIO_BATCH_BYTES])
{
    if (data->global_batch_tokens > 0)
        snprintf(text, SCENARIO_BATCH_BYTES, "at least %" PRId64 " tokens", data->global_batch_tokens);
    else
        snprintf(text, SCENARIO_BATCH_BYTES, "%" PRId64 " document%s", data->global_batch,
                 data->global_batch > 1 ? "s" : "");
}

void scenario_free(struct scenario *scenario)
{
    document_free(&scenario->document);
    free(scenario->systems);
    free(scenario->faults);
    *scenario = (struct scenario){0};
}
