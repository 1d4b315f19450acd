/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * Seconds and bytes of passes, transfers and collectives: pure functions of model, device, platform and setting.
 *
 * Symbols: h hidden, q width of queries of a token (mostly h), k of keys (of values), f inner width, n heads, V
 * vocabulary (V/TP: model_vocabulary_share), T tokens of one CP rank. A layer runs as Megatron-LM runs it: tensor
 * parallel with sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2) or without, bf16 weights
 * and activations, fp32 optimizer, gradients as set. The time of biases is left out (fused into their neighbours); a
 * fused LayerNorm takes RMSNorm's (eager: cost_norm_kind).
 */
#ifndef SLIMSIM_COST_COST_H
#define SLIMSIM_COST_COST_H

#include "cost/flop.h"
#include "cost/slice.h"
#include "scenario/scenario.h"

/**
 * What all costs of one pipeline have in common. All pointers are borrowed.
 *
 * Costs read the plan's options of the framework and the number of its DP x CP ranks; dag_setting reads its stages.
 * They do not read its tp, pp, cp, vpp, recompute, recompute_layers and offload: a phase, stage or unit may have
 * others.
 */
struct cost_setting {
    const struct model *model;
    const struct device *device;
    const struct platform *platform;
    const struct scenario_plan *plan;
    struct scenario_communication communication;
    enum device_attention attention;
    enum scenario_kernels kernels; /* eager: and what cost/eager.h adds */
    enum scenario_loss loss;
    enum scenario_swiglu swiglu;
    int32_t tensor;              /* TP degree */
    int32_t layers;              /* of one virtual stage: of one chunk of a stage */
    int32_t recompute_layers;    /* of these, under full recomputation: so many recompute; 0: all */
    const struct faults *faults; /* slow devices, NULL: none; dag/ sees to them, these costs are of sound ones */
    const struct platform *shards_platform; /* whose links zero2's and zero3's collectives run on; NULL: `platform`'s */
    struct cost_cache *cache;               /* cost/cache.h; NULL: none */
};

/** One unit (micro-batch or MicroPack) as one of its `context` ranks computes it; of unequal ranks the slowest. */
struct cost_unit {
    const struct slice *slices;
    int32_t n_slices;
    int32_t padding_tokens; /* computed on in GEMMs, not in attention; context parallelism sends it */
    int32_t context;        /* CP degree */
    enum recompute recompute;
    enum slice_sharding sharding; /* what of it the rank does */
};

/** What is measured, and so extrapolated, apart. */
enum cost_family { COST_GEMM, COST_ATTENTION, COST_MEMORY_BOUND, COST_COLLECTIVE, COST_N_FAMILIES };

/** One pass of one unit on one rank of a stage. All per rank and over all layers; seconds without contention. */
struct cost_pass {
    double flop;         /* executed by this rank, recomputation included */
    double other_s;      /* GEMMs, memory-bound kernels, launches; what cannot overlap with the ring */
    double product_s;    /* part of other_s: GEMMs */
    double attention_s;  /* attention kernels; the ring of CP may run beside them */
    double tensor_s;     /* exposed tensor-parallel collectives, already part of no other field */
    double tensor_bytes; /* a TP rank sends in all of them, the hidden ones included */
    double shard_s;      /* exposed gathers of parameters and reduce-scatters of gradients (zero2, zero3), as above */
    double shard_bytes;  /* a rank sends in all of them, the hidden ones included */
    double ring_bytes;   /* a CP rank sends to others (ring: to the next one): cost/context.h */
    int32_t ring_steps;  /* messages of the ring one after the other, for its latency: context - 1 in each layer */
    double context_s;    /* collectives of CP in place of a ring, which stand before attention; in no other field */
    double context_wire_bytes; /* of these by a rank's NIC (over the link's efficiency); 0: none leaves its node */
    double boundary_bytes;     /* to the next (backward: previous) stage, per TP and CP rank: all of it on each TP rank
                                * without sequence parallelism */
    double outside_s[COST_N_FAMILIES]; /* part of the seconds above whose shapes lie outside what was measured */
};

/** All of a pass's seconds but those of its ring, one after the other [s]. */
static inline double cost_pass_s(const struct cost_pass *cost)
{
    return cost->other_s + cost->attention_s + cost->tensor_s + cost->shard_s + cost->context_s;
}

/** Add another part of the unit's pass on the same rank: one without a ring, context collectives and boundary of its
 * own. */
void cost_add_pass(struct cost_pass *cost, const struct cost_pass *more);

/**
 * The layers of a stage. A unit without tokens costs nothing.
 *
 * T = (tokens of all slices + padding) / context, as a real number: the ranks share evenly.
 *
 * GEMMs (M x N x K), forward: T x (q + 2k)/TP x h, T x h x q/TP, T x 2f/TP x h (GELU: f/TP), T x h x f/TP; backward
 * two of the same FLOPs each, for the input (T x K x N) and for the weight (K x N x T). Adding the weight's gradient
 * to the sum is part of its GEMM (Megatron-LM's fusion), which so moves cost_sum_bytes of each element.
 *
 * Attention: one packed kernel a layer for all slices, `context` of them with a ring (a block of it each); each slice
 * has 1/context of its FLOPs (zig-zag sharding of each sample, Llama 3, arXiv:2407.21783, section 3.3) and 1/TP of the
 * heads. The curves are of whole causal samples, so a slice [a, b) enters with the queries and keys of the causal
 * sample whose queries see as many keys, and whose keys are seen by as many queries, on average: keys a + b + 1,
 * queries (b - a)(a + b + 1)/b, both over context (all-gather: keys whole; ulysses: both whole, 1/context of the
 * heads). For a whole sample these are b + 1 and b + 1.
 *
 * Sharded per sequence, ranks differ: each computes its pieces [a, b) of the documents with all their queries, and in
 * every layer the ring, or the gather of keys and values (backward: the reduction of their gradients), waits for the
 * slowest. So the seconds are those of the rank whose kernels take longest; FLOPs are the mean rank's. Padding stands
 * at the end of the sequence. With ulysses each rank has all tokens, so there is no difference; unfused attention has
 * no such form.
 *
 * Few heads times few queries do not fill the device: the longest tile of the kernel (128 queries and b/context keys;
 * backward 128 keys and (b - a)/context queries) ends it alone.
 *
 * That is a ring's own block. In the c - 1 others no query's keys end: zig-zag halves see half of another rank's keys
 * with all queries, or all of them with half. They enter as (b - a)/context queries that all see (a + b + 1)/2context
 * keys, in tiles of (a + b)/2context, or half as many that see twice as many: tiles all alike, which run in waves; the
 * causal sample alike has twice as many of both. All of a rank's blocks together, and what a ring copies and sums
 * beside them: cost/attention.h.
 *
 * Memory-bound kernels, bytes a token (bf16; each tensor read or written once), all divided by TP (without sequence
 * parallelism norms and adds are not):
 *   forward   2 norms 2 x 4h, 2 residual adds 2 x 6h, 2 rotations, of queries 4q, of keys 4k (learned positions:
 *             none), SwiGLU 6f (GELU 4f)
 *   backward  2 norms 2 x 6h, 2 adds of gradients 2 x 6h, 2 rotations 4q, 4k, SwiGLU 10f (GELU 6f)
 * Adds and rotations are copies to the device's curves. A model with dropout has it on both residuals, with any
 * attention: forward the masks are written, 2 x h; backward they are read and the gradients pass once more, 2 x 5h. Its
 * dropout of attention's probabilities takes time with unfused attention alone (cost/attention.h).
 *
 * TP collectives: 4 a layer forward, 6 backward (without sequence parallelism 2 all-reduces in each pass), and what of
 * them tp_overlap leaves exposed: cost/overlap.h.
 *
 * Context parallelism, bytes and seconds: cost/context.h.
 *
 * Recomputation, in the backward: full repeats the forward of the layers that recompute with their attention, TP
 * collectives and ring; with early_stop all but the down GEMM, its collective and the residual add behind it, since the
 * last tensor that the backward needs is that GEMM's input (torch/utils/checkpoint.py, set_checkpoint_early_stop; with
 * dropout it is the mask behind the GEMM, so all but the residual add); a list repeats the kernels it names, norms and
 * activation (whose FLOPs are not counted; eager what cost/eager.h adds to them) or attention, with its ring.
 * alternate-gemms: of Llama's seven GEMMs, in the order queries, keys, values, projection, gate, up, down, the second,
 * fourth and sixth, T x k/TP x h, T x h x q/TP and T x f/TP x h, so 2 T h (k + q + f)/TP FLOPs, the rotation and the
 * residual add of attention; down is kept, and nothing behind its input is repeated. The reduce-scatter behind the
 * projection is kept, so with TP the projection is repeated by eager kernels alone: a compiler leaves it out. Source:
 * torchtitan's selective op (pytorch/torchtitan@004b3148, torchtitan/parallelisms/parallelize_llama.py: _save_list and
 * _custom_policy save every mm but each second one, attention and reduce-scatters; the model calls w1, w3, w2), whose
 * other operations run again (torch/utils/checkpoint.py, create_selective_checkpoint_contexts).
 *
 * Split backward: PASS_WEIGHT has the four GEMMs of the weights' gradients, PASS_INPUT all else of PASS_BACKWARD, what
 * it repeats included; FLOPs and kernels of both are the whole's, of the collectives more is exposed (cost/overlap.h).
 *
 * Sharded gradients and parameters (zero2, zero3), in every pass of every unit: cost/shards.h. A rank waits in their
 * collectives for no slower one.
 */
struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * What the last stage adds: final norm, head GEMM T x V/TP x h (backward two), cross-entropy, TP's all-gather of the
 * head's input (backward: reduce-scatter and the gather again). Never recomputed.
 *
 * Cross-entropy, by `loss`, in bytes a logit:
 *   passes         30 forward (fp32 copy 2 + 4, maximum 4, subtraction and exponential 8, sum 4, division 8) and 14
 *                  backward (gradient in place 8, bf16 copy 6), as Megatron-LM's vocabulary-parallel loss does; its
 *                  all-reduces of a few bytes a token are left out
 *   fused          2 forward, 4 backward: one kernel reads the bf16 logits, another reads them and writes their
 *                  gradient (flash-attention, csrc/xentropy, SoftmaxCrossEntropyLossFn)
 *   fused-metrics  as fused, and behind each backward two metrics of PyTorch's cross-entropy, 28: fp32 copy 2 + 4,
 *                  logarithms of the softmax 4 + 4 (Composer: trainer.py, _eval_train_metrics under autocast;
 *                  metrics/nlp.py, LanguageCrossEntropy and LanguagePerplexity, the default of llm-foundry's models)
 *
 * zero2 and zero3 (one stage: it is also the first): embedding, last norm and head are one unit, the root's, as where
 * frameworks wrap each layer. zero3 gathers it before the forward and keeps it for the backward
 * (torch/distributed/fsdp/ _runtime_utils.py, _post_forward_reshard), whose end reduce-scatters it once the embedding
 * has its gradient: both are exposed. The gather of the last layer's parameters runs beside the head's backward.
 */
struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * What the first stage adds: the table's rows of T tokens forward, their gradients backward. No FLOPs. All are copies
 * to the device's curves; rows are h wide, so long enough to be read like a copy. Bytes a token, whole on every TP rank
 * but where said; t = TP:
 *   forward   rows 4h (read, written), rows of other ranks set to zero 2h (1 - 1/t); learned positions 4h + 6h (rows,
 *             sum); with dropout 5h (its mask 1), shared over TP with sequence parallelism
 *   backward  gradient read 2h, own rows written 2h/t; learned positions 4h; dropout 5h as forward
 * Backward, of each of the rank's V/t h parameters (and positions h): the table's gradient is zeroed in bf16, 2, and
 * added to the main gradient, 2 + 4 + 4 (bf16: 2 + 2 + 2), as no GEMM is there to do it; zero2 and zero3 have no main
 * gradient and add it to the head's, 6, where both are tied. Source: Megatron-LM, tensor_parallel/layers.py
 * (VocabParallelEmbedding) and distributed/distributed_data_parallel.py (main_grad.add_); PyTorch's embedding, whose
 * gradient is dense. Left out: the sort of the tokens, by which PyTorch's backward adds up equal ones.
 *
 * TP's collective of the output: cost/overlap.h. What zero2 and zero3 gather and reduce: cost_of_head.
 */
struct cost_pass cost_of_embedding(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/** `batch` matrix products of M x N x K in one kernel. sum_bytes: read and written for an element of the sum that the
 * output is added to; 0: it is written in bf16. */
struct cost_gemm {
    double batch, m, n, k, sum_bytes;
};

enum { COST_ATTENTION_TILE = 128 }; /* queries of a tile, backward keys */

/** One sequence of a packed attention kernel: its FLOPs on this rank, and its shape. tile_flop: of its longest tile;
 * tiles: how many, of all the rank's heads; span: keys in whole tokens, as device_flash.keys counts them. */
struct cost_attention {
    double flop, queries, keys, head_dim, tile_flop, tiles, span;
};

/** Sequences of one packed attention kernel: their work, the longest tile of all, how many tiles; of their work what is
 * extrapolated. */
struct cost_attention_load {
    double work_s, tile_s, tiles, outside_s;
};

/** A kernel's speed on heads of one width. */
struct cost_attention_curve {
    struct device_flash flash;
    double flop_s;                /* of a FLOP where only the head's width costs efficiency */
    double tile_flop, other_half; /* of a tile and one token of the other side; how many tokens of that cost half */
    double multiprocessors;
};

/** One kernel, or a packed one of all slices, on one rank. bytes: to and from HBM, 0 for attention, whose curve needs
 * none. */
struct cost_kernel {
    const char *name;
    enum cost_family family;
    double flop, bytes, seconds;
    double outside_s; /* part of `seconds` that is extrapolated */
};

enum { COST_MAX_KERNELS = 40 };

/** Empty with n = 0: the rest need not be set. */
struct cost_kernels {
    int32_t n;
    struct cost_kernel kernel[COST_MAX_KERNELS];
};

/** The kernels of one layer without recomputation: layers x their seconds are other_s + attention_s of cost_of_pass. */
void cost_layer_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels);

/** The kernels of cost_of_head. */
void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_kernels *kernels);

/** The kernels of cost_of_embedding. */
void cost_embedding_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                            struct cost_kernels *kernels);

/** Time of one kernel [s]; source of each form: scenario/device.h. No work takes no time. A GEMM takes no less than
 * reading and writing its three matrices; `batch` of one shape share the kernel's waves; cost_gemm_s: one product
 * without a sum. flash1 takes 1 + training.flash1 times the work of flash2. Benchmarked speed: training.products is not
 * in it. */
double cost_kernel_gemm_s(const struct device *device, const struct cost_gemm *gemm);
double cost_gemm_s(const struct device *device, double m, double n, double k);
double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass,
                        const struct cost_attention *work);
double cost_memory_bound_s(const struct device *device, enum device_memory_kind kind, double bytes);

struct cost_attention_curve cost_attention_curve(const struct device *device, enum device_attention kernel,
                                                 enum pass pass, double head_dim);

/** What one sequence adds to a packed kernel [s]. */
double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work);

/** A packed kernel; it takes no less than its work, and than its longest tile [s]. */
double cost_attention_kernel_s(const struct device *device, enum device_attention kernel, enum pass pass,
                               const struct cost_attention_load *load);

/** What a weight's gradient reads and writes of the sum of gradients that its GEMM adds to, bytes an element: twice the
 * sum's own, 8 or 4. 0 where it is written anew: gradients that zero2 and zero3 reduce in every pass, and kernels that
 * are not `fused`, where autograd writes those of the first micro-batch (and adds further ones by kernels of its own,
 * which are not modelled). */
double cost_sum_bytes(const struct cost_setting *setting);

/** Whose norms the layers run: a GELU model's eager ones are PyTorch's LayerNorm. */
enum device_memory_kind cost_norm_kind(const struct cost_setting *setting);

/** Least that core attention of a layer and pass takes of any unit that holds a whole sample, on one of `context` ranks
 * that share it, as training reaches it [s]: the sample's work in one kernel; of a ring in its own block and in all
 * others, of the shape that takes longer. A kernel's end is left out, which other sequences may shorten (tiles of other
 * lengths fill it), so is what a ring and flash1 copy and sum beside the kernels. Unfused attention: all its kernels,
 * of the sample alone. */
double cost_attention_least_s(const struct cost_setting *setting, enum pass pass, int32_t tokens, int32_t context);

/** Whether a shape lies outside what was measured. */
bool cost_gemm_outside(const struct device *device, double m, double n, double k);

/** A transfer: latency paid first, then wire_bytes at the full bandwidth of the slowest link (bytes over the link's
 * efficiency). */
struct cost_transfer {
    double latency_s, wire_bytes, bytes_per_s, duration_s; /* duration = latency + wire/bandwidth, alone on its links */
};

enum cost_route { COST_NVLINK, COST_NIC, COST_PCIE };

/** `steps` messages of a pipelined transfer of `bytes` in all over one kind of link: the link's latency is paid for
 * each, its ramp once. 0 bytes take 0 s. */
struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps);

/**
 * A collective of one tensor of `bytes` over `ranks` GPUs alone on their links [s]: on the NVLink of a node, where five
 * GPUs and more reduce in the switches if the device can; an all-reduce over whole nodes by the fabric's curve; a
 * reduce-scatter or an all-gather over nodes by cost_rails_s, an all-to-all by its NIC's transfers.
 */
double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks);

/** Whether its message lies outside what was measured. */
bool cost_collective_outside(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                             int32_t ranks);

/**
 * Ranks, each with its TP, that a group of `ranks` has on a node: as many as fit there, or all; where groups one after
 * the other do not fill nodes, the fewest that some group has on some node, which is the greatest common divisor of
 * both. That group is the slowest, and its NICs there carry all that enters and leaves the node.
 */
int32_t cost_ranks_each(const struct cost_setting *setting, int32_t ranks);

/**
 * One route's part in an all-gather, reduce-scatter or all-reduce of a tensor of `bytes` over `ranks` GPUs, ranks_each
 * of them on each node (= ranks: all on one), as NCCL's rails do it: of what a rank sends, (ranks - 1)/ranks of the
 * tensor (all-reduce twice that), 1/ranks_each goes by its own NIC to its counterpart on the next node, the rest by
 * NVLink to its neighbour, at the same time. NVLink: curve of the collective of ranks_each GPUs, of an all-reduce those
 * of both others, between which it goes over the nodes; with all ranks on one node as cost_collective_s. NIC: a ring
 * through all ranks (device_ring), an all-reduce by the curve of the fabric. Nothing to send takes no time.
 */
struct cost_transfer cost_of_rails(const struct cost_setting *setting, enum device_collective_kind kind,
                                   enum cost_route route, double bytes, int32_t ranks, int32_t ranks_each);

/** Both routes at the same time, alone on their links [s]. */
double cost_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t ranks,
                    int32_t ranks_each);

/** Where nodes hold unequally many of the ranks and ranks_each is the fewest: one without a NIC's rail sends all that
 * it sends to its neighbour, by NVLink; cost_of_rails' part in proportion. 1 < ranks_each < ranks. */
struct cost_transfer cost_without_rail(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, int32_t ranks, int32_t ranks_each);

/** cost_rails_s of such nodes, the fewest and the most ranks on one. */
double cost_uneven_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t ranks, int32_t fewest, int32_t most);

/** What a stage sends another that computes `share` of a unit's attention for it, and gets back, of all layers; what
 * the other and itself hold for that, of one layer. One TP rank [bytes]. */
struct cost_exchange {
    double out_bytes, back_bytes;
    int32_t n_messages; /* each way: one a layer, of those that compute attention again two */
    double taker_bytes, giver_bytes;
};

/**
 * Context exchange (SlimPipe, arXiv:2504.14519): the other stage attends with all of the unit's queries to `share` of
 * its keys. With T tokens of the unit's slices and S the sum of their ends, over TP and for each layer (bf16,
 * log-sum-exp in fp32):
 *
 *   forward   out 2q T + 4k share S (queries; keys and values)     back 2q T + 4n T (output; log-sum-exp)
 *   backward  out 4q T + 8n T + 4k share S (queries, gradient of the output, log-sum-exp, its correction; keys and
 *             values), back 2q T + 4k share S (their gradients)
 *
 * A backward that computes attention again exchanges it again: in those layers what the forward sends, too.
 *
 * Layers take turns, so one layer's messages are held at a time: the stage that takes on has what came and what it
 * sends back, the other what comes back; what goes out it has anyway (activations, keys and values, gradients in the
 * workspace). Where attention is exchanged again that of the forward has gone when the backward's, which is more,
 * comes.
 */
struct cost_exchange cost_of_exchange(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                                      double share);

/** Whether passes gather parameters or reduce gradients (zero2, zero3), not the end of the iteration. */
static inline bool cost_shards_in_passes(const struct cost_setting *setting)
{
    return setting->plan->sharding == SCENARIO_ZERO2 || setting->plan->sharding == SCENARIO_ZERO3;
}

/** Whether gradients stand in memory from the first backward to the optimizer's end alone. */
static inline bool cost_frees_gradients(const struct cost_setting *setting)
{
    return setting->plan->gradient_buffers == SCENARIO_GRADIENTS_FREED;
}

/** Bytes of one gradient: 4 (fp32) or 2 (bf16). */
double cost_gradient_bytes(const struct cost_setting *setting);

/**
 * Optimizer step of a rank of a stage of `parameters` parameters, of which it updates 1/shards [s]: Adam with fp32
 * states, memory-bound, all to the device's curve of copies. Bytes for a parameter of the rank's share:
 *   gradient   bf16: read and converted to fp32, 6 (FSDP2 did it in the pass); read for the norm, 4; zero2, zero3:
 *              scaled by the clipping, 8
 *   fused      gradient, weight and two moments read, the latter three written, 28
 *   eager      one kernel each: decay 8, first moment 8 + 12, second 8 + 12, root, division and sum of the denominator
 *              24, weight 16
 *   weight     the bf16 copy, 6 (zero3 converts as it gathers)
 * and zero1 and none for each of all parameters of the stage: the gradient is set to zero, and divided by the ranks, 3
 * x 4 (bf16 2). Megatron-LM clips only a norm that is too large; that is left out. Source: Megatron-LM
 * core/optimizer/distrib_optimizer.py and core/distributed/param_and_grad_buffer.py; PyTorch 2 torch/optim/adamw.py
 * (_single_tensor_adamw) and torch/nn/utils/clip_grad.py.
 */
double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards);

/** Tokens of all slices and padding of one of the unit's `context` ranks: a real number, they share evenly. */
double cost_unit_tokens(const struct cost_unit *unit);

/** Tokens that all context ranks together hold keys and values of: the slices' prefixes, and padding. */
double cost_prefix_tokens(const struct cost_unit *unit);

/**
 * Held from forward to backward, per token and layer, on one TP rank [bytes]; sliced: the sample stands in more than
 * one unit of a pass.
 *
 *   over TP with sequence parallelism, else whole:
 *     4h  inputs of both norms    4h  their outputs [norm]    2h  masks of two dropouts, of a model with dropout
 *   over TP:
 *     4q  queries and attention's output    4k  keys and values    4f  gate and up (GELU 2f, one inner tensor)
 *     2f  their product [activation]    4n  log-sum-exp in fp32 [attention-core]
 *
 * Modules of single operations (kernels eager) keep more: RMSNorm its input in fp32 in place of bf16 and the product
 * before the weight, 4h + 2h - 2h for each of two [norm]; SwiGLU silu's result, 2f over TP [activation], as with
 * `swiglu: separate` (Megatron-LM, core/transformer/mlp.py, glu). Source:
 * what autograd saves of the operations in cost/eager.h (PyTorch, tools/autograd/derivatives.yaml).
 *
 * less the entries of the recomputation's list, in [brackets], and with alternate-gemms less 2k + 2f over TP (keys,
 * unless the sample is sliced; up) and, with TP 1, 2h (the second norm's input: with TP it follows from the
 * reduce-scatter's output, which is kept). So a Llama (q = h) keeps 6h + 2k + 2f + 4n. Eager kernels keep the down
 * GEMM's output too, 2h whole, and with TP its reduce-scatter's, 2h, which nothing reads: the policy's cache holds it
 * until the layer's backward, a compiler does not (torch/utils/checkpoint.py, _CachingTorchDispatchMode). full: 2h, the
 * layer's input, and 4k of a sliced sample, which later slices attend to. Unfused attention keeps cost_scores_bytes for
 * 4n: then, without list, with dropout, f = 4h and k = q = h, this is table 2 of Korthikanti et al. 2022
 * (arXiv:2205.05198): s b h (34 + 5as/h)/t with sequence parallelism, s b h (10 + 24/t + 5as/(ht)) without.
 */
double cost_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** The same of all layers of `setting`: under full recomputation of `recompute_layers` the others keep all [bytes]. */
double cost_layers_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** Scores of unfused attention in a layer of a unit, on one rank: a slice [a, b) has (b - a) b n/TP over its `context`
 * ranks, masked ones included. Other attention: 0. */
double cost_scores(const struct cost_setting *setting, const struct cost_unit *unit);

/** What unfused attention keeps of a unit in all layers: 2 bytes a score (softmax), with dropout 5 (mask, result)
 * [bytes]. */
double cost_scores_bytes(const struct cost_setting *setting, const struct cost_unit *unit);

/** Keys and values (also: their gradients) of one token and layer on one TP rank: 4k / TP [bytes]. */
double cost_kv_bytes(const struct model *model, int32_t tensor);

/** What of them cost_activation_bytes holds in a layer that keeps its activations by a list: with alternate-gemms the
 * values alone [bytes]. */
double cost_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute);

/** The same in all layers of `setting`, those that recompute in full left out [bytes]. */
double cost_layers_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute);

/** Parameters of one TP rank of a stage (embeddings on the first, norm and head on the last). Norms, learned positions
 * and the biases behind row-split GEMMs are whole on every TP rank; embedding and head are padded
 * (model_vocabulary_share); tied embeddings have a copy on both ends of the pipeline. */
double cost_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last);

/**
 * Weights, gradients and optimizer states of one rank of a stage of `parameters` parameters, n = shards, by
 * `gradients` (g = 4 bytes or 2) and `sharding` of the plan [bytes a parameter]:
 *   none    2 + g + 12
 *   zero1   2 + g + 12/n     bf16 weight, gradient; fp32 master weight and two moments, shared
 *   zero2   2 + (g + 12)/n
 *   zero3   16/n             fp32 weight, moments and, whatever it was reduced in, gradient; the bf16 weight exists
 *                            while it is gathered only (FSDP's mixed precision: PyTorch, fsdp/_runtime_utils.py,
 *                            _cast_grad_to_param_dtype; DeepSpeed's stage 3 keeps both in bf16: as many bytes)
 * What is whole for a while is in cost/gathered.h.
 */
double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** What of it is gradients: from the first backward to the optimizer's end alone, if they are freed. */
double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/**
 * What PyTorch's allocator counts as allocated for a tensor [bytes]: from 10 MiB on it asks for a multiple of 2 MiB and
 * does not split off what remains if that is 1 MiB or less. Smaller ones are rounded to 512 bytes, which is left out,
 * or fill what others left. Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch (kMinLargeAlloc, kRoundLarge,
 * should_split).
 */
double cost_block_bytes(double bytes);

/** What it adds to the states of a stage's rank: zero1's gradients are one tensor (what is freed: left out), over
 * several shards the weights too; on one shard weight, master weight and moments of each matrix are tensors of their
 * own, as Megatron-LM makes them without its distributed optimizer. zero2, zero3: left out [bytes]. */
double cost_state_block_bytes(const struct cost_setting *setting, int32_t layers, bool first, bool last,
                              int32_t shards);

/**
 * What a layer's first norm works on and keeps in its backward, over TP with sequence parallelism [bytes]: 8h a token,
 * gradients of the residual, of its output and of its input, and its input, all bf16. Single operations (eager Llamas):
 * 28h, the most of RMSNorm's in the gradient of its square: residual's gradient 2, layer's input 2 (that checkpoints
 * keep), that in fp32 4, product's gradient 4, mean's gradient 4, the square's first power 4, twice that 4, result 4.
 * Source: PyTorch, torch/csrc/autograd/FunctionsManual.cpp (mean_backward, pow_backward, whose temporaries last as long
 * as its expression).
 */
double cost_norm_backward_bytes(const struct cost_setting *setting, double tokens);

/**
 * Working memory while one layer of a unit computes its backward, the largest moment [bytes]: gradients of the widest
 * tensors (a token's SwiGLU 6f/TP, GELU 4f/TP; or 4 bytes a score of unfused attention, or cost_gathered_kv_bytes, if
 * more) and of the layer's input 2h, with sequence parallelism both that and the gathered input whole on every rank,
 * 4h; and what is computed again: the entries of the list, under full recomputation all of a layer but its input, which
 * was kept (eager norms keep a copy in fp32 beside it).
 */
double cost_workspace_bytes(const struct cost_setting *setting, const struct cost_unit *unit);

/** What that is made of, in units that recompute alike [bytes]. */
struct cost_workspace {
    double gradients, input, again; /* a token */
    double score_again;             /* a score of unfused attention, beside `again` */
};

struct cost_workspace cost_workspace_of(const struct cost_setting *setting, enum recompute recompute);

/** The same of a unit's cost_unit_tokens, cost_scores and cost_gathered_kv_bytes. */
double cost_workspace_of_tokens(const struct cost_workspace *each, double tokens, double scores, double gathered_bytes);

/**
 * Keys and values that cp_type all-gather gathers of a unit in the layer in work, of the whole prefix on every context
 * rank, 4k/TP a token; backward their gradients too, as large until they are reduced [bytes]. Others: 0. Source:
 * Transformer Engine, AttnFuncWithCPAndKVAllGather (k_ag, v_ag; dk, dv of their size).
 */
double cost_gathered_kv_bytes(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * Held from the gradients of the inputs to those of the weights, per token and layer, on one TP rank [bytes]: inputs
 * and output gradients of the four GEMMs, bf16. Of those that a collective gathers the inputs are kept as shards
 * and gathered again, the output gradients of projection and down are whole on every rank.
 *
 *   inputs     4h (both norms' outputs, over TP with sequence parallelism) + 2q/TP (attention) + 2f/TP (activation)
 *   gradients  2(q + 2k)/TP (QKV) + 2h (projection) + 4f/TP (up; GELU 2f) + 2h (down)
 *
 * With TP 1, f = 4h, k = q = h and GELU this is Qi et al.'s M_W, 32 s b h (arXiv:2401.10241, table 1).
 */
double cost_weight_bytes(const struct cost_setting *setting);

/** Likewise of the head on the last stage: its input, 2h, and the logits' gradient in bf16, 2V/TP a token [bytes]. */
double cost_head_weight_bytes(const struct cost_setting *setting, double tokens);

/** Held on the first stage from forward to backward: the mask of the embedding's dropout, h bytes a token, over TP with
 * sequence parallelism. */
double cost_embedding_bytes(const struct cost_setting *setting, double tokens);

/** Held on the last stage from forward to backward beside its layers: the last norm's input and output, 4h a token,
 * over TP with sequence parallelism, and the probabilities in fp32 that the backward turns into the logits' gradient,
 * 4V/TP, as in Megatron-LM's vocabulary-parallel loss; eager keeps more in norms (cost_activation_bytes), and PyTorch's
 * cross-entropy the logarithms in their place, as many. A fused loss keeps the bf16 logits alone, 2V/TP. The head is
 * never recomputed (cost_of_head) [bytes]. */
double cost_head_bytes(const struct cost_setting *setting, double tokens);

/** While the last stage computes its head, beside cost_head_bytes: logits or their gradient in bf16, 2V/TP a token,
 * kernels eager with a loss by passes two in fp32, 8V/TP (gradients of the logarithms and of the logits: PyTorch's
 * nll_loss_backward and _log_softmax_backward_data); and with sequence parallelism the gathered input, 2h. What
 * metrics copy, 8V/TP, is not there: the layers' activations are freed by then [bytes]. */
double cost_head_workspace_bytes(const struct cost_setting *setting, double tokens);

/** Behind the loss, beside cost_head_bytes, while the head computes its gradients, without that of its weights: the
 * logits' gradient in bf16, 2V/TP a token, less what was kept of the logits, which has gone; the gradient of the head's
 * input, 2h, whole on every rank; with sequence parallelism the gathered input, 2h. May be negative [bytes]. */
double cost_head_backward_bytes(const struct cost_setting *setting, double tokens);

#endif
