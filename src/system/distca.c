/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This system is DistCA: core-attention disaggregation. Linear layers share tokens evenly, and attention moves to the
 * ranks that have least of it.
 *
 * 1. A pool is a set of replicas that share their attention servers; without `pool` it is all. A server is the TP group
 *    of a stage.
 * 2. Samples, longest first (ties: the lowest), go to the micro-batch with fewest tokens so far (ties: the lowest).
 *    Micro-batch i is of pool i modulo the pools. There are as many as windows of the context, or of the memory if that
 *    is less, on each replica. In step p stages hold (2p - 1)/p times what 1F1B does. Empty ones are left out.
 * 3. A micro-batch has its samples end to end, cut into equal runs of tokens, one for each replica of the pool. A
 *    sample over several replicas is cut from both ends: of a replica's tokens half are a head, half a tail. These
 *    pieces have equal attention a token.
 * 4. All stages run passes of one kind in a tick (order_in_step). All servers of the pool share the attention of a
 *    tick, and so do those whose stage runs nothing then.
 * 5. The scheduler begins with each piece on its own server. Each server below the mean FLOPs has one turn, the largest
 *    deficit of the moment first. Until it needs at most `tolerance` of the mean it takes from servers above the mean.
 *    From a piece it would take dF, the least of the piece's FLOPs, its server's surplus and the deficit. The piece
 * with fewest bytes for each FLOP of dF gives (ties: the lowest). With few tokens a server, whole blocks may leave a
 *    server that has given below the tolerance.
 * 6. It gives all of itself if dF is all. Otherwise it gives the first tokens of its head and the last of its tail.
 * Both have dF over its FLOPs of half its tokens, rounded up to whole blocks of 128. Bytes are those of the queries and
 * of all keys and values up to the last query, with the copies that a rank of TP holds.
 * 7. A server receives keys and values of a sample once, each token from the replica that has it. Gradients go back the
 *    same way in a backward.
 * 8. Two nano-batches take turns, so that a pass's messages hide under its linear layers. With `single_stream` they do
 *    not.
 *
 * Deviates: - The paper's scheduler counts keys for each piece, as rule 6 does, but messages carry them once (rule 7).
 * - Micro-batches of rule 2 and the number of them are inferred. The paper cuts a stream of documents. - A pool of
 * fewer replicas is Libra's idea (arXiv:2607.23250). - FLOPs and bytes count the model's first kind of layers for
 * widths. Windows change FLOPs only. - Attention of both nano-batches is scheduled as one.
 *
 * Source: DistCA (arXiv:2510.18121) and its code (github.com/hao-ai-lab/DistCA), from a summary.
 */
#include "system/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "bounds/batch_bound.h"
#include "cost/context.h"
#include "packing/packing.h"
#include "packing/samples.h"
#include "plan/order.h"

enum { BLOCK_TOKENS = 128 };

struct distca_knobs {
    double tolerance;
    int64_t pool, micro_batches;
    bool single_stream;
};

/* Queries of one sample: tokens [head, head_end) and [tail, tail_end). */
struct piece {
    int32_t sample, head, head_end, tail, tail_end;
    int32_t owner, server; /* stage x replicas + replica of the pool */
    int32_t origin;        /* of all pieces before any moves: the one that it is part of */
    double flop;
};

/* Pieces of the micro-batches of a tick, and the FLOPs of each server. */
struct tick {
    const struct plan_request *request;
    struct flop_curve curve;
    int32_t replicas, n_servers; /* of the pool */
    int32_t n;
    size_t room;
    struct piece *pieces;
    int32_t n_owned;
    struct piece *owned; /* the pieces before any moves */
    double *flop;
};

static double flop_of(const struct tick *tick, const struct piece *piece)
{
    return (double)(flop_of_slice(tick->curve, piece->head, piece->head_end) +
                    flop_of_slice(tick->curve, piece->tail, piece->tail_end));
}

static int32_t tokens_of(const struct piece *piece)
{
    return piece->head_end - piece->head + piece->tail_end - piece->tail;
}

static void add_piece(struct tick *tick, struct piece piece)
{
    tick->pieces = check_grow(tick->pieces, (size_t)tick->n, &tick->room, sizeof *tick->pieces);
    piece.flop = flop_of(tick, &piece);
    tick->flop[piece.server] += piece.flop;
    tick->pieces[tick->n++] = piece;
}

/* Add the pieces of a micro-batch on a stage (rule 3). */
static void add_micro_batch(struct tick *tick, const struct plan_partition *partition, int32_t micro_batch,
                            int32_t stage)
{
    const struct plan_micro_batch *of = &partition->micro_batches[micro_batch];
    int64_t all = plan_micro_batch_tokens(partition, micro_batch), at = 0;
    int32_t replica = 0;
    for (int32_t i = of->first_slice; i < of->first_slice + of->n_slices; i++) {
        struct slice slice = partition->slices[i];
        for (int32_t head = slice.begin, tail = slice.end; head < tail;) {
            while (all * (replica + 1) / tick->replicas <= at)
                replica++;
            int64_t room = all * (replica + 1) / tick->replicas - at;
            int32_t n = room < tail - head ? (int32_t)room : tail - head;
            int32_t server = stage * tick->replicas + replica;
            add_piece(tick, (struct piece){slice.sample, head, head + n / 2, tail - (n - n / 2), tail, server, server,
                                           tick->n, 0});
            head += n / 2;
            tail -= n - n / 2;
            at += n;
        }
    }
}

/* Return the bytes of a layer for some queries of a piece, whose last key is the end of its tail (rule 6). */
static double bytes_of(const struct tick *tick, const struct piece *piece, double queries)
{
    const struct cost_setting *setting = tick->request->setting;
    double query = cost_precisions(setting).activation * (double)model_query_width(setting->model, 0);
    return queries * query / setting->tensor + piece->tail_end * cost_kv_bytes(setting, 0);
}

/* Return the tokens of a head or tail that give so many FLOPs. */
static int32_t half_of(const struct piece *piece, double flop)
{
    int32_t half = (tokens_of(piece) + 1) / 2;
    double blocks = ceil(half * (flop / piece->flop) / BLOCK_TOKENS) * BLOCK_TOKENS;
    return blocks < half ? (int32_t)blocks : half;
}

/* Return the piece from which a server takes, -1: none. flop receives dF of rule 5. */
static int32_t cheapest(const struct tick *tick, double mean, double deficit, double *flop)
{
    int32_t best = -1;
    double least = INFINITY;
    for (int32_t i = 0; i < tick->n; i++) {
        const struct piece *piece = &tick->pieces[i];
        double most = fmin(piece->flop, fmin(tick->flop[piece->server] - mean, deficit));
        if (most <= 0)
            continue;
        double queries = most < piece->flop ? fmin(tokens_of(piece), 2.0 * half_of(piece, most)) : tokens_of(piece);
        double score = bytes_of(tick, piece, queries) / most;
        if (score < least) {
            least = score;
            best = i;
            *flop = most;
        }
    }
    return best;
}

/* Move dF of a piece to a server: all of it, or its outer tokens (rule 6). */
static void move(struct tick *tick, int32_t number, double flop, int32_t server)
{
    struct piece given = tick->pieces[number], rest = given;
    int32_t half = half_of(&given, flop);
    given.head_end = given.head + half < given.head_end ? given.head + half : given.head_end;
    given.tail = given.tail_end - half > given.tail ? given.tail_end - half : given.tail;
    if (flop >= rest.flop || tokens_of(&given) == tokens_of(&rest)) {
        tick->flop[rest.server] -= rest.flop;
        tick->flop[server] += rest.flop;
        tick->pieces[number].server = server;
        return;
    }
    rest.head = given.head_end;
    rest.tail_end = given.tail;
    given.server = server;
    tick->flop[rest.server] -= rest.flop;
    rest.flop = flop_of(tick, &rest);
    tick->flop[rest.server] += rest.flop;
    tick->pieces[number] = rest;
    add_piece(tick, given);
}

/* Move attention to all servers below the mean (rule 5). */
static void balance(struct tick *tick)
{
    const struct distca_knobs *knobs = tick->request->knobs;
    bool *done = check_calloc((size_t)tick->n_servers, sizeof *done);
    double mean = 0, flop = 0;
    for (int32_t i = 0; i < tick->n_servers; i++)
        mean += tick->flop[i] / tick->n_servers;
    for (int32_t turn = 0; turn < tick->n_servers; turn++) {
        int32_t server = -1;
        for (int32_t i = 0; i < tick->n_servers; i++)
            if (!done[i] && (server < 0 || tick->flop[i] < tick->flop[server]))
                server = i;
        done[server] = true;
        while (mean - tick->flop[server] > knobs->tolerance * mean) {
            int32_t piece = cheapest(tick, mean, mean - tick->flop[server], &flop);
            if (piece < 0)
                break;
            move(tick, piece, flop, server);
        }
    }
    free(done);
}

static int32_t overlap(int32_t begin, int32_t end, int32_t limit)
{
    int32_t last = end < limit ? end : limit;
    return last > begin ? last - begin : 0;
}

static int32_t stage_of(const struct tick *tick, const struct piece *piece)
{
    return piece->owner / tick->replicas;
}

/* Return whether two pieces are of one sample on one stage. */
static bool same_sample(const struct tick *tick, const struct piece *a, const struct piece *b)
{
    return a->sample == b->sample && stage_of(tick, a) == stage_of(tick, b);
}

/* Add the keys up to `end` of a piece's sample that other replicas send to its server, by owner (rule 7). */
static void add_keys(const struct tick *tick, const struct piece *piece, int32_t end, int64_t *keys)
{
    int32_t first = piece->origin;
    while (first > 0 && same_sample(tick, &tick->owned[first - 1], piece))
        first--;
    for (int32_t i = first; i < tick->n_owned && same_sample(tick, &tick->owned[i], piece); i++) {
        const struct piece *owned = &tick->owned[i];
        if (owned->owner != piece->server)
            keys[owned->owner] +=
                overlap(owned->head, owned->head_end, end) + overlap(owned->tail, owned->tail_end, end);
    }
}

static int by_server(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->server != y->server)
        return COMPARE(x->server, y->server);
    if (x->origin != y->origin) /* in order of stages, samples and owners */
        return COMPARE(x->origin, y->origin);
    return COMPARE(x->head, y->head);
}

static void add_queries(struct plan_phase *phase, const struct piece *piece)
{
    const struct slice head = {piece->sample, piece->head, piece->head_end},
                       tail = {piece->sample, piece->tail, piece->tail_end};
    if (head.end == tail.begin) {
        plan_add_block_slice(phase, (struct slice){piece->sample, head.begin, tail.end});
        return;
    }
    if (head.begin < head.end)
        plan_add_block_slice(phase, head);
    if (tail.begin < tail.end)
        plan_add_block_slice(phase, tail);
}

/* Append the blocks of the server of pieces [begin, end), in the order of by_server. */
static void add_blocks(const struct tick *tick, int32_t begin, int32_t end, int32_t first, const int32_t *micro_batch,
                       struct plan_phase *phase)
{
    int32_t replicas = tick->replicas, server = tick->pieces[begin].server, last = 0;
    int64_t *keys = check_calloc((size_t)tick->n_servers, sizeof *keys);
    bool *gives = check_calloc((size_t)tick->n_servers, sizeof *gives);
    for (int32_t i = begin; i < end; i++) {
        const struct piece *piece = &tick->pieces[i];
        gives[piece->owner] = true;
        last = piece->tail_end > last ? piece->tail_end : last;
        if (i + 1 < end && same_sample(tick, piece + 1, piece))
            continue;
        add_keys(tick, piece, last, keys);
        last = 0;
    }
    for (int32_t owner = 0; owner < tick->n_servers; owner++) {
        if (!gives[owner] && keys[owner] == 0)
            continue;
        int32_t from = owner / replicas, to = server / replicas;
        plan_add_block(phase, (struct plan_place){first + owner % replicas, from, micro_batch[from]},
                       (struct plan_place){first + server % replicas, to, micro_batch[to]}, 0);
        phase->blocks[phase->n_blocks - 1].keys = keys[owner];
        for (int32_t i = begin; gives[owner] && i < end; i++)
            if (tick->pieces[i].owner == owner)
                add_queries(phase, &tick->pieces[i]);
    }
    free(keys);
    free(gives);
}

/* Place the attention of one pass of a tick among the servers of the pool whose first pipeline is `first`. */
static void place(struct tick *tick, enum pass pass, int32_t first, const int32_t *micro_batch,
                  struct plan_phase *phase)
{
    const struct plan_pipeline *pipeline = &phase->pipelines[first];
    const struct distca_knobs *knobs = tick->request->knobs;
    tick->n = 0;
    memset(tick->flop, 0, (size_t)tick->n_servers * sizeof *tick->flop);
    for (int32_t stage = 0; stage < pipeline->layout.stages; stage++)
        if (micro_batch[stage] >= 0)
            add_micro_batch(tick, &pipeline->partition[pass], micro_batch[stage], stage);
    if (tick->n == 0)
        return;
    tick->n_owned = tick->n;
    tick->owned = check_malloc((size_t)tick->n * sizeof *tick->owned);
    memcpy(tick->owned, tick->pieces, (size_t)tick->n * sizeof *tick->owned);
    balance(tick);
    plan_add_attention(phase, pass, knobs->single_stream ? BESIDE_NOTHING : BESIDE_LINEAR);
    qsort(tick->pieces, (size_t)tick->n, sizeof *tick->pieces, by_server);
    for (int32_t begin = 0, end = 0; begin < tick->n; begin = end) {
        while (end < tick->n && tick->pieces[end].server == tick->pieces[begin].server)
            end++;
        add_blocks(tick, begin, end, first, micro_batch, phase);
    }
    free(tick->owned);
}

/* Order the pipelines of a pool in step, and place the attention of all ticks. */
static void place_all(const struct plan_request *request, int32_t first, int32_t replicas, struct plan_phase *phase)
{
    struct plan_pipeline *pipeline = &phase->pipelines[first];
    int32_t stages = pipeline->layout.stages;
    int32_t *ahead = check_malloc((size_t)pipeline->partition[PASS_BACKWARD].n_micro_batches * sizeof *ahead),
            *micro_batch = check_malloc((size_t)stages * sizeof *micro_batch);
    struct tick tick = {.request = request, .replicas = replicas, .n_servers = replicas * stages};
    tick.flop = check_malloc((size_t)tick.n_servers * sizeof *tick.flop);
    tick.curve = flop_attention_curve(request->setting->model, PASS_FORWARD);
    for (int32_t i = first; i < first + replicas; i++) {
        plan_fill_need(&phase->pipelines[i]);
        order_in_step(&phase->pipelines[i], ahead);
    }
    for (int32_t i = 0; i < order_n_ticks(pipeline, ahead); i++)
        for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++)
            if (order_tick(pipeline, ahead, i, pass, micro_batch) > 0)
                place(&tick, pass, first, micro_batch, phase);
    free(tick.pieces);
    free(tick.flop);
    free(ahead);
    free(micro_batch);
}

/* Return the micro-batches of a replica (rule 2). In step the first stage holds 2p - 1 of them, where 1F1B holds p. */
static int32_t n_micro_batches(const struct plan_request *request)
{
    const struct distca_knobs *knobs = request->knobs;
    int64_t pp = request->layout.pp, fits = packing_memory_tokens(request) * pp / (2 * pp - 1);
    int64_t window = fits > 0 && fits < request->context ? fits : request->context;
    int64_t windows = (request->batch->n_tokens + window - 1) / window;
    if (knobs->micro_batches > 0)
        return (int32_t)knobs->micro_batches;
    return (int32_t)((windows + request->layout.dp - 1) / request->layout.dp);
}

/* Assign samples to n bins (rule 2). @param bin  [samples] in the order of samples_by_length */
static void assign(const struct batch *batch, const int32_t *order, int32_t n, int32_t *bin)
{
    int64_t *tokens = check_calloc((size_t)n, sizeof *tokens);
    for (int32_t i = 0; i < batch->n_samples; i++) {
        bin[i] = 0;
        for (int32_t k = 1; k < n; k++)
            bin[i] = tokens[k] < tokens[bin[i]] ? k : bin[i];
        tokens[bin[i]] += batch->tokens[order[i]];
    }
    free(tokens);
}

/* Append all micro-batches to the pipelines of their pools. */
static void add_micro_batches(const struct plan_request *request, int32_t replicas, struct plan_phase *phase)
{
    const struct batch *batch = request->batch;
    const struct distca_knobs *knobs = request->knobs;
    int32_t pools = (int32_t)request->layout.dp / replicas, n = pools * n_micro_batches(request);
    int32_t *order = samples_by_length(batch), *bin = check_malloc((size_t)batch->n_samples * sizeof *bin);
    int32_t *first = check_malloc(((size_t)n + 1) * sizeof *first),
            *sample = check_malloc((size_t)batch->n_samples * sizeof *sample);
    assign(batch, order, n, bin);
    samples_by_bin(batch->n_samples, order, bin, n, first, sample);
    for (int32_t i = 0; i < n; i++)
        if (first[i + 1] > first[i])
            packing_add_shared(request, sample + first[i], first[i + 1] - first[i], i % pools * replicas, replicas,
                               phase);
    for (int32_t i = 0; i < phase->n_pipelines; i++)
        for (int pass = 0; pass < N_PASSES; pass++)
            for (int32_t k = 0; k < phase->pipelines[i].partition[pass].n_micro_batches; k++) {
                struct plan_micro_batch *micro_batch = &phase->pipelines[i].partition[pass].micro_batches[k];
                micro_batch->sharding = SLICE_PLACED;
                micro_batch->parts = knobs->single_stream ? 1 : 2;
            }
    free(order);
    free(bin);
    free(first);
    free(sample);
}

static bool distca_plan(const struct plan_request *request, void *state, struct plan *plan, struct error *err)
{
    const struct distca_knobs *knobs = request->knobs;
    int64_t dp = request->layout.dp, replicas = knobs->pool > 0 ? knobs->pool : dp;
    (void)state;
    if (replicas > dp || dp % replicas != 0)
        return error_set(err, "distca: pool: %" PRId64 " does not divide the %" PRId64 " replicas of the plan",
                         replicas, dp);
    packing_open_plan(request, plan);
    add_micro_batches(request, (int32_t)replicas, plan->phases);
    for (int32_t first = 0; first < dp; first += (int32_t)replicas)
        place_all(request, first, (int32_t)replicas, plan->phases);
    return true;
}

static const struct schema_key knobs[] = {
    {"tolerance", SCHEMA_REAL, "-", 0, 1, "0.05", NULL,
     "share of the mean attention that a server may lack before it takes more",
     offsetof(struct distca_knobs, tolerance)},
    {"pool", SCHEMA_INT, "replicas", 0, 1048576, "0", NULL,
     "replicas that share their attention servers, a divisor of plan.dp; 0: all", offsetof(struct distca_knobs, pool)},
    {"micro_batches", SCHEMA_INT, "micro-batches", 0, 65536, "0", NULL,
     "micro-batches of a replica; 0: windows of the context, or of the memory if that is less",
     offsetof(struct distca_knobs, micro_batches)},
    {"single_stream", SCHEMA_BOOL, "-", 0, 0, "false", NULL,
     "messages do not hide under the linear layers of another nano-batch",
     offsetof(struct distca_knobs, single_stream)},
};

const struct training_system system_distca = {
    .name = "distca",
    .source = "DistCA (arXiv:2510.18121)",
    .meaning =
        "equal tokens on all ranks, attention moved between them until each has as much, two nano-batches in turn",
    .knobs = knobs,
    .n_knobs = sizeof knobs / sizeof *knobs,
    .knobs_size = sizeof(struct distca_knobs),
    .degrees = SYSTEM_TP | SYSTEM_PP,
    .decides = system_decides_schedule,
    .plan = distca_plan,
    .lower_bound_s = batch_bound_shared_s,
};
