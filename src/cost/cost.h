/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * These are the seconds and bytes of passes, transfers and collectives. They are pure functions of model, device,
 * platform and setting.
 *
 * docs/model.md, Cost formulas, explains the symbols: h, f, q, k, n, V, T, c and [a, b). T are the tokens of one CP
 * rank.
 *
 * 1. A layer runs as in Megatron-LM: tensor-parallel, with sequence parallelism (Korthikanti et al. 2022,
 *    arXiv:2205.05198, section 4.2) or without.
 * 2. Weights and activations are bf16, the optimizer is fp32. The plan sets the precision of gradients.
 * 3. The time of biases is left out, as they are fused into their neighbours.
 * 4. A fused LayerNorm takes RMSNorm's time (eager: cost_norm_kind).
 */
#ifndef SLIMSIM_COST_COST_H
#define SLIMSIM_COST_COST_H

#include "cost/flop.h"
#include "cost/slice.h"
#include "scenario/scenario.h"

/**
 * Setting that all costs of one pipeline share. All pointers are borrowed.
 *
 * Costs read the plan's options of the framework and the number of its DP x CP ranks. dag_setting reads its stages.
 * Costs do not read its tp, pp, cp, vpp, recompute, recompute_layers and offload, because a phase, stage or unit may
 * have others.
 */
struct cost_setting {
    const struct model *model;
    const struct device *device;
    const struct platform *platform;
    const struct scenario_plan *plan;
    struct scenario_communication communication;
    enum device_attention attention;
    enum scenario_kernels kernels; /* eager adds the bytes of cost/eager.h */
    enum scenario_loss loss;
    enum scenario_swiglu swiglu;
    int32_t tensor;              /* TP degree */
    int32_t layers;              /* layers of one virtual stage, which is one chunk of a stage */
    int32_t recompute_layers;    /* number of these layers that recompute under full recomputation; 0: all */
    const struct faults *faults; /* slow devices; NULL: none. dag/ applies them, costs are of devices without faults */
    const struct platform *shards_platform; /* has the links of zero2's and zero3's collectives; NULL: `platform` */
    struct cost_cache *cache;               /* cost/cache.h; NULL: no cache */
};

/** One unit (micro-batch or MicroPack) as one of its `context` ranks computes it. If ranks are unequal, it is the
 * slowest. */
struct cost_unit {
    const struct slice *slices;
    int32_t n_slices;
    int32_t padding_tokens; /* tokens that GEMMs compute and attention does not; context parallelism sends them */
    int32_t context;        /* CP degree */
    enum recompute recompute;
    enum slice_sharding sharding; /* share of the unit that the rank computes */
};

/** Kinds of work. Each is measured, and so extrapolated, separately. */
enum cost_family { COST_GEMM, COST_ATTENTION, COST_MEMORY_BOUND, COST_COLLECTIVE, COST_N_FAMILIES };

/** One pass of one unit on one rank of a stage, over all layers. Seconds are without contention. */
struct cost_pass {
    double flop;         /* FLOPs that this rank executes, including recomputation */
    double other_s;      /* GEMMs, memory-bound kernels and launches, which cannot overlap with the ring */
    double product_s;    /* GEMMs within other_s */
    double product_flop; /* FLOPs of these GEMMs, within flop */
    double attention_s;  /* attention kernels; the ring of CP may run beside them */
    double tensor_s;     /* exposed tensor-parallel collectives, in no other field */
    double tensor_bytes; /* bytes that a TP rank sends in all of them, including the hidden ones */
    double
        shard_s; /* exposed gathers of parameters and reduce-scatters of gradients (zero2, zero3), in no other field */
    double shard_bytes; /* bytes that a rank sends in all of them, including the hidden ones */
    double ring_bytes;  /* bytes that a CP rank sends to others (ring: to the next one): cost/context.h */
    int32_t ring_steps; /* messages of the ring one after the other, for its latency: context - 1 in each layer */
    double context_s;   /* collectives of CP in place of a ring, which run before attention; in no other field */
    double context_wire_bytes; /* bytes of these through a rank's NIC (over the link's efficiency); 0: none leaves its
                                  node */
    double boundary_bytes;     /* bytes to the next (backward: previous) stage, per TP and CP rank; without sequence
                                  parallelism each TP rank sends all of them */
    double outside_s[COST_N_FAMILIES]; /* seconds within those above whose shapes lie outside the measured range */
};

/** Return all seconds of a pass except those of its ring, one after the other [s]. */
static inline double cost_pass_s(const struct cost_pass *cost)
{
    return cost->other_s + cost->attention_s + cost->tensor_s + cost->shard_s + cost->context_s;
}

/** Add another component of the unit's pass on the same rank. It must have no ring, context collectives or boundary. */
void cost_add_pass(struct cost_pass *cost, const struct cost_pass *more);

/**
 * Compute the cost of a stage's layers in one pass of a unit. A unit without tokens costs nothing.
 *
 * 1. T = (tokens of all slices + padding) / context, as a real number: the ranks share evenly.
 * 2. There are four GEMMs forward, and two of the same FLOPs for each of them backward. A weight-gradient GEMM also
 *    adds to the sum of gradients (cost_sum_bytes).
 * 3. Attention is one packed kernel a layer for all slices. A ring has one for each block (cost/attention.h).
 * 4. Memory-bound kernels take the time of their bytes: norms, residual adds, rotations, activation, dropout.
 * 5. Tensor parallelism has 4 collectives a layer forward and 6 backward. Without sequence parallelism it has 2
 *    all-reduces in each pass. tp_overlap decides what is exposed (cost/overlap.h).
 * 6. Context parallelism adds bytes and seconds (cost/context.h).
 * 7. A backward with full recomputation repeats the forward of the layers that recompute. With a list it repeats the
 *    kernels that the list names.
 * 8. PASS_WEIGHT has the four weight-gradient GEMMs. PASS_INPUT has everything else of PASS_BACKWARD, including what it
 *    repeats.
 * 9. zero2 and zero3 add collectives to every pass of every unit (cost/shards.h). A rank does not wait in them for a
 *    slower one.
 *
 * docs/model.md, Layer passes, has the shapes, bytes and derivations.
 */
struct cost_pass cost_of_pass(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * Compute what the last stage adds to a pass. It is never recomputed.
 *
 * 1. The final norm runs, and the head GEMM T x V/TP x h (backward two).
 * 2. Cross-entropy moves bytes a logit by `loss`: passes 30 forward and 14 backward, fused 2 and 4, fused-metrics 2 and
 *    32.
 * 3. TP gathers the head's input. Backward it is reduce-scattered and gathered again.
 * 4. zero2 and zero3 have one stage, which is also the first. Embedding, last norm and head are one unit, the root's.
 *    zero3 gathers it before the forward and reduce-scatters it at the end of the backward. Both are exposed.
 *
 * docs/model.md, Head, loss and embedding, has the derivations.
 */
struct cost_pass cost_of_head(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * Compute what the first stage adds to a pass: the table's rows of T tokens forward, their gradients backward.
 *
 * 1. It has no FLOPs. All its kernels are copies to the device's curves.
 * 2. Forward it reads and writes rows, sets rows of other ranks to zero, adds learned positions and applies dropout.
 * 3. Backward it writes gradients of rows, zeroes the table's gradient and adds it to the main gradient.
 * 4. cost/overlap.h has TP's collective of the output. cost_of_head has what zero2 and zero3 gather and reduce.
 *
 * docs/model.md, Head, loss and embedding, has the bytes and their sources.
 */
struct cost_pass cost_of_embedding(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/** `batch` matrix products of M x N x K in one kernel. sum_bytes: bytes read and written an element of the sum that
 * takes the output; 0: the output is written in bf16. */
struct cost_gemm {
    double batch, m, n, k, sum_bytes;
};

enum { COST_ATTENTION_TILE = 128 }; /* queries of a tile, backward keys */

/**
 * FLOPs and shape of one sequence of a packed attention kernel, on this rank.
 * tile_flop: FLOPs of its longest tile. tiles: number of tiles of all the rank's heads. span: keys in whole tokens, as
 * device_flash.keys counts them.
 */
struct cost_attention {
    double flop, queries, keys, head_dim, tile_flop, tiles, span;
};

/** Sequences of one packed attention kernel: their work, the longest of all tiles, the number of tiles, and the
 * extrapolated seconds of the work. */
struct cost_attention_load {
    double work_s, tile_s, tiles, outside_s;
};

/** A kernel's speed on heads of one width. */
struct cost_attention_curve {
    struct device_flash flash;
    double flop_s;                /* seconds of a FLOP if only the head's width costs efficiency */
    double tile_flop, other_half; /* FLOPs of a tile and one token of the other side; number of tokens of the other side
                                     that cost half of the efficiency */
    double multiprocessors;
};

/** One kernel on one rank, which may be a packed one of all slices. bytes: to and from HBM; 0 for attention, whose
 * curve needs none. */
struct cost_kernel {
    const char *name;
    enum cost_family family;
    double flop, bytes, seconds;
    double outside_s; /* seconds within `seconds` that are extrapolated */
};

enum { COST_MAX_KERNELS = 40 };

/** A list of kernels. With n = 0 it is empty, and the rest need not be set. */
struct cost_kernels {
    int32_t n;
    struct cost_kernel kernel[COST_MAX_KERNELS];
};

/** List the kernels of one layer without recomputation. Their seconds times the layers are other_s + attention_s of
 * cost_of_pass. */
void cost_layer_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                        struct cost_kernels *kernels);

/** List the kernels of cost_of_head. */
void cost_head_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                       struct cost_kernels *kernels);

/** List the kernels of cost_of_embedding. */
void cost_embedding_kernels(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                            struct cost_kernels *kernels);

/**
 * Return the time of one kernel [s]. scenario/device.h has the source of each form.
 *
 * 1. No work takes no time.
 * 2. A GEMM takes at least the time to read and write its three matrices. A `batch` of one shape shares the kernel's
 *    waves.
 * 3. cost_gemm_s is one product without a sum.
 * 4. flash1 takes 1 + training.flash1 times the work of flash2.
 * 5. Speeds are those of benchmarks. training.products is not included.
 */
double cost_kernel_gemm_s(const struct device *device, const struct cost_gemm *gemm);
double cost_gemm_s(const struct device *device, double m, double n, double k);
double cost_attention_s(const struct device *device, enum device_attention kernel, enum pass pass,
                        const struct cost_attention *work);
double cost_memory_bound_s(const struct device *device, enum device_memory_kind kind, double bytes);

struct cost_attention_curve cost_attention_curve(const struct device *device, enum device_attention kernel,
                                                 enum pass pass, double head_dim);

/** Return the seconds that one sequence adds to a packed kernel [s]. */
double cost_attention_work_s(const struct device *device, enum device_attention kernel, enum pass pass,
                             const struct cost_attention *work);

/** Return the time of a packed kernel. It is at least that of its work and that of its longest tile [s]. */
double cost_attention_kernel_s(const struct device *device, enum device_attention kernel, enum pass pass,
                               const struct cost_attention_load *load);

/**
 * Return the bytes an element that a weight-gradient GEMM reads and writes of the sum of gradients. They are twice the
 * sum's own bytes, 8 or 4.
 *
 * It is 0 if the gradient is written anew:
 *
 * 1. zero2 and zero3 reduce gradients in every pass.
 * 2. If kernels are not `fused`, autograd writes the gradients of the first micro-batch. Its kernels that add later
 *    ones are not modelled.
 */
double cost_sum_bytes(const struct cost_setting *setting);

/** Return the kind of norm that the layers run. Eager GELU models run PyTorch's LayerNorm. */
enum device_memory_kind cost_norm_kind(const struct cost_setting *setting);

/**
 * Return the least seconds of core attention in a layer and pass, for any unit that holds a whole sample [s]. The
 * seconds are those of one of the `context` ranks that share it, at the speed that training reaches.
 *
 * 1. It is the sample's work in one kernel.
 * 2. With a ring it is the work of its own block and of all others, of the shape that takes longer.
 * 3. The end of a kernel is left out, because tiles of other sequences may fill it.
 * 4. Copies and sums of a ring and of flash1 are left out.
 * 5. Unfused attention counts all its kernels, with this sample only.
 */
double cost_attention_least_s(const struct cost_setting *setting, enum pass pass, int32_t tokens, int32_t context);

/** Return whether a shape lies outside the measured range. */
bool cost_gemm_outside(const struct device *device, double m, double n, double k);

/** A transfer. Its latency is paid first. Then wire_bytes, which are bytes over the link's efficiency, move at the
 * full bandwidth of the slowest link. */
struct cost_transfer {
    double latency_s, wire_bytes, bytes_per_s,
        duration_s; /* duration = latency + wire/bandwidth, without other traffic on its links */
};

enum cost_route { COST_NVLINK, COST_NIC, COST_PCIE };

/** Return a pipelined transfer of `steps` messages, of `bytes` in all, over one kind of link. Each message pays the
 * link's latency. The ramp is paid once. 0 bytes take 0 s. */
struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps);

/**
 * Return the time of a collective of one tensor of `bytes` over `ranks` GPUs, without other traffic on their links [s].
 *
 * 1. Inside a node it uses NVLink. Five GPUs and more reduce in the switches if the device can do it.
 * 2. An all-reduce over whole nodes follows the fabric's curve.
 * 3. A reduce-scatter or all-gather over nodes takes cost_rails_s.
 * 4. An all-to-all over nodes takes its NIC's transfers.
 */
double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks);

/** Return whether the message of a collective lies outside the measured range. */
bool cost_collective_outside(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                             int32_t ranks);

/**
 * Return how many ranks a group of `ranks` has on a node: all of them, or as many as fit. Each rank has its TP.
 *
 * If groups one after the other do not fill nodes, it is the fewest that some group has on some node. This is the
 * greatest common divisor of both numbers. This group is the slowest, and its NICs on that node carry all that enters
 * and leaves the node.
 */
int32_t cost_ranks_each(const struct cost_setting *setting, int32_t ranks);

/**
 * Return the traffic of one route in an all-gather, reduce-scatter or all-reduce of a tensor of `bytes`. It has `ranks`
 * GPUs, ranks_each on each node (= ranks: all on one). NCCL's rails are the model.
 *
 * 1. A rank sends (ranks - 1)/ranks of the tensor, in an all-reduce twice that.
 * 2. 1/ranks_each of this goes by its own NIC to its counterpart on the next node. The rest goes by NVLink to its
 *    neighbour at the same time.
 * 3. NVLink follows the curve of the collective on ranks_each GPUs. An all-reduce takes the curves of both others,
 *    since it crosses the nodes between them. If all ranks are on one node, the time is that of cost_collective_s.
 * 4. The NICs form a ring through all ranks (device_ring). An all-reduce follows the curve of the fabric.
 * 5. Without bytes to send it takes no time.
 */
struct cost_transfer cost_of_rails(const struct cost_setting *setting, enum device_collective_kind kind,
                                   enum cost_route route, double bytes, int32_t ranks, int32_t ranks_each);

/** Return the time of both routes at once, without other traffic on their links [s]. */
double cost_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t ranks,
                    int32_t ranks_each);

/** Return the NVLink traffic of a rank without a NIC's rail. Nodes then hold different numbers of the ranks, and
 * ranks_each is the fewest. The rank sends all its bytes to its neighbour by NVLink, so cost_of_rails' share grows
 * in proportion. 1 < ranks_each < ranks. */
struct cost_transfer cost_without_rail(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, int32_t ranks, int32_t ranks_each);

/** Return cost_rails_s for such nodes, which hold from `fewest` to `most` ranks. */
double cost_uneven_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t ranks, int32_t fewest, int32_t most);

/** Bytes that a stage exchanges with another one, which computes `share` of a unit's attention for it. out_bytes and
 * back_bytes are of all layers. taker_bytes and giver_bytes are what the other stage and this one hold for it, of
 * one layer. All are of one TP rank [bytes]. */
struct cost_exchange {
    double out_bytes, back_bytes;
    int32_t n_messages; /* messages in each direction: one a layer, two for layers that compute attention again */
    double taker_bytes, giver_bytes;
};

/**
 * Compute a context exchange (SlimPipe, arXiv:2504.14519). The other stage attends with all queries of the unit to
 * `share` of its keys.
 *
 * Bytes of a layer over TP, with T tokens of the unit's slices and S the sum of their ends (bf16, log-sum-exp in fp32):
 *
 *   forward   out 2q T + 4k share S (queries; keys and values)     back 2q T + 4n T (output; log-sum-exp)
 *   backward  out 4q T + 8n T + 4k share S (queries, gradient of the output, log-sum-exp, its correction; keys and
 *             values), back 2q T + 4k share S (their gradients)
 *
 * 1. A backward that computes attention again exchanges it again. In those layers it also sends the forward's bytes.
 * 2. Layers take turns, so one layer's messages are held at a time. docs/model.md, Activations and working memory, says
 *    what each stage holds.
 */
struct cost_exchange cost_of_exchange(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit,
                                      double share);

/** Return whether passes gather parameters or reduce gradients (zero2, zero3). Otherwise the end of the iteration
 * does. */
static inline bool cost_shards_in_passes(const struct cost_setting *setting)
{
    return setting->plan->sharding == SCENARIO_ZERO2 || setting->plan->sharding == SCENARIO_ZERO3;
}

/** Return whether gradients are in memory only from the first backward to the optimizer's end. */
static inline bool cost_frees_gradients(const struct cost_setting *setting)
{
    return setting->plan->gradient_buffers == SCENARIO_GRADIENTS_FREED;
}

/** Return the bytes of one gradient: 4 (fp32) or 2 (bf16). */
double cost_gradient_bytes(const struct cost_setting *setting);

/**
 * Return the time of the optimizer step of a rank, on a stage of `parameters` parameters [s]. The rank updates 1/shards
 * of them.
 *
 * 1. The optimizer is Adam with fp32 states. It is memory-bound, and all its bytes follow the device's curve of copies.
 * 2. Each parameter of the rank's share counts: gradient 4 to 18, fused kernel 28 or eager kernels 88, bf16 weight 6
 *    (zero3: 0).
 * 3. With zero1 and none each parameter of the stage also counts 3 gradients, which are set to zero and divided by the
 *    ranks.
 *
 * docs/model.md, States and optimizer, has each term and its source.
 */
double cost_optimizer_s(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return the tokens of all slices and padding on one of the unit's `context` ranks. It is a real number, since
 * ranks share evenly. */
double cost_unit_tokens(const struct cost_unit *unit);

/** Return the tokens whose keys and values all context ranks hold together: the slices' prefixes, and padding. */
double cost_prefix_tokens(const struct cost_unit *unit);

/**
 * Return the bytes that a token holds in a layer from forward to backward, on one TP rank. sliced: the sample is in
 * more than one unit of a pass.
 *
 * 1. A layer without a list keeps 8h, with dropout 10h, and 4q + 4k + 6f + 4n. h terms are over TP with sequence
 *    parallelism only, others over TP. A GELU layer keeps 4f in place of 6f.
 * 2. Each entry of the recomputation's list removes its term: norm 4h, activation 2f, attention-core 4n.
 * 3. Eager norms and SwiGLU of single operations keep more, also under the names of these entries.
 * 4. alternate-gemms keeps 2k + 2f over TP less (2k stays if the sample is sliced), and with TP 1 2h less. Eager
 * kernels keep outputs of the down GEMM as well.
 * 5. full keeps 2h, and 4k of a sliced sample, which later slices attend to.
 * 6. Unfused attention keeps cost_scores_bytes in place of 4n.
 *
 * docs/model.md, Activations and working memory, has the table of terms and the sources.
 */
double cost_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** Return the same bytes for all layers of `setting`. If only `recompute_layers` of them recompute in full, the
 * others keep all [bytes]. */
double cost_layers_activation_bytes(const struct cost_setting *setting, enum recompute recompute, bool sliced);

/** Return the scores of unfused attention in a layer of a unit, on one rank. A slice [a, b) has (b - a) b n/TP over
 * its `context` ranks, including masked ones. Other attention has 0. */
double cost_scores(const struct cost_setting *setting, const struct cost_unit *unit);

/** Return the bytes that unfused attention keeps of a unit in all layers [bytes]. They are 2 a score (softmax), with
 * dropout 5 (mask, result). */
double cost_scores_bytes(const struct cost_setting *setting, const struct cost_unit *unit);

/** Return the bytes of keys and values of one token and layer on one TP rank: 4k / TP. Their gradients are as large
 * [bytes]. */
double cost_kv_bytes(const struct model *model, int32_t tensor);

/** Return the bytes of keys and values that cost_activation_bytes includes for a layer that keeps its activations by
 * a list. With alternate-gemms these are only the values [bytes]. */
double cost_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute);

/** Return the same bytes for all layers of `setting`, except those that recompute in full [bytes]. */
double cost_layers_kept_kv_bytes(const struct cost_setting *setting, enum recompute recompute);

/**
 * Return the parameters of one TP rank of a stage. The first stage has embeddings, the last one norm and head.
 *
 * 1. Norms, learned positions and the biases behind row-split GEMMs are whole on every TP rank.
 * 2. Embedding and head are padded (model_vocabulary_share).
 * 3. Tied embeddings have a copy on both ends of the pipeline.
 */
double cost_stage_parameters(const struct model *model, int32_t tensor, int32_t layers, bool first, bool last);

/**
 * Return the bytes of weights, gradients and optimizer states of one rank of a stage of `parameters` parameters. They
 * depend on the plan's `sharding`, with n = shards and g = 4 or 2 bytes by its `gradients` [bytes a parameter]:
 *
 *   none    2 + g + 12
 *   zero1   2 + g + 12/n     bf16 weight, gradient; fp32 master weight and two moments, sharded
 *   zero2   2 + (g + 12)/n
 *   zero3   16/n             fp32 weight, moments and gradient; the bf16 weight exists only while it is gathered
 *
 * cost/gathered.h has the tensors that are whole for a while. docs/model.md, States and optimizer, has the sources.
 */
double cost_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return the bytes of gradients in cost_state_bytes. If they are freed, they exist only from the first backward to
 * the optimizer's end. */
double cost_gradient_state_bytes(const struct cost_setting *setting, double parameters, int32_t shards);

/** Return what PyTorch's allocator counts as allocated for a tensor [bytes]. From 10 MiB on the size is rounded up
 * to a multiple of 2 MiB if this adds 1 MiB or less. docs/model.md, States and optimizer, has the rule and its
 * source. */
double cost_block_bytes(double bytes);

/**
 * Return what the allocator adds to the states of a stage's rank [bytes].
 *
 * 1. zero1's gradients are one tensor. Gradients that are freed are left out.
 * 2. With several shards the weights are one tensor, too.
 * 3. With one shard, the weight, master weight and moments of each matrix are tensors of their own.
 * 4. zero2 and zero3 are left out.
 */
double cost_state_block_bytes(const struct cost_setting *setting, int32_t layers, bool first, bool last,
                              int32_t shards);

/** Return the bytes that a layer's first norm works on and keeps in its backward, over TP with sequence parallelism
 * [bytes]. It is 8h a token, for single operations (eager Llamas) 28h. docs/model.md, Activations and working
 * memory, lists the tensors. */
double cost_norm_backward_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the working memory while one layer of a unit computes its backward, at its largest moment [bytes].
 *
 * 1. Gradients of the widest tensors: SwiGLU 6f/TP a token, GELU 4f/TP. 4 bytes a score of unfused attention or
 *    cost_gathered_kv_bytes count instead if they are more.
 * 2. Gradient of the layer's input: 2h a token. With sequence parallelism it and the gathered input are whole on every
 *    rank, 4h.
 * 3. Activations that are computed again. With a list these are its entries. Under full recomputation they are all of a
 *    layer except its input, which was kept (eager norms keep a copy in fp32 as well).
 */
double cost_workspace_bytes(const struct cost_setting *setting, const struct cost_unit *unit);

/** Terms of cost_workspace_bytes, for units that recompute in the same way [bytes]. */
struct cost_workspace {
    double gradients, input, again; /* bytes a token */
    double score_again;             /* bytes a score of unfused attention, in addition to `again` */
};

struct cost_workspace cost_workspace_of(const struct cost_setting *setting, enum recompute recompute);

/** Return cost_workspace_bytes of a unit with these cost_unit_tokens, cost_scores and cost_gathered_kv_bytes. */
double cost_workspace_of_tokens(const struct cost_workspace *each, double tokens, double scores, double gathered_bytes);

/**
 * Return the bytes of keys and values that cp_type all-gather gathers of a unit in the layer in work [bytes].
 *
 * 1. Every context rank has those of the whole prefix, 4k/TP a token.
 * 2. Backward it also has their gradients, which are as large until they are reduced.
 * 3. Other cp_types have 0.
 *
 * Source: Transformer Engine, AttnFuncWithCPAndKVAllGather (k_ag, v_ag; dk, dv of their size).
 */
double cost_gathered_kv_bytes(const struct cost_setting *setting, enum pass pass, const struct cost_unit *unit);

/**
 * Return the bytes that a token and layer hold in a split backward, on one TP rank [bytes]. They are held from the
 * gradients of the inputs to those of the weights. They are inputs and output gradients of the four GEMMs, in bf16.
 *
 *   inputs     4h (both norms' outputs, over TP with sequence parallelism) + 2q/TP (attention) + 2f/TP (activation)
 *   gradients  2(q + 2k)/TP (QKV) + 2h (projection) + 4f/TP (up; GELU 2f) + 2h (down)
 *
 * docs/model.md, Activations and working memory, compares it with Qi et al. 2023.
 */
double cost_weight_bytes(const struct cost_setting *setting);

/** Return the same for the head on the last stage: its input, 2h, and the logits' gradient in bf16, 2V/TP a token
 * [bytes]. */
double cost_head_weight_bytes(const struct cost_setting *setting, double tokens);

/** Return the bytes of the mask of the embedding's dropout: h bytes a token, over TP with sequence parallelism. The
 * first stage holds it from forward to backward. */
double cost_embedding_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the bytes that the last stage holds from forward to backward beside its layers [bytes]. The head is never
 * recomputed (cost_of_head).
 *
 * 1. The last norm's input and output: 4h a token, over TP with sequence parallelism. Eager norms keep more
 *    (cost_activation_bytes).
 * 2. Probabilities in fp32 that the backward turns into the logits' gradient: 4V/TP, as in Megatron-LM's
 *    vocabulary-parallel loss. PyTorch's cross-entropy keeps as many logarithms instead. A fused loss keeps only the
 *    bf16 logits, 2V/TP.
 */
double cost_head_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the working memory while the last stage computes its head, in addition to cost_head_bytes [bytes].
 *
 * 1. Logits or their gradient in bf16: 2V/TP a token.
 * 2. Eager kernels with a loss by passes have two gradients in fp32 instead: 8V/TP. They are of the logarithms and of
 *    the logits (PyTorch's nll_loss_backward and _log_softmax_backward_data).
 * 3. With sequence parallelism the gathered input: 2h.
 *
 * The copies of metrics, 8V/TP, do not count, because the layers' activations are freed by then.
 */
double cost_head_workspace_bytes(const struct cost_setting *setting, double tokens);

/**
 * Return the memory behind the loss while the head computes its gradients, in addition to cost_head_bytes [bytes]. The
 * gradient of its weights is not included. The result may be negative.
 *
 * 1. The logits' gradient in bf16: 2V/TP a token. The kept bytes of the logits, which have gone by then, are
 *    subtracted.
 * 2. The gradient of the head's input: 2h, whole on every rank.
 * 3. With sequence parallelism the gathered input: 2h.
 */
double cost_head_backward_bytes(const struct cost_setting *setting, double tokens);

#endif
