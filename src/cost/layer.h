/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This table says what a layer is: its operators on one TP rank. Parameters, FLOPs, kernels of passes, memory and
 * collectives are sums over it. */
#ifndef SLIMSIM_COST_LAYER_H
#define SLIMSIM_COST_LAYER_H

#include "cost/kernel.h"
#include "cost/setting.h"

enum layer_op_kind { LAYER_GEMM, LAYER_ATTENTION, LAYER_MEMORY_BOUND };

/** Split of a GEMM's weight over TP ranks. A column GEMM needs its input whole, so it is gathered. A row GEMM's output
 * is a sum over ranks, so it is reduced. */
enum layer_split { LAYER_WHOLE, LAYER_COLUMN, LAYER_ROW };

/** One operator. Bytes are those of a token on one TP rank. Fields that do not apply are 0. */
struct layer_op {
    const char *name[N_STEP_PASSES]; /* of the forward's, the input gradient's and the weight gradient's kernel */
    enum layer_op_kind kind;
    enum layer_split split;              /* GEMM */
    double in, out;                      /* GEMM: columns; its weight is in x out */
    enum precision precision;            /* GEMM */
    double copies, rows;                 /* GEMM: matrices of this shape on a rank, and rows of each for a token: 1 */
    bool of_experts;                     /* GEMM: ranks of expert parallelism share its matrices out */
    bool stays_bf16;                     /* GEMM: whatever the precision of the others is */
    bool follows;                        /* GEMM: reads the input of the GEMM before it, so no rank gathers it anew */
    double copied;                       /* GEMM: columns of `out` that other TP ranks hold, too */
    double shared;                       /* GEMM: columns of `in` and `out` that another GEMM reads or writes, too */
    double vectors;                      /* parameters beside this matrix: bias, weights of a norm */
    enum device_memory_kind memory_kind; /* MEMORY_BOUND: the curve of its bytes */
    bool casts;                          /* MEMORY_BOUND: to fp8 */
    double bytes[N_PASSES];              /* MEMORY_BOUND: bytes to and from HBM */
    int32_t more_launches[N_PASSES];     /* MEMORY_BOUND: kernels beside one; -1: a neighbour's kernel does it */
    double kept_bytes;                   /* bytes from forward to backward under every list of recomputation */
    double listed_bytes;                 /* bytes that are kept, too, unless an entry of `list` drops them */
    enum recompute list;                 /* entries of a list, any of which drops them and repeats the operator */
    double work_bytes;                   /* bytes that its backward works on */
    struct {
        double out, dropped_bytes, added_bytes; /* GEMM: columns that are repeated; kept bytes less; kept bytes more */
    } alternate;                                /* under alternate-gemms, unless `list` repeats the operator */
    bool is_end; /* no backward needs its output, so full recomputation with early_stop leaves it out */
};

enum { LAYER_MAX_OPS = 40 };

struct layer {
    int32_t kind; /* of the model's kinds of layers */
    int32_t n_ops;
    struct layer_op ops[LAYER_MAX_OPS]; /* in the order of the forward, then operators between GEMMs */
};

/**
 * Make the operators of a kind of layer. They are not returned, since a copy would take as long.
 *
 * 1. A layer runs as in Megatron-LM: tensor-parallel, with sequence parallelism (Korthikanti et al. 2022,
 *    arXiv:2205.05198, section 4.2) or without.
 * 2. The time of biases is left out, as they are fused into their neighbours.
 * 3. A fused LayerNorm takes RMSNorm's time. Eager models without RMSNorm run PyTorch's LayerNorm, whose gradients of
 *    weight and bias are a kernel of their own.
 * 4. RMSNorm, rotation and SwiGLU run as Llama's single operations if kernels are eager or `single` names them. Each
 *    operation reads its inputs and writes its output once. The bytes of the fused kernel are subtracted, because it is
 *    another operator.
 * 5. Projections that `single` names are GEMMs of their own. Their inputs' gradients are added up, and without sequence
 *    parallelism each is reduced. With it their input is gathered once. Eager models join the three gradients of a
 *    joint QKV in the backward.
 * 6. `swiglu: separate` runs silu and the product as two kernels, and keeps silu(x). in-place has no gradients beside
 *    that of the product.
 * 7. GeGLU runs as SwiGLU, and squared ReLU as GELU: they differ in arithmetic, and bytes take the time.
 * 8. Norms of queries and keys keep their inputs beside what attention keeps. `recompute: norm` does not drop them.
 * 9. Norms behind attention and feed-forward block keep their inputs only, so the down GEMM is needed by the backward.
 * 10. Latent attention (DeepSeek-V2, arXiv:2405.04434) compresses queries, keys and values by GEMMs of which each rank
 *    has all, on its share of the tokens with sequence parallelism. Each head then has keys and values of its own.
 * 11. A layer with experts has a router, shared experts as a dense block, and routed ones. Each rank of expert
 *    parallelism has whole experts. Their GEMMs run one after the other, on the tokens that the busiest rank receives
 *    (cost_expert_load). SwiGLU applies the router's weights, so outputs are not kept.
 * 12. A layer that predicts a later token first projects a hidden state and an embedding to one (DeepSeek-V3,
 *    arXiv:2412.19437, section 2.2).
 * 13. Parallel attention has the collectives of both blocks: no framework here joins them.
 * 14. `recompute: mlp` and `moe` drop all that a feed-forward block keeps but its input, which the norm keeps. moe
 *    repeats the whole block, as Megatron-LM does. mlp leaves out a GEMM whose output no backward needs.
 * 15. `recompute: mla-up-proj` drops queries, keys and values of latent attention. The compressed columns stay.
 *
 * docs/model/costs.md has bytes, derivations and sources (Layer passes, Eager operations), and docs/model/memory.md
 * those of activations.
 */
void layer_of(const struct cost_setting *setting, int32_t kind, struct layer *layer);

/** Make the operators of the last norm, the head and the loss. Recomputation never drops anything of them. If a rank
 * gathers all logits, it joins the others' parts, and the loss is of all of them. */
void layer_of_head(const struct cost_setting *setting, struct layer *layer);

/** A quantity of one layer of a setting. */
typedef double layer_quantity(const struct cost_setting *setting, const struct layer *layer);

/** Return the sum of a quantity over the setting's layers, and the most of any of them. */
double layer_sum(const struct cost_setting *setting, layer_quantity *quantity);
double layer_most(const struct cost_setting *setting, layer_quantity *quantity);

/** Return the parameters of a rank's share. Norms, and biases behind row-split GEMMs, are whole. */
double layer_parameters(const struct cost_setting *setting, const struct layer *layer);

/** Return those of them that are of routed experts. */
double layer_expert_parameters(const struct cost_setting *setting, const struct layer *layer);

/** Return the parameters that compute a token. Routed experts count k of E, on a setting of one rank. */
double layer_active_parameters(const struct cost_setting *setting, const struct layer *layer);

/** Return the parameters of the matrices of a layer that compute a token, of all TP ranks: P = h(q + 2k) + q h + 3 h f
 * (GELU: 2 h f). */
int64_t layer_matrix_parameters(const struct model *model, int32_t kind);

/**
 * Return the bytes an element that a weight-gradient GEMM reads and writes of the sum of gradients. They are twice the
 * sum's own bytes, 8 or 4.
 *
 * It is 0 if the gradient is written anew:
 *
 * 1. zero2 and zero3 reduce gradients in every pass. Stages of zero3 add them up (cost/shards.h).
 * 2. If `gradient_accumulation` is not fused, other kernels add the gradient (cost_added_bytes).
 */
double cost_sum_bytes(const struct cost_setting *setting);

/**
 * Return the bytes a parameter that kernels move to add a backward's gradients to the sum. The bytes of the sum are g.
 *
 *   autograd     2 + 2 g   read the gradient and the sum, write the sum. With g = 2 the first gradient is the sum: 0
 *   fp32-copy    26        add to a zeroed gradient 3 x 2, copy 2 + 4, add to the sum 3 x 4, zero 2
 *   otherwise    0         the GEMM adds (cost_sum_bytes), or passes reduce
 *
 * @param first  no gradient of the step came before
 */
double cost_added_bytes(const struct cost_setting *setting, bool first);

/** Return the columns of the tensor that TP ranks gather before a column-split GEMM, or reduce behind a row-split one.
 */
static inline double layer_split_width(const struct layer_op *op)
{
    return op->split == LAYER_COLUMN ? op->in : op->out;
}

/** Return the bytes of a tensor that TP ranks gather before GEMMs of a precision. It is cast before, if they read fp8.
 */
static inline double layer_gathered_bytes(const struct cost_setting *setting, enum precision precision, double tokens,
                                          double columns)
{
    bool wide = precision == PRECISION_BF16;
    return tokens * columns * (wide ? cost_precisions(setting).wire : precision_bytes(precision));
}

/** Return the GEMM of an operator's weight gradient, which adds to the sum. It is that of one of `copies`. */
struct cost_gemm layer_weight_gemm(const struct cost_setting *setting, const struct layer_op *op, double tokens);

/** Append the GEMMs of a pass on `tokens` tokens. */
void layer_add_gemms(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                     enum pass pass, double tokens);

/** Append the memory-bound kernels of a pass. The gradients of weights have none. */
void layer_add_memory_bound(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                            enum pass pass, double tokens);

/** Return whether an entry of a list repeats an operator whole. */
static inline bool layer_repeats(const struct layer_op *op, enum recompute list)
{
    return ((unsigned)op->list & (unsigned)list) != 0;
}

/** Append the forward kernels that a backward repeats by a list, except attention. */
void layer_add_listed(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                      enum recompute list, double tokens);

/** Append the forward kernels that full recomputation with early_stop leaves out. */
void layer_add_ends(struct cost_kernels *kernels, const struct cost_setting *setting, const struct layer *layer,
                    double tokens);

/** Return the bytes that a token holds from forward to backward under a list [bytes]. */
double layer_kept_bytes(const struct layer *layer, enum recompute list);

/** Return the bytes a token that entries of a list drop. They must be computed again [bytes]. */
double layer_listed_bytes(const struct layer *layer, enum recompute list);

/** Return the most bytes a token that the backward of one operator works on which entries of a list repeat [bytes]. */
double layer_work_bytes(const struct layer *layer, enum recompute list);

/** Return the bytes a token of the inputs and output gradients of the GEMMs. Sequence parallelism divides the inputs
 * that are gathered [bytes]. */
double layer_weight_gradient_bytes(const struct cost_setting *setting, const struct layer *layer);

/** Return the last GEMM of the forward. */
const struct layer_op *layer_last_gemm(const struct layer *layer);

#endif
