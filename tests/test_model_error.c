/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests find the measured errors of the runs that are most like a scenario. */
#include "simulate/model_error.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "scenario_fixture.h"

static const char pair[] =
    "  - {framework: nemo, family: Hopper, devices: h100-sxm h800, rows: 8, bias: 0.01, deviation: 0.02}\n",
                  framework[] = "  - {framework: nemo, rows: 20, bias: 0.03, deviation: 0.04}\n",
                  all[] = "  - {rows: 90, bias: -0.05, deviation: 0.06}\n";

/** Write the groups to a data folder and look the errors of a scenario up. */
static bool look_up(const char *groups[3], const char *name, const char *device, struct model_error *error,
                    struct error *err)
{
    char text[1024], *folder = strdup(fixture_data("model_error"));
    struct scenario scenario = {0};
    snprintf(text, sizeof text, "source: a test\ngroups:\n%s%s%s", groups[0], groups[1], groups[2]);
    fixture_write("model_error/model/model_error.yaml", text);
    strcpy(scenario.framework_name, name);
    strcpy(scenario.device.name, device);
    *err = (struct error){0};
    bool ok = model_error_read(folder, &scenario, error, err);
    free(folder);
    return ok;
}

static void check(const char *name, const char *device, int32_t n_rows, const char *basis)
{
    const char *groups[] = {pair, framework, all};
    struct model_error error;
    struct error err;
    CHECK_TRUE(look_up(groups, name, device, &error, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(error.n_rows, n_rows);
    CHECK_CLOSE(error.bias, n_rows == 8 ? 0.01 : n_rows == 20 ? 0.03 : -0.05, 1e-15);
    CHECK_CLOSE(error.deviation, n_rows == 8 ? 0.02 : n_rows == 20 ? 0.04 : 0.06, 1e-15);
    CHECK_TEXT(error.basis, basis);
}

TEST(model_error__is_that_of_the_most_similar_runs)
{
    check("nemo", "h800", 8, "8 measured runs of nemo on Hopper");
    check("nemo", "h80", 20, "20 measured runs of nemo on all devices"); /* a part of a name is another device */
    check("nemo", "a100-80g", 20, "20 measured runs of nemo on all devices");
    check("fsdp2", "h800", 90, "90 measured runs of all frameworks on all devices");
}

TEST(model_error__says_that_no_run_had_such_a_device)
{
    const char *groups[] = {pair, "  - {framework: nemo, family: Hopper, rows: 20, bias: 0.03, deviation: 0.04}\n",
                            all};
    struct model_error error;
    struct error err;
    CHECK_TRUE(look_up(groups, "nemo", "a100-80g", &error, &err));
    CHECK_TEXT(error.basis, "20 measured runs of nemo on Hopper, none on a100-80g");
    CHECK_TRUE(look_up(groups, "nemo", "h800", &error, &err));
    CHECK_TEXT(error.basis, "8 measured runs of nemo on Hopper");
}

TEST(model_error__names_a_scenario_without_a_group)
{
    const char *groups[] = {pair, "", ""};
    struct model_error error;
    struct error err;
    CHECK_TRUE(!look_up(groups, "fsdp2", "h800", &error, &err));
    CHECK_TRUE(strstr(err.text, "groups: none is for framework fsdp2 on device h800") != NULL);
}

TEST(model_error__refuses_unknown_keys)
{
    const char *groups[] = {"  - {rows: 8, bais: 0.01, deviation: 0.02}\n", "", all};
    struct model_error error;
    struct error err;
    CHECK_TRUE(!look_up(groups, "nemo", "h800", &error, &err));
    CHECK_TRUE(strstr(err.text, "bais") != NULL);
}
