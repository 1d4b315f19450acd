/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests compare predicted attention of packed slices and of rings with model/validation/kernels.csv. */
#include "base/check.h"
#include "cost/attention.h"
#include "cost/kernel.h"
#include "document/document_read.h"
#include "hand_setting.h"
#include "harness.h"
#include "scenario/scenario.h"
#include "validate/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Three predictions of a packed kernel: as one kernel; only its work, as if no tile ever waited; each slice in a
 * kernel of its own. They are seconds, or their relative errors. */
struct pack_times {
    double packed, work, apart;
};

/** Add one more slice, or `count` equal ones, in a kernel of `heads` heads of 128. */
static void add_slices(struct cost_attention_load *load, struct pack_times *times, const struct device *device,
                       enum pass pass, double heads, const char *text)
{
    char *rest;
    double queries = strtod(text, &rest), more = *rest != '\0' ? strtod(rest + 1, NULL) : 0;
    double prefix = *rest == '+' ? more : 0, count = *rest == 'x' ? more : 1;
    bool forward = pass == PASS_FORWARD;
    double keys = prefix + queries, tile = COST_ATTENTION_TILE * 128.0;
    struct cost_attention work = {.flop = (forward ? 4 : 10) * heads * 128 * queries * (keys - queries / 2),
                                  .queries = queries * (2 * keys - queries) / keys,
                                  .keys = 2 * keys - queries,
                                  .head_dim = 128,
                                  .tile_flop = forward ? 4 * tile * keys : 10 * tile * queries,
                                  .tiles = heads * ceil((forward ? queries : keys) / COST_ATTENTION_TILE)};
    struct cost_attention_curve curve = cost_attention_curve(device, DEVICE_FLASH2, pass, work.head_dim);
    for (int i = 0; i < count; i++)
        kernel_attention_add(load, &curve, &work);
    times->work += count * cost_attention_work_s(device, DEVICE_FLASH2, pass, &work);
    times->apart += count * cost_attention_s(device, DEVICE_FLASH2, pass, &work);
}

static struct pack_times pack_times_of(const struct device *device, const struct measured *kernels, int32_t row,
                                       enum pass pass)
{
    struct cost_attention_load load = {0};
    struct pack_times times = {0};
    char words[128], *rest = words, *word;
    snprintf(words, sizeof words, "%s", measured_text(kernels, row, "shape_note"));
    while ((word = strsep(&rest, " ")) != NULL)
        add_slices(&load, &times, device, pass, strtod(measured_text(kernels, row, "heads"), NULL), word);
    times.packed = cost_attention_kernel_s(device, DEVICE_FLASH2, pass, &load);
    return times;
}

/** Return the largest error of the rows that flash2 was fitted to. The device's file gives it. */
static double worst_fitted(enum pass pass)
{
    struct document document = {0};
    struct error err = {0};
    char path[1024];
    const char *family = pass == PASS_FORWARD ? "attention.flash2.forward" : "attention.flash2.backward";
    snprintf(path, sizeof path, "%s/model/gpu/h100-sxm.yaml", scenario_data_dir());
    CHECK(document_read(path, &document, &err));
    int32_t fit = document_child(&document, document_find(&document, 0, "fit"), family, strlen(family));
    int32_t error = document_find(&document, fit, "max_error");
    CHECK(error >= 0);
    double worst = strtod(document.node[error].value, NULL);
    document_free(&document);
    return worst;
}

/*
 * Packed kernels were measured on an H100, and nothing is fitted to them. They are predicted by the shipped curve.
 * 1. No kernel is as fast as its work alone.
 * 2. With a slice behind a prefix no error exceeds that of the worst kernel that the curve was fitted to.
 * 3. The mean error is smaller than without waves of tiles (work alone) and than with separate kernels. This holds for
 * these kernels and for whole samples.
 * 4. Most whole samples are short and slower than the curve, which follows another release. No error above 35% was
 * seen.
 */
TEST(packed_slices__take_as_long_as_measured)
{
    struct device device;
    struct measured kernels = {0};
    struct error err = {0};
    char path[1024];
    int32_t n[2] = {0};
    struct pack_times sum[2] = {0}; /* means of |error|: whole samples; with a slice behind a prefix */
    const double worst[N_PASSES] = {worst_fitted(PASS_FORWARD), worst_fitted(PASS_BACKWARD)};
    snprintf(path, sizeof path, "%s/model/validation/kernels.csv", scenario_data_dir());
    CHECK_TRUE(device_read(scenario_data_dir(), "h100-sxm", &device, &err));
    CHECK_TRUE(measured_read(path, &kernels, &err));
    for (int32_t row = 0; row < kernels.n_rows; row++) {
        if (strcmp(measured_text(&kernels, row, "kind"), "attention-pack") != 0)
            continue;
        enum pass pass = strcmp(measured_text(&kernels, row, "pass"), "fwd") == 0 ? PASS_FORWARD : PASS_BACKWARD;
        bool sliced = strchr(measured_text(&kernels, row, "shape_note"), '+') != NULL;
        double measured_s = 1e-3 * strtod(measured_text(&kernels, row, "time_ms"), NULL);
        struct pack_times times = pack_times_of(&device, &kernels, row, pass);
        double error = fabs(times.packed / measured_s - 1);
        CHECK_TRUE(times.work < measured_s);
        CHECK_TRUE(error <= (sliced ? worst[pass] : 0.35));
        sum[sliced].packed += error;
        sum[sliced].work += fabs(times.work / measured_s - 1);
        sum[sliced].apart += fabs(times.apart / measured_s - 1);
        n[sliced]++;
    }
    CHECK_TRUE(n[1] == 16 && n[0] == 28);
    for (int i = 0; i < 2; i++)
        CHECK_TRUE(sum[i].packed < fmin(sum[i].work, sum[i].apart));
    measured_free(&kernels);
}

/** Return the time of a rank's forward pass of a ring by the shipped curve [s]. The row's own block has `tokens`, and
 * the other blocks are equal. */
static double ring_s(const struct device *device, const struct measured *kernels, int32_t row, int32_t tokens)
{
    int32_t ranks = (int32_t)strtol(measured_text(kernels, row, "shape_note"), NULL, 10);
    int64_t heads = strtol(measured_text(kernels, row, "heads"), NULL, 10);
    const struct model model = {
        .hidden = 128 * heads, .layers = 1, .kinds = {{.heads = heads, .kv_heads = heads, .ffn = 1}}};
    const struct cost_setting setting = hand_with(
        (struct cost_setting){
            .model = &model,
            .device = device,
            .attention = strstr(measured_text(kernels, row, "library"), "cuDNN") != NULL ? DEVICE_CUDNN : DEVICE_FLASH2,
            .tensor = 1,
            HAND_LAYERS(1)},
        &(struct scenario_plan){.cp_type = SCENARIO_RING});
    const struct slice sample = {0, 0, ranks * tokens};
    const struct cost_micro_batch micro_batch = {.slices = &sample, .n_slices = 1, .context = ranks};
    struct cost_kernels all = {0};
    attention_add_kernels(&setting, 0, PASS_FORWARD, &micro_batch, &all);
    return all.kernel[0].seconds / (1 + device->training.products);
}

/** Return the time that the same ring took with the other shape of the other ranks [s]. */
static double other_shape_s(const struct measured *kernels, int32_t row)
{
    static const char *const columns[] = {"library", "heads", "shape_note"};
    for (int32_t other = 0; other < kernels->n_rows; other++) {
        bool same = strcmp(measured_text(kernels, other, "kind"), "attention-ring") == 0 &&
                    strcmp(measured_text(kernels, other, "keys"), measured_text(kernels, row, "keys")) != 0;
        for (size_t i = 0; same && i < sizeof columns / sizeof *columns; i++)
            same = strcmp(measured_text(kernels, other, columns[i]), measured_text(kernels, row, columns[i])) == 0;
        if (same)
            return 1e-3 * strtod(measured_text(kernels, other, "time_ms"), NULL);
    }
    return NAN;
}

/*
 * Forward passes of whole rings ran on two streams, and nothing is fitted to them. The slower of both shapes counts.
 * 1. No error exceeds that of the worst kernel that flash2's curve was fitted to (25%), and the mean is below 10%.
 * 2. One after the other, the blocks would be too slow by up to a factor of two.
 * 3. Copies and sums beside them move their bytes at the rate of copies. All are within 40%, their sum within 10%. The
 *    errors seen are 37% and 6%, so a change is noticed.
 */
TEST(rings__take_as_long_as_measured)
{
    struct device device;
    struct measured kernels = {0};
    struct error err = {0};
    char path[1024];
    double sum = 0, moves_s = 0, measured_moves_s = 0;
    int32_t n = 0, n_moves = 0;
    snprintf(path, sizeof path, "%s/model/validation/kernels.csv", scenario_data_dir());
    CHECK_TRUE(device_read(scenario_data_dir(), "h100-sxm", &device, &err));
    CHECK_TRUE(measured_read(path, &kernels, &err));
    for (int32_t row = 0; row < kernels.n_rows; row++) {
        double measured_s = 1e-3 * strtod(measured_text(&kernels, row, "time_ms"), NULL);
        int32_t queries = (int32_t)strtol(measured_text(&kernels, row, "seq_len"), NULL, 10);
        int32_t keys = (int32_t)strtol(measured_text(&kernels, row, "keys"), NULL, 10);
        if (strcmp(measured_text(&kernels, row, "kind"), "attention-ring") == 0 && queries > keys) {
            double other_s = other_shape_s(&kernels, row), slower_s = fmax(measured_s, other_s);
            CHECK_TRUE(other_s > 0);
            double error = fabs(ring_s(&device, &kernels, row, queries) / slower_s - 1);
            CHECK_TRUE(error <= worst_fitted(PASS_FORWARD));
            sum += error;
            n++;
        }
        if (strncmp(measured_text(&kernels, row, "op"), "ring's ", 7) == 0) {
            double bytes = 1e9 * strtod(measured_text(&kernels, row, "gbps"), NULL) * measured_s;
            double seconds = cost_memory_bound_s(&device, DEVICE_COPY, bytes);
            CHECK_TRUE(fabs(seconds / measured_s - 1) <= 0.4);
            moves_s += seconds;
            measured_moves_s += measured_s;
            n_moves++;
        }
    }
    CHECK_TRUE(n == 72 && sum / n <= 0.1);
    CHECK_TRUE(n_moves == 12 && fabs(moves_s / measured_moves_s - 1) <= 0.1);
    measured_free(&kernels);
}
