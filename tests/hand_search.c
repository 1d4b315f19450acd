/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hand_search.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "hand_model.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

bool hand_open_cell(struct hand_search *hand, const struct hand_cell *cell, struct error *err)
{
    static const char *const overlaps[] = {"none", "gradients", "both"};
    const char *name_free = *cell->space == '\0' ? "name: free" : "name: free, ";
    static const char offload[] = "offload: plan, ";
    bool of_plan = strncmp(cell->knobs, offload, strlen(offload)) == 0;
    char text[2048], name[64];
    *hand = (struct hand_search){0};
    snprintf(name, sizeof name, "%.40s/cell.yaml", program_invocation_short_name); /* test programs run side by side */
    snprintf(text, sizeof text,
             "model: %s\ndevice: h800\nframework: slimpack-paper\nfits: tight\nplatform: %s\nengine: "
             "critical-path\nseed: %d\n"
             "communication: {dp_overlap: %s}\n"
             "data: {lengths: github, context: %s, global_batch: 24}\niterations: {warm_up: 0, measured: 5}\n"
             "systems: [{name: %s, offload: %s, plan: auto, plan_space: {%s%s}, knobs: {%s}}]\n",
             cell->model, cell->platform, cell->seed, overlaps[cell->seed % 3], cell->context, cell->system,
             of_plan ? "plan" : "auto", strstr(cell->space, "name: ") == NULL ? name_free : "", cell->space,
             cell->knobs + (of_plan ? strlen(offload) : 0));
    if (!scenario_read(fixture_write(name, text), 0, NULL, &hand->scenario, err))
        return false;
    hand_heads(&hand->scenario.model, (uint64_t)cell->seed / 6);
    return system_check_entries(&hand->scenario, err) && search_check(&hand->scenario, err) &&
           lengths_open(&hand->scenario.data, scenario_data_dir(), &hand->lengths, err);
}

void hand_search_cell(struct hand_search *hand, const struct hand_cell *cell, bool exhaustive)
{
    struct error err = {0};
    struct search_options options = {.exhaustive = exhaustive};
    bool ok = hand_open_cell(hand, cell, &err) &&
              search_system(&hand->scenario, &hand->lengths, 0, &options, &hand->result, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
}

void hand_close_cell(struct hand_search *hand)
{
    search_result_free(&hand->result);
    lengths_close(&hand->lengths);
    scenario_free(&hand->scenario);
}

const struct search_plan *hand_chosen(const struct hand_search *hand)
{
    CHECK(hand->result.n_ranked > 0);
    return &hand->result.plans[hand->result.ranked[0]];
}

bool hand_same_choice(const struct search_plan *a, const struct search_plan *b)
{
    return a->layout.tp == b->layout.tp && a->layout.pp == b->layout.pp && a->layout.cp == b->layout.cp &&
           a->layout.dp == b->layout.dp && a->layout.vpp == b->layout.vpp && a->layout.sharding == b->layout.sharding &&
           a->layout.recompute == b->layout.recompute && a->layout.offload == b->layout.offload;
}

void hand_check_cell(bool holds, const struct hand_cell *cell, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s, %s on %s, context %s, space {%s}, seed %d", what, cell->system, cell->model,
             cell->platform, cell->context, cell->space, cell->seed);
    harness_true(holds, text, __FILE__, __LINE__);
}
