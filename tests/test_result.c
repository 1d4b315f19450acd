/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/check.h"
#include "harness.h"
#include "sweep/result.h"

#include <stdlib.h>
#include <string.h>

/* A result of two systems and two iterations, which a journal might hold. */
struct sample {
    char *label[2], text[9000];
    struct trace_summary summary[2];
    struct trace_iteration iterations[2];
    struct result result;
};

static void make(struct sample *sample)
{
    *sample = (struct sample){.label = {"best-fit", "slimpack"}};
    sample->iterations[1].system = 1;
    sample->result = (struct result){
        .id = 7,
        .message = "",
        .scenario = "name: small\n",
        .n_systems = 2,
        .n_iterations = 2,
        .label = sample->label,
        .summary = sample->summary,
        .iterations = sample->iterations,
    };
}

/* Whether its packed form is taken. */
static bool is_taken(const struct sample *sample)
{
    char *bytes = NULL;
    size_t n_bytes;
    struct result result;
    FILE *file = check_memstream(&bytes, &n_bytes);
    result_pack(file, &sample->result);
    CHECK(fclose(file) == 0);
    bool taken = result_unpack(bytes, n_bytes, &result);
    result_free(&result);
    free(bytes);
    return taken;
}

TEST(result_unpack__refuses_numbers_out_of_range)
{
    struct sample sample;
    make(&sample);
    CHECK_TRUE(is_taken(&sample));
    const int32_t systems[] = {2, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        make(&sample);
        sample.iterations[1].system = systems[i];
        CHECK_TRUE(!is_taken(&sample));
    }
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        make(&sample);
        sample.summary[1].misfit = i == 0 ? 1000 : systems[i];
        CHECK_TRUE(!is_taken(&sample));
    }
    make(&sample);
    sample.iterations[0].system = 1;
    sample.summary[0].recompute = -1;
    CHECK_TRUE(!is_taken(&sample));
}

TEST(result_unpack__refuses_texts_that_are_too_long)
{
    struct sample sample;
    make(&sample);
    memset(sample.text, 'x', sizeof sample.text - 1);
    sample.result.message = sample.text;
    CHECK_TRUE(!is_taken(&sample));
    make(&sample);
    memset(sample.text, 'x', 64);
    sample.label[1] = sample.text;
    CHECK_TRUE(!is_taken(&sample));
}
