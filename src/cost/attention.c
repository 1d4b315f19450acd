/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cost/attention.h"

#include <math.h>

#include "base/check.h"
#include "cost/context.h"
#include "cost/flop.h"

/** Shapes of a ring's other blocks. All of a rank's queries see half of the keys, or half of the queries see all
 * keys. In a contiguous ring all queries see all keys. */
enum shape { HALF_KEYS, HALF_QUERIES, WHOLE, N_SHAPES };

/** Values that slices of one packed kernel share. With a ring they are those of its own block. `ranks_per_slice` of the
 * context ranks divide each slice. */
struct sharing {
    const struct cost_setting *setting;
    int32_t kind; /* of the layer */
    enum pass pass;
    double divisor; /* number by which FLOPs are divided: kernels x ranks x heads' ranks */
    double key_ranks, query_ranks, heads, head_dim;
    double shards;    /* a contiguous ring's own block is a slice of a sample shorter by this factor; otherwise 1 */
    int64_t window;   /* of the kind; 0: none */
    int32_t n_others; /* blocks of a ring except its own */
    enum shape first_shape, end_shape; /* range of the shapes of these blocks */
    struct cost_attention_curve curve;
};

static struct sharing sharing_of(const struct cost_setting *setting, int32_t kind, enum pass pass, int32_t context,
                                 int32_t ranks_per_slice)
{
    double head_dim = (double)model_attention_head(setting->model, kind);
    int32_t kernels = context_kernels(setting, context);
    bool ulysses = setting->cp_type == SCENARIO_ULYSSES;
    bool contiguous = setting->cp_type == SCENARIO_RING_CONTIGUOUS;
    CHECK(kernels == 1 || setting->model->kinds[kind].window == 0);
    return (struct sharing){
        .setting = setting,
        .kind = kind,
        .pass = pass,
        .divisor = (double)kernels * ranks_per_slice * setting->tensor,
        .key_ranks = setting->cp_type == SCENARIO_RING ? context : 1,
        .query_ranks = ulysses || contiguous ? 1 : ranks_per_slice,
        .shards = contiguous ? context : 1,
        .heads = (double)setting->model->kinds[kind].heads / (setting->tensor * (ulysses ? context : 1)),
        .head_dim = head_dim,
        .window = setting->model->kinds[kind].window,
        .n_others = kernels - 1,
        .first_shape = contiguous ? WHOLE : HALF_KEYS,
        .end_shape = contiguous ? N_SHAPES : WHOLE,
        .curve = cost_attention_curve(setting->device, setting->attention, pass, head_dim),
    };
}

/** Return the mean rank's FLOPs of a slice in one kernel. */
static inline double mean_flop(const struct sharing *of, struct slice slice)
{
    return (double)flop_attention(of->setting->model, of->kind, of->pass, slice.begin, slice.end) / of->divisor;
}

/** Return the attention of a slice under a window. Its queries and keys are means as without one: a query sees half of
 * `keys`, and half of `queries` see a key. A rank of several has two pieces of the slice. */
static struct cost_attention attention_in_window(const struct sharing *of, struct slice slice, double flop)
{
    bool forward = of->pass == PASS_FORWARD;
    double window = (double)of->window, queries = slice_tokens(slice) / of->query_ranks;
    double visible = (double)flop_twice_keys(of->window, slice.begin, slice.end);
    double computed = attention_twice_keys(of->window, slice.begin, slice.end), twice_keys = computed / of->query_ranks;
    double keys = slice.end - fmax(0, slice.begin + 1 - window); /* keys that any query sees */
    keys = fmin(keys, queries + 2 * (window - 1));
    double longest = fmin(forward ? slice.end : queries, window + COST_ATTENTION_TILE);
    return (struct cost_attention){
        .flop = flop * (computed / visible),
        .queries = twice_keys / keys,
        .keys = twice_keys / queries,
        .span = twice_keys / queries - 1,
        .head_dim = of->head_dim,
        .tile_flop = (forward ? 4 : 10) * longest * COST_ATTENTION_TILE * of->head_dim,
        .tiles = of->heads * kernel_whole_above((forward ? queries : keys) / COST_ATTENTION_TILE),
    };
}

static inline struct cost_attention attention_of_slice(const struct sharing *of, struct slice slice, double flop)
{
    if (of->window > 0 && slice.end > of->window)
        return attention_in_window(of, slice, flop);
    double begin = slice.begin / of->shards, end = slice.end / of->shards;
    bool forward = of->pass == PASS_FORWARD;
    double tile_flop = forward ? 4 * end / of->key_ranks : 10 * (end - begin) / of->query_ranks;
    double rows = (forward ? (end - begin) / of->query_ranks : end / of->key_ranks) / COST_ATTENTION_TILE;
    return (struct cost_attention){
        .flop = flop * (of->shards * (begin + end + 1) / ((double)slice.begin + slice.end + 1)),
        .queries = (end - begin) * (begin + end + 1) / end / of->query_ranks,
        .keys = (begin + end + 1) / of->key_ranks,
        .span = (begin + end) / of->key_ranks,
        .head_dim = of->head_dim,
        .tile_flop = tile_flop * COST_ATTENTION_TILE * of->head_dim,
        .tiles = of->heads * kernel_whole_above(rows),
    };
}

/** Return another block of a contiguous ring. All queries of the rank's piece of the slice see all keys of another
 * rank. */
static struct cost_attention whole_block(const struct sharing *of, struct slice slice, struct cost_attention own,
                                         double flop)
{
    bool forward = of->pass == PASS_FORWARD;
    double queries = slice_tokens(slice) / of->shards, keys = slice.end / of->shards;
    struct cost_attention work = own;
    work.flop = flop * (2.0 * slice.end / ((double)slice.begin + slice.end + 1));
    work.queries = 2 * queries;
    work.keys = 2 * keys;
    work.span = 2 * keys;
    work.tile_flop = (forward ? 4 * keys : 10 * queries) * COST_ATTENTION_TILE * of->head_dim;
    work.tiles = of->heads * kernel_whole_above((forward ? queries : keys) / COST_ATTENTION_TILE);
    return work;
}

/** Return another block of a zig-zag ring for the slice with `own`. No query's keys end inside it, so its tiles are
 * equal. */
static struct cost_attention other_block(const struct sharing *of, struct slice slice, struct cost_attention own,
                                         enum shape shape)
{
    bool forward = of->pass == PASS_FORWARD;
    double half = shape == HALF_KEYS ? 1 : 0.5;
    double queries = half * slice_tokens(slice) / of->query_ranks, keys = own.keys / (2 * half);
    double whole_keys = own.span / (2 * half);
    struct cost_attention work = own;
    work.queries = 2 * queries;
    work.keys = 2 * keys;
    work.span = 2 * whole_keys;
    work.tile_flop = (forward ? 4 * keys : 10 * queries) * COST_ATTENTION_TILE * of->head_dim;
    work.tiles = of->heads * kernel_whole_above((forward ? queries : whole_keys) / COST_ATTENTION_TILE);
    return work;
}

/** Sequences of one packed kernel: of a ring's own block, and of each other block in either shape. */
struct pack {
    struct cost_attention_load load, other[N_SHAPES];
    double flop;
};

static inline void add_slice(const struct sharing *of, struct slice slice, struct pack *pack)
{
    double flop = mean_flop(of, slice);
    struct cost_attention own = attention_of_slice(of, slice, flop);
    pack->flop += flop;
    kernel_attention_add(&pack->load, &of->curve, &own);
    for (enum shape shape = of->first_shape; of->n_others > 0 && shape < of->end_shape; shape++) {
        struct cost_attention work =
            shape == WHOLE ? whole_block(of, slice, own, flop) : other_block(of, slice, own, shape);
        kernel_attention_add(&pack->other[shape], &of->curve, &work);
    }
}

/** Return the time of all blocks of a pack, if the others have one shape. */
static double blocks_s(const struct sharing *of, const struct pack *pack, enum shape shape)
{
    const struct device *device = of->setting->device;
    const struct cost_attention_load *other = &pack->other[shape];
    double own_s = cost_attention_kernel_s(device, of->setting->attention, of->pass, &pack->load);
    int32_t n = of->n_others,
            n_second = (n + 1) / 2; /* blocks on the second stream; the first stream begins with the own block */
    if (n == 0)
        return own_s;
    double other_s = cost_attention_kernel_s(device, of->setting->attention, of->pass, other);
    if (of->pass != PASS_FORWARD || shape == WHOLE)
        return own_s + n * other_s;
    return fmax(own_s + n * other->work_s, fmax(own_s + (n - n_second) * other_s, n_second * other_s));
}

static double slower_blocks_s(const struct sharing *of, const struct pack *pack)
{
    return fmax(blocks_s(of, pack, HALF_KEYS), blocks_s(of, pack, HALF_QUERIES));
}

/** Return each rank's share of all slices. */
static struct pack even_pack(const struct sharing *of, const struct cost_micro_batch *micro_batch)
{
    struct pack pack = {0};
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        add_slice(of, micro_batch->slices[i], &pack);
    return pack;
}

/** Add the slices' pieces in tokens [begin, end) of the packed sequence. */
static void add_chunk(const struct sharing *of, const struct cost_micro_batch *micro_batch, int64_t begin, int64_t end,
                      struct pack *pack)
{
    int64_t first = 0; /* token of the sequence at which the slice begins */
    for (int32_t i = 0; i < micro_batch->n_slices && first < end; i++) {
        struct slice slice = micro_batch->slices[i];
        int64_t from = begin > first ? begin - first : 0, to = end - first;
        int32_t tokens = slice_tokens(slice);
        first += tokens;
        if (from >= tokens)
            continue;
        struct slice piece = {slice.sample, slice.begin + (int32_t)from,
                              to < tokens ? slice.begin + (int32_t)to : slice.end};
        add_slice(of, piece, pack);
    }
}

/** Return rank i's chunks of the packed sequence: i and 2c-1-i of 2c chunks. */
static struct pack sequence_pack(const struct sharing *of, const struct cost_micro_batch *micro_batch, int32_t rank)
{
    int64_t tokens = micro_batch->padding_tokens, n = 2 * (int64_t)micro_batch->context;
    const int64_t chunks[] = {rank, n - 1 - rank};
    struct pack pack = {0};
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        tokens += slice_tokens(micro_batch->slices[i]);
    for (int i = 0; i < 2; i++)
        add_chunk(of, micro_batch, tokens * chunks[i] / n, tokens * (chunks[i] + 1) / n, &pack);
    return pack;
}

/** Return the slowest rank's share of a micro-batch, with the mean rank's FLOPs. */
static struct pack slowest_pack(const struct sharing *of, const struct cost_micro_batch *micro_batch)
{
    struct pack slowest = {0};
    double flop = 0, slowest_s = -1;
    for (int32_t rank = 0; rank < micro_batch->context; rank++) {
        struct pack pack = sequence_pack(of, micro_batch, rank);
        double seconds = slower_blocks_s(of, &pack);
        flop += pack.flop / micro_batch->context;
        if (seconds > slowest_s) {
            slowest_s = seconds;
            slowest = pack;
        }
    }
    slowest.flop = flop;
    return slowest;
}

/** The backward sums up products of outputs and gradients, then computes gradients, then rounds those of queries
 * (flash_attn/flash_bwd_launch_template.h of FlashAttention-2; -3 and cuDNN as well). */
enum { FLASH_BACKWARD_KERNELS = 3 };

/** Return all slices in one packed kernel. With a ring the entry counts all blocks, but launches of the own block only:
 * messages hide the others. */
static struct cost_kernel fused_kernel(const struct sharing *of, const struct pack *pack, enum shape shape)
{
    const struct device *device = of->setting->device;
    return (struct cost_kernel){
        .name = "attention",
        .family = COST_ATTENTION,
        .flop = (1 + of->n_others) * pack->flop,
        .launches = of->pass == PASS_FORWARD ? 1 : FLASH_BACKWARD_KERNELS,
        .seconds = kernel_sustained_s(device, blocks_s(of, pack, shape)),
        .extrapolated_s =
            kernel_sustained_s(device, pack->load.extrapolated_s + of->n_others * pack->other[shape].extrapolated_s),
    };
}

/** Bytes of a ring's copies and sums: those a token, over the widths of queries, of outputs, and of keys or values in
 * the mean. */
struct ring_bytes {
    double q, o, k;
};

/** Copies and sums of a ring, for each other block and once (docs/model/costs.md, Attention kernels). */
struct ring_moves {
    struct ring_bytes each;
    double n_each;
    struct ring_bytes once;
    double n_once;
};

static const struct ring_moves ring_moves[N_PASSES][2][N_SHAPES] = {
    [PASS_FORWARD] = {{{{0, 6, 0}, 1, {0, 4, 8}, 2}, {{0, 3, 0}, 1, {0, 4, 8}, 2}, {{0, 10, 0}, 1, {0, 12, 0}, 2}},
                      {{{0, 6, 4}, 3, {0, 8, 8}, 3}, {{2, 3, 0}, 2, {0, 8, 8}, 3}, {{0, 10, 0}, 1, {0, 12, 0}, 2}}},
    [PASS_BACKWARD] =
        {{{{6, 0, 6}, 3, {4, 0, 18}, 4}, {{3, 0, 12}, 3, {4, 0, 14}, 7}, {{10, 0, 20}, 3, {12, 0, 24}, 6}},
         {{{6, 0, 10}, 5, {4, 0, 18}, 4}, {{5, 4, 12}, 6, {4, 0, 14}, 4}, {{10, 0, 20}, 3, {12, 0, 24}, 6}}},
};

/** Return whether slices follow each other in a packed tensor. For equal slices the batch is an axis of its own. */
static bool is_packed(const struct cost_micro_batch *micro_batch)
{
    for (int32_t i = 1; i < micro_batch->n_slices; i++)
        if (micro_batch->slices[i].begin != micro_batch->slices[0].begin ||
            micro_batch->slices[i].end != micro_batch->slices[0].end)
            return true;
    return false;
}

/** Return a ring's copies and sums in one entry, as kernels of the mean size. Messages hide their launches. */
static struct cost_kernel moves_of(const struct sharing *of, const struct cost_micro_batch *micro_batch,
                                   enum shape shape)
{
    const struct cost_setting *setting = of->setting;
    const struct device *device = setting->device;
    double others = of->n_others, tokens = cost_micro_batch_tokens(micro_batch) / setting->tensor;
    double q = (double)model_query_width(setting->model, of->kind);
    double o = (double)model_output_width(setting->model, of->kind);
    double k = cost_kv_columns(setting, of->kind);
    const struct ring_moves moves = ring_moves[of->pass][is_packed(micro_batch)][shape];
    const struct ring_bytes each = moves.each, once = moves.once;
    double n = others * moves.n_each + moves.n_once;
    double bytes =
        tokens * ((others * each.q + once.q) * q + (others * each.o + once.o) * o + (others * each.k + once.k) * k);
    double seconds = n * cost_memory_bound_s(device, DEVICE_COPY, bytes / n);
    bool outside = !kernel_within(device->memory_range, bytes / n);
    return (struct cost_kernel){.name = "ring's copies and sums",
                                .family = COST_ATTENTION,
                                .bytes = bytes,
                                .seconds = seconds,
                                .extrapolated_s = outside ? seconds : 0};
}

/** Append one kernel. A zig-zag ring takes the slower of the two ranks whose other blocks have one shape, a
 * contiguous ring the last rank. */
static void add_fused(const struct cost_setting *setting, int32_t kind, enum pass pass,
                      const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    bool even = micro_batch->sharding == SLICE_PER_DOCUMENT || micro_batch->context == 1 ||
                setting->cp_type == SCENARIO_ULYSSES;
    const struct sharing sharing =
        sharing_of(setting, kind, pass, micro_batch->context, even ? micro_batch->context : 1);
    CHECK(even || setting->cp_type != SCENARIO_RING_CONTIGUOUS);
    struct pack pack = even ? even_pack(&sharing, micro_batch) : slowest_pack(&sharing, micro_batch);
    struct cost_kernel blocks = fused_kernel(&sharing, &pack, sharing.first_shape);
    if (sharing.n_others == 0) {
        kernel_add(kernels, blocks);
        return;
    }
    struct cost_kernel moves = moves_of(&sharing, micro_batch, sharing.first_shape);
    for (enum shape shape = sharing.first_shape + 1; shape < sharing.end_shape; shape++) {
        const struct cost_kernel others = fused_kernel(&sharing, &pack, shape);
        const struct cost_kernel other_moves = moves_of(&sharing, micro_batch, shape);
        if (others.seconds + other_moves.seconds > blocks.seconds + moves.seconds) {
            blocks = others;
            moves = other_moves;
        }
    }
    kernel_add(kernels, blocks);
    kernel_add(kernels, moves);
}

/** Batched GEMMs of a rank's heads in one attention kernel (one block of a ring). */
struct batch {
    double n, queries, keys, head_dim, scores;
    bool dropout;
    enum precision precision;
};

static struct batch batch_of(const struct cost_setting *setting, int32_t kind,
                             const struct cost_micro_batch *micro_batch)
{
    const struct model *model = setting->model;
    bool ulysses = setting->cp_type == SCENARIO_ULYSSES;
    double heads = (double)model->kinds[kind].heads / setting->tensor / (ulysses ? micro_batch->context : 1),
           queries = 0, scores = 0;
    double query_ranks = ulysses ? 1 : micro_batch->context;
    double key_ranks = scenario_is_ring(setting->cp_type) ? micro_batch->context : 1;
    for (int32_t i = 0; i < micro_batch->n_slices; i++) {
        double rank_queries = (double)slice_tokens(micro_batch->slices[i]) / query_ranks;
        queries += rank_queries;
        scores += rank_queries * micro_batch->slices[i].end / key_ranks;
    }
    return (struct batch){.n = heads * micro_batch->n_slices,
                          .queries = queries / fmax(1, micro_batch->n_slices),
                          .keys = queries > 0 ? scores / queries : 0,
                          .head_dim = (double)model_attention_head(model, kind),
                          .scores = heads * scores,
                          .dropout = model->dropout,
                          .precision = PRECISION_BF16};
}

static void add_unfused_forward(struct cost_kernels *kernels, const struct device *device, const struct batch *b)
{
    const double element = precision_bytes(b->precision), mask = 1;
    kernel_add_gemms(kernels, device, "attention scores",
                     (struct cost_gemm){b->n, b->queries, b->keys, b->head_dim, 0, b->precision, DEVICE_SEQUENTIAL});
    kernel_add_memory_bound(kernels, device, DEVICE_NORM, "attention softmax", 2 * element * b->scores);
    if (b->dropout)
        kernel_add_memory_bound(kernels, device, DEVICE_ACTIVATION, "attention dropout",
                                (2 * element + mask) * b->scores);
    kernel_add_gemms(kernels, device, "attention output",
                     (struct cost_gemm){b->n, b->queries, b->head_dim, b->keys, 0, b->precision, DEVICE_SEQUENTIAL});
}

static void add_unfused_backward(struct cost_kernels *kernels, const struct device *device, const struct batch *b)
{
    const double element = precision_bytes(b->precision), mask = 1;
    kernel_add_gemms(kernels, device, "attention output's gradient",
                     (struct cost_gemm){b->n, b->queries, b->keys, b->head_dim, 0, b->precision, DEVICE_SEQUENTIAL});
    kernel_add_gemms(kernels, device, "attention values' gradient",
                     (struct cost_gemm){b->n, b->keys, b->head_dim, b->queries, 0, b->precision, DEVICE_SEQUENTIAL});
    if (b->dropout)
        kernel_add_memory_bound(kernels, device, DEVICE_ACTIVATION, "attention dropout",
                                (2 * element + mask) * b->scores);
    kernel_add_memory_bound(kernels, device, DEVICE_NORM, "attention softmax", 3 * element * b->scores);
    kernel_add_gemms(kernels, device, "attention queries' gradient",
                     (struct cost_gemm){b->n, b->queries, b->head_dim, b->keys, 0, b->precision, DEVICE_SEQUENTIAL});
    kernel_add_gemms(kernels, device, "attention keys' gradient",
                     (struct cost_gemm){b->n, b->keys, b->head_dim, b->queries, 0, b->precision, DEVICE_SEQUENTIAL});
}

static void add_unfused(const struct cost_setting *setting, int32_t kind, enum pass pass,
                        const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    struct batch batch = batch_of(setting, kind, micro_batch);
    CHECK(micro_batch->sharding == SLICE_PER_DOCUMENT);
    int32_t first = kernels->n, n_kernels = context_kernels(setting, micro_batch->context);
    if (batch.scores <= 0)
        return;
    if (pass == PASS_FORWARD)
        add_unfused_forward(kernels, setting->device, &batch);
    else
        add_unfused_backward(kernels, setting->device, &batch);
    for (int32_t i = first; i < kernels->n; i++) {
        struct cost_kernel *kernel = &kernels->kernel[i];
        kernel->family = COST_ATTENTION;
        kernel->flop *= n_kernels;
        kernel->bytes *= n_kernels;
        kernel->seconds *= n_kernels;
        kernel->extrapolated_s *= n_kernels;
    }
}

/** Append the gathers and scatters of flash1. */
static void add_padding(const struct cost_setting *setting, int32_t kind, enum pass pass,
                        const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    const struct model *model = setting->model;
    double tokens = 0, out = (double)model_output_width(model, kind) / setting->tensor;
    double in = ((double)model_query_width(model, kind) + 2 * cost_kv_columns(setting, kind)) / setting->tensor;
    for (int32_t i = 0; i < micro_batch->n_slices; i++)
        tokens += (double)slice_tokens(micro_batch->slices[i]) / micro_batch->context;
    double element = cost_precisions(setting).activation;
    double bytes = element * (pass == PASS_FORWARD ? 2 * in + 3 * out : 3 * in + 2 * out) * tokens;
    kernel_add_memory_bound(kernels, setting->device, DEVICE_COPY, "attention gather and scatter", bytes);
    if (bytes > 0)
        kernels->kernel[kernels->n - 1].family = COST_ATTENTION;
}

/** Append the kernels of a rank's own share. */
static void add_share(const struct cost_setting *setting, int32_t kind, enum pass pass,
                      const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    if (setting->attention == DEVICE_UNFUSED) {
        add_unfused(setting, kind, pass, micro_batch, kernels);
        return;
    }
    add_fused(setting, kind, pass, micro_batch, kernels);
    if (setting->attention == DEVICE_FLASH1)
        add_padding(setting, kind, pass, micro_batch, kernels);
}

/** Return the seconds of the kernels from `first` on. */
static double seconds_of(const struct cost_kernels *kernels, int32_t first)
{
    double sum_s = 0;
    for (int32_t i = first; i < kernels->n; i++)
        sum_s += kernels->kernel[i].seconds;
    return sum_s;
}

void attention_add_kernels(const struct cost_setting *setting, int32_t kind, enum pass pass,
                           const struct cost_micro_batch *micro_batch, struct cost_kernels *kernels)
{
    int32_t first = kernels->n;
    struct cost_micro_batch whole = *micro_batch;
    whole.context = 1;
    whole.sharding = SLICE_PER_DOCUMENT;
    bool placed = micro_batch->sharding == SLICE_PLACED;
    add_share(setting, kind, pass, placed ? &whole : micro_batch, kernels);
    for (int32_t i = first; placed && i < kernels->n; i++) {
        kernels->kernel[i].flop /= micro_batch->context;
        kernels->kernel[i].bytes /= micro_batch->context;
        kernels->kernel[i].seconds /= micro_batch->context;
        kernels->kernel[i].extrapolated_s /= micro_batch->context;
    }
    if (!setting->balanced_context || micro_batch->context == 1)
        return;
    struct cost_kernels alone;
    alone.n = 0;
    add_share(setting, kind, pass, &whole, &alone);
    double even = fmin(1, seconds_of(&alone, 0) / micro_batch->context / seconds_of(kernels, first)); /* 1 for NaN */
    for (int32_t i = first; i < kernels->n; i++) {
        kernels->kernel[i].seconds *= even;
        kernels->kernel[i].extrapolated_s *= even;
    }
}

double cost_attention_least_s(const struct cost_setting *setting, int32_t kind, enum pass pass, int32_t tokens,
                              int32_t context)
{
    struct slice sample = {0, 0, tokens};
    if (setting->attention == DEVICE_UNFUSED) {
        struct cost_micro_batch micro_batch = {.slices = &sample, .n_slices = 1, .context = context};
        struct cost_kernels kernels = {0};
        attention_add_kernels(setting, kind, pass, &micro_batch, &kernels);
        return seconds_of(&kernels, 0);
    }
    const struct sharing sharing = sharing_of(setting, kind, pass, context, context);
    double flop = mean_flop(&sharing, sample);
    const struct cost_attention own = attention_of_slice(&sharing, sample, flop);
    double work_s = cost_attention_work_s(setting->device, setting->attention, pass, &own), other_s = 0;
    for (enum shape shape = sharing.first_shape; sharing.n_others > 0 && shape < sharing.end_shape; shape++) {
        struct cost_attention work =
            shape == WHOLE ? whole_block(&sharing, sample, own, flop) : other_block(&sharing, sample, own, shape);
        other_s = fmax(other_s, cost_attention_work_s(setting->device, setting->attention, pass, &work));
    }
    return kernel_sustained_s(setting->device, work_s + sharing.n_others * other_s);
}
