/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests read reliability presets, replace their values and refuse bad ones. */
#include "scenario/reliability.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "harness.h"
#include "scenario/scenario_read.h"
#include "scenario_fixture.h"

static const char minimal[] = "model: llama-13b\ndevice: h800\nplatform: hopper-2x8\n"
                              "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                              "systems: [{name: slimpack, plan: {tp: 2, pp: 1}}]\n";

/** Read the minimal scenario with these lines and one --set (NULL: none) beside the shipped presets. */
static bool read_with(const char *lines, const char *set, struct scenario *scenario, struct error *err)
{
    static const char *const presets[] = {"llama3", "rsc1", "rsc2"};
    *err = (struct error){0};
    fixture_data("reliability");
    for (int i = 0; i < 3; i++) {
        char shipped[1024], name[128];
        snprintf(shipped, sizeof shipped, "%s/model/reliability/%s.yaml", SLIMSIM_SOURCE_DIR, presets[i]);
        snprintf(name, sizeof name, "reliability/model/reliability/%s.yaml", presets[i]);
        char *preset = fixture_read(shipped);
        fixture_write(name, preset);
        free(preset);
    }
    char *text = check_asprintf("%s%s", minimal, lines);
    bool ok = scenario_read(fixture_write("reliability/run.yaml", text), set != NULL, &set, scenario, err);
    free(text);
    return ok;
}

static struct reliability reliability_of(const char *lines, const char *set)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_with(lines, set, &s, &err));
    CHECK_TEXT(err.text, "");
    struct reliability reliability = s.reliability;
    scenario_free(&s);
    return reliability;
}

static double per_1000_days(const struct reliability *reliability)
{
    return reliability_failures_per_s(reliability) * 1000 * 86400;
}

/* 419 failures in 54 days of 2048 nodes; 148 of them are of GPUs. */
TEST(reliability__presets_have_the_published_rates)
{
    struct reliability llama3 = reliability_of("reliability: llama3\n", NULL);
    CHECK_TRUE(llama3.present);
    CHECK_CLOSE(per_1000_days(&llama3), 419 / (2048 * 0.054), 1e-6);
    CHECK_CLOSE(llama3.failures[FAILURE_GPU], 148 / (2048 * 0.054), 1e-6);
    CHECK_CLOSE(llama3.failures[FAILURE_IO_BOARD], 2 / (2048 * 0.054), 1e-6);
    CHECK_TRUE(isnan(llama3.interval_s) && isnan(llama3.blocked_s) && isnan(llama3.spares));
    struct reliability rsc1 = reliability_of("reliability: rsc1\n", NULL);
    struct reliability rsc2 = reliability_of("reliability: {name: rsc2}\n", NULL);
    CHECK_CLOSE(per_1000_days(&rsc1), 6.5, 1e-14);
    CHECK_CLOSE(per_1000_days(&rsc2), 2.34, 1e-14);
    CHECK_TRUE(rsc1.weibull_shape == 1 && rsc2.weibull_shape == 1 && rsc1.blocked_s == 300 && rsc2.start_s == 300);
}

TEST(reliability__absent_means_no_failures)
{
    struct scenario s;
    struct error err;
    static const char *const texts[] = {"", "reliability:\n", "reliability: ~\n"};
    for (int i = 0; i < 3; i++) {
        CHECK_TRUE(read_with(texts[i], NULL, &s, &err));
        CHECK_TRUE(!s.reliability.present);
        char *text = scenario_text(&s);
        CHECK_TRUE(strstr(text, "reliability") == NULL);
        free(text);
        scenario_free(&s);
    }
}

TEST(reliability__keys_replace_the_values_of_the_preset)
{
    struct reliability own = reliability_of("reliability: {name: rsc1, failures: {gpu: 2.5}, load: auto, spares: 3,\n"
                                            "  checkpoint: {interval: 1800, storage_bandwidth: 40GB/s}}\n",
                                            NULL);
    CHECK_CLOSE(per_1000_days(&own), 9, 1e-14);
    CHECK_TRUE(isnan(own.load_s) && own.interval_s == 1800 && own.storage_bytes_per_s == 4e10 && own.spares == 3);
    CHECK_TRUE(own.start_s == 300 && own.blocked_s == 300);
    own = reliability_of("reliability: rsc1\n", "reliability.checkpoint.blocked=auto");
    CHECK_TRUE(isnan(own.blocked_s) && own.start_s == 300);
    own = reliability_of("", "reliability=rsc2");
    CHECK_CLOSE(own.failures[FAILURE_OTHER], 2.34, 1e-14);
}

/* The resolved text gives every value, and reads back to itself. */
TEST(reliability__the_resolved_text_reads_back)
{
    struct scenario s;
    struct error err;
    CHECK_TRUE(read_with("reliability: {name: llama3, spares: 5}\n", NULL, &s, &err));
    char *text = scenario_text(&s);
    scenario_free(&s);
    CHECK_CONTAINS(text, "\nreliability:\n  name: llama3\n  failures:\n    gpu: 1.338252\n");
    CHECK_CONTAINS(text, "    interval: auto\n");
    CHECK_CONTAINS(text, "  spares: 5\n");
    CHECK_TRUE(scenario_read(fixture_write("reliability/again.yaml", text), 0, NULL, &s, &err));
    CHECK_TEXT(err.text, "");
    char *again = scenario_text(&s);
    CHECK_TEXT(again, text);
    scenario_free(&s);
    free(again);
    free(text);
}

TEST(reliability__mistakes_name_the_key_and_what_is_allowed)
{
    static const struct {
        const char *lines, *said;
    } cases[] = {
        {"reliability: lama3\n",
         "run.yaml:6:14: reliability: there is no reliability preset 'lama3'; did you mean 'llama3'"
         "? available: llama3, rsc1, rsc2, or the path of a file that ends in .yaml"},
        {"reliability: {spares: 3}\n", "run.yaml:6:14: reliability.name: is required"},
        {"reliability: [llama3]\n", "run.yaml:6:14: reliability: expected a mapping of keys, found a list"},
        {"reliability: {name: rsc1, failures: {gpu: -1}}\n",
         "run.yaml:6:43: reliability.failures.gpu: '-1' is out of range; allowed: a number [1/1000 node-days], 0 to "
         "100000"},
        {"reliability: {name: rsc1, failures: {gpus: 1}}\n", "failures.gpus: unknown key; did you mean"},
        {"reliability: {name: rsc1, failures: {other: 0}}\n",
         "run.yaml:6:14: reliability.failures: the rates of all causes are 0; allowed: at least one above 0"},
        {"reliability: {name: rsc1, checkpoint: {storage_bandwidth: 0}}\n",
         "reliability.checkpoint.storage_bandwidth: '0' is out of range; allowed: a number with its unit ("},
        {"reliability: {name: rsc1, checkpoint: {interval: never}}\n",
         "reliability.checkpoint.interval: 'never' is not a number; allowed: a number [s] (90s, 30min, 2h, 5us), 0.001 "
         "to 10000000, or auto"},
        {"reliability: {name: rsc1, detect: auto}\n", "reliability.detect: 'auto' is not a number"},
        {"reliability: {name: rsc1, spares: 1.5}\n",
         "run.yaml:6:35: reliability.spares: 1.5 is not a whole number; allowed: 0 to 100000, or auto"},
        {"reliability: {name: rsc1, slow: {factor: 0.5}}\n", "reliability.slow.factor: '0.5' is out of range"},
        {"reliability: {name: rsc1, slow: {share: 2}}\n", "reliability.slow.share: '2' is out of range"},
        {"reliability: {name: rsc1, weibull_shape: 0}\n", "reliability.weibull_shape: '0' is out of range"},
        {"reliability: mine.yaml\n", "mine.yaml"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scenario s;
        struct error err;
        CHECK_TRUE(!read_with(cases[i].lines, NULL, &s, &err));
        CHECK_CONTAINS(err.text, cases[i].said);
        CHECK_TRUE(strchr(err.text, '\n') == NULL);
        CHECK_EQUAL(err.status, ERROR_INVALID);
    }
}

/* A file of the user has every key but the name. Causes that it leaves out have no failures. */
TEST(reliability__a_file_of_the_user_needs_every_value)
{
    static const char mine[] =
        "source: a test\nfailures: {gpu: 2}\nweibull_shape: 0.7\ndetect: 1\nreplace: 2\nstart: 3\n"
        "load: auto\ncheckpoint: {interval: auto, blocked: 5, barrier: 0, bytes_per_parameter: 16,"
        " storage_bandwidth: 1e11}\nspares: 1\nrepair: 100\nslow: {share: 0, factor: 1}\n";
    struct scenario s;
    struct error err;
    fixture_write("reliability/mine.yaml", mine);
    struct reliability own = reliability_of("reliability: mine.yaml\n", NULL);
    CHECK_TRUE(per_1000_days(&own) == 2 && own.weibull_shape == 0.7 && own.bytes_per_parameter == 16);
    char *broken = fixture_replace(mine, "detect: 1\n", "");
    fixture_write("reliability/mine.yaml", broken);
    CHECK_TRUE(!read_with("reliability: mine.yaml\n", NULL, &s, &err));
    CHECK_CONTAINS(err.text, "mine.yaml:1:1: detect: is required");
    free(broken);
}
