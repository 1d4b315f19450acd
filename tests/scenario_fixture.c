/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scenario_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "harness.h"

const char fixture_model[] = "name: llama-13b\nsource: test\nhidden: 5120\nlayers: 40\nheads: 40\nkv_heads: 40\n"
                             "ffn: 13824\nvocabulary: 32000\nactivation: swiglu\ntied_embeddings: false\n";

#define CURVE                                                                                                          \
    "{efficiency: 0.5, q_half: 100, k_half: 10, d_half: 0, tail: 0, "                                                  \
    "alone: 1, launch_s: 2.0e-6}"
#define RING "{latency_s: 1us, step_s: 2us, efficiency: 0.7, ramp_bytes: 3, pair: 0}"
#define BOTH "{forward: " CURVE ", backward: " CURVE "}"
const char fixture_device[] =
    "name: h800\nsource: test\npeak_flop_per_s: 989.4TFLOPS\nhbm_bytes_per_s: 3.35TB/s\nmemory_bytes: 78GiB\n"
    "context_bytes: 1GiB\nmultiprocessors: 132\ntraining: {collective_multiprocessors: 12, node_multiprocessors: 24, "
    "persistent_gemms: false}\n"
    "launch_s: 2us\n"
    "rings: {simple: {start_s: 8us, nvlink_s: 3us, nic_s: 14us, share: 1, share_alone: 1},\n"
    "  ll128: {start_s: 14us, nvlink_s: 2us, nic_s: 4us, share: 0.9, share_alone: 0.7}}\n"
    "memory: {norm: 0.9, layer_norm: 0.5, activation: 0.8, gelu: 0.9, loss: 0.7, copy: 0.6}\n"
    "gemm: {efficiency: 0.8, small_tile: 0.1, wave: 0.25, launch_s: 7us, epilogue: 0, sum: 0.5, m_max: 8192}\n"
    "attention:\n  flash2: " BOTH "\n  flash3: {forward: {efficiency: 0.7, q_half: 1, k_half: 2, d_half: 3, tail: 1, "
    "alone: 0.8, launch_s: 2.0e-6}, backward: " CURVE "}\n  cudnn: " BOTH "\n"
    "collective: {all_gather: " RING ", reduce_scatter: " RING ", all_reduce: " RING ",\n  nvls: " RING ",\n"
    "  all_to_all: {latency_s: 1us, step_s: 2us, efficiency: 0.7, ramp_bytes: 3, pair: 4, bytes_min: 5, bytes_max: "
    "6}}\n"
    "fabric: {latency_s: 7us, hop_s: 60us, efficiency: 0.9, ramp_bytes: 1e6, ramp_hop: 2}\n"
    "nvlink: {latency_s: 10us, efficiency: 0.8, ramp_bytes: 4Mi}\n"
    "nic: {latency_s: 5us, efficiency: 0.95, ramp_bytes: 1e6}\n"
    "pcie: {latency_s: 0, efficiency: 0.85, ramp_bytes: 0}\n"
    "fit: {rows: [1, 2], residuals: {gemm: 0.1}}\nsources: [a, b]\n";

const char *fixture_write(const char *name, const char *text)
{
    const char *path = harness_path("");
    char folder[1200];
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%s%.*s", path, (int)(slash - name), name);
        mkdir(folder, 0777);
    }
    path = harness_path(name);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(text, 1, strlen(text), file) == strlen(text));
    CHECK(fclose(file) == 0);
    return path;
}

char *fixture_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    fseek(file, 0, SEEK_END);
    size_t n = (size_t)ftell(file);
    rewind(file);
    char *text = check_calloc(n + 1, 1);
    CHECK(fread(text, 1, n, file) == n);
    fclose(file);
    return text;
}

char *fixture_replace(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    CHECK(at != NULL);
    char *copy = check_malloc(strlen(text) + strlen(new) + 1);
    sprintf(copy, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return copy;
}

const char *fixture_data(const char *suite)
{
    static char folder[1024];
    char name[128];
    snprintf(name, sizeof name, "%s/model/llm/llama-13b.yaml", suite);
    fixture_write(name, fixture_model);
    snprintf(name, sizeof name, "%s/model/gpu/h800.yaml", suite);
    fixture_write(name, fixture_device);
    snprintf(name, sizeof name, "%s/model/lengths/github.yaml", suite);
    fixture_write(name, "name: github\n");
    static const char *const spaces[] = {"free", "wide"}, *const frameworks[] = {"megatron-core", "slimpack-paper"};
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/model/plan_space/%s.yaml", suite, spaces[i]);
        fixture_write(name, "offload: [0, 0.5]\non_demand: offload\nsource: a test\n");
        char shipped[1024];
        snprintf(shipped, sizeof shipped, "%s/model/framework/%s.yaml", SLIMSIM_SOURCE_DIR, frameworks[i]);
        snprintf(name, sizeof name, "%s/model/framework/%s.yaml", suite, frameworks[i]);
        char *framework = fixture_read(shipped);
        fixture_write(name, framework);
        free(framework);
    }
    snprintf(name, sizeof name, "%s/platforms/hopper.yaml", suite);
    char *hopper = fixture_read(SLIMSIM_SOURCE_DIR "/platforms/hopper.yaml");
    fixture_write(name, hopper);
    free(hopper);
    snprintf(name, sizeof name, "%s/model/memory_pressure.yaml", suite);
    fixture_write(name, "reserve_most: 0.25\nruns: 2\nslow_runs: 1\nother_runs: 4\nother_slow_runs: 3\nslower_least: "
                        "0.1\nslower_most: 0.2\nsource: a test\n");
    snprintf(folder, sizeof folder, "%s", harness_path(suite));
    setenv("SLIMSIM_DATA", folder, 1);
    return folder;
}
