/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file computes how PyTorch's allocator rounds blocks of states (cost/cost.h). */
#include <math.h>

#include "cost/cost.h"

double cost_block_bytes(double bytes)
{
    const double mib = 1 << 20;
    double segment = ceil(bytes / (2 * mib)) * 2 * mib;
    return bytes >= 10 * mib && segment - bytes <= mib ? segment : bytes;
}

static double rest(double bytes)
{
    return cost_block_bytes(bytes) - bytes;
}

/** Return the rest of a matrix. Its weight, master weight and two moments are tensors of their own. */
static double matrix_rest(double parameters)
{
    return rest(2 * parameters) + 3 * rest(4 * parameters);
}

double cost_state_block_bytes(const struct cost_setting *setting, int32_t layers, bool first, bool last, int32_t shards)
{
    const struct model *model = setting->model;
    if (cost_shards_in_passes(setting))
        return 0;
    double parameters = cost_stage_parameters(model, setting->tensor, layers, first, last);
    double bytes = cost_frees_gradients(setting) ? 0 : rest(cost_gradient_bytes(setting) * parameters);
    if (shards > 1)
        return bytes + rest(2 * parameters);
    double h = (double)model->hidden, q = (double)model_query_width(model), f = (double)model->ffn, t = setting->tensor;
    double up = model->activation == MODEL_SWIGLU ? 2 * f : f;
    double layer = matrix_rest(h * (q + 2 * (double)model_kv_width(model)) / t) + matrix_rest(q * h / t) +
                   matrix_rest(h * up / t) + matrix_rest(h * f / t);
    int32_t tables = first + (last && !(first && model->tied_embeddings));
    return bytes + layers * layer + tables * matrix_rest(h * model_vocabulary_share(model, setting->tensor));
}
