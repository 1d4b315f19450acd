/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** A row of a file. */
struct row {
    const struct measured *file;
    int32_t index;
};

static const char *text(struct row row, const char *column)
{
    return measured_text(row.file, row.index, column);
}

/** Return a number like measured_number does. A range ("46-48") gives its middle. An empty cell or any other text gives
 * 0. */
static double number(struct row row, const char *column)
{
    struct error err = {0};
    double value;
    if (measured_number(row.file, row.index, column, &value, &err))
        return value;
    char *end;
    double first = strtod(text(row, column), &end), last = *end == '-' ? strtod(end + 1, &end) : 0;
    return 0 <= first && first < last && isfinite(last) && *end == '\0' ? (first + last) / 2 : 0;
}

static bool is(struct row row, const char *column, const char *value)
{
    return strcmp(text(row, column), value) == 0;
}

static bool has(struct row row, const char *column, const char *part)
{
    return strstr(text(row, column), part) != NULL;
}

/** The machine that a word of device.rows means. */
struct machine {
    bool measured; /* the row's column gpu contains the word */
    double hbm_bytes_per_s;
};

/** Return the machine of a row. "H200@4.8e12" is a GPU of the same chip with other memory. */
static struct machine machine_of(struct row row, const struct device *device)
{
    char words[sizeof device->rows], *rest = words, *word;
    memcpy(words, device->rows, sizeof words);
    while ((word = strsep(&rest, " ")) != NULL) {
        char *at = strchr(word, '@');
        if (at != NULL)
            *at = '\0';
        if (*word != '\0' && has(row, "gpu", word))
            return (struct machine){true, at != NULL ? strtod(at + 1, NULL) : device->hbm_bytes_per_s};
    }
    return (struct machine){0};
}

static bool taken(struct row row, const struct sample_source *source)
{
    return is(row, "split", source->open ? "open" : "calib") && machine_of(row, source->device).measured;
}

static struct sample *add(struct samples *samples, struct row row, double seconds)
{
    samples->sample = check_grow(samples->sample, (size_t)samples->n, &samples->capacity, sizeof *samples->sample);
    struct sample *sample = &samples->sample[samples->n++];
    const char *machine = measured_column(row.file, "machine") >= 0 ? text(row, "machine") : "";
    *sample = (struct sample){.file = row.file,
                              .row = row.index,
                              .id = text(row, "id"),
                              .seconds = seconds,
                              .other_release = has(row, "source", "measure_kernels.py") ||
                                               has(row, "source", "measure_precision.py") || *machine != '\0',
                              .machine = machine};
    return sample;
}

int32_t samples_left(const struct sample_source *source, const struct measured *file, const bool *fitted,
                     struct samples *samples)
{
    int32_t n_own = 0;
    for (int32_t i = 0; i < file->n_rows; i++) {
        struct row row = {file, i};
        bool own = taken(row, source);
        n_own += own;
        if (own && !fitted[i])
            add(samples, row, 0);
    }
    return n_own;
}

void samples_free(struct samples *samples)
{
    free(samples->sample);
    *samples = (struct samples){0};
}

static bool is_search(struct row row)
{
    return has(row, "op", "max over a shape search");
}

/** Return the highest rate that a search over shapes sustained [TFLOP/s]. */
static double ceiling(const struct sample_source *source)
{
    double most = INFINITY;
    for (int32_t i = 0; i < source->kernels->n_rows; i++) {
        struct row row = {source->kernels, i};
        if (machine_of(row, source->device).measured && is(row, "kind", "gemm") && is(row, "dtype", "bf16") &&
            is(row, "split", "calib") && is_search(row))
            most = number(row, "tflops") * 1.01;
    }
    return most;
}

/** Return whether a row's GEMM has this precision, by its number format and its library. */
static bool has_precision(struct row row, enum precision precision)
{
    bool fp8 = has(row, "dtype", "fp8"), block = has(row, "library", "1x128"),
         tensor = has(row, "library", "of a tensor");
    if (precision == PRECISION_MXFP8)
        return has(row, "dtype", "mxfp8");
    return precision == PRECISION_BF16         ? !fp8
           : precision == PRECISION_FP8_TENSOR ? is(row, "dtype", "fp8") && tensor
                                               : is(row, "dtype", "fp8") && block;
}

void samples_gemm(const struct sample_source *source, enum precision precision, struct samples *samples)
{
    double most = precision == PRECISION_BF16 ? ceiling(source) : INFINITY;
    for (int32_t i = 0; i < source->kernels->n_rows; i++) {
        struct row row = {source->kernels, i};
        double m = number(row, "m"), n = number(row, "n"), k = number(row, "k"), rate = number(row, "tflops");
        double seconds = number(row, "time_ms") * 1e-3;
        if (seconds == 0 && rate > 0)
            seconds = 2 * m * n * k / rate * 1e-12;
        if (!taken(row, source) || !is(row, "kind", "gemm") || !has_precision(row, precision) || is_search(row) ||
            m == 0 || n == 0 || k == 0 || seconds == 0 || rate > most)
            continue;
        struct sample *sample = add(samples, row, seconds);
        double sum_bytes = has(row, "op", "to fp32") ? 8 : has(row, "op", "to bf16") ? 4 : 0;
        sample->gemm = (struct cost_gemm){1, m, n, k, sum_bytes, precision, DEVICE_SEQUENTIAL};
        const double span[] = {m, n, k};
        memcpy(sample->span, span, sizeof span);
    }
}

static bool same_shape(struct row a, struct row b)
{
    static const char *const columns[] = {"gpu", "library", "batch", "seq_len", "heads", "head_dim", "causal"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!is(b, columns[i], text(a, columns[i])))
            return false;
    return strncmp(text(a, "kind"), "attention", 9) == 0 && strncmp(text(b, "kind"), "attention", 9) == 0;
}

/** Find the row of the same kernel and shape that timed `pass`. Its index is -1 if there is none. */
static struct row of_pass(struct row row, const char *pass)
{
    for (int32_t i = 0; i < row.file->n_rows; i++) {
        struct row other = {row.file, i};
        if (is(other, "pass", pass) && is(other, "split", "calib") && same_shape(row, other))
            return other;
    }
    return (struct row){row.file, -1};
}

static bool of_kernel(struct row row, enum device_attention kernel)
{
    if (kernel == DEVICE_FLASH2)
        return has(row, "library", "FlashAttention-2") || has(row, "library", "FA2");
    return has(row, "library", kernel == DEVICE_FLASH3 ? "FlashAttention-3" : "cuDNN");
}

static bool is_plain(struct row row)
{
    double width = number(row, "head_dim");
    bool named =
        is(row, "kind", "attention") || is(row, "kind", "attention-varlen") || is(row, "kind", "attention-slice");
    return named && !has(row, "op", "sliding") && !has(row, "shape_note", "head_dim_vo") &&
           (width == 64 || width == 128);
}

/** Return the number of keys that the last query sees. */
static double keys_of(struct row row)
{
    double keys = measured_column(row.file, "keys") >= 0 ? number(row, "keys") : 0;
    return keys > 0 ? keys : number(row, "seq_len");
}

/** Return the FLOPs of the forward pass of all sequences. */
static double forward_flop(struct row row)
{
    double queries = number(row, "seq_len"), keys = keys_of(row);
    double seen = is(row, "causal", "1") ? keys - queries / 2 : keys;
    return 4 * number(row, "batch") * number(row, "heads") * queries * seen * number(row, "head_dim");
}

/** Return the sequences in the form of cost_of_pass. */
static struct cost_attention attention_of(struct row row, enum pass pass)
{
    bool forward = pass == PASS_FORWARD, causal = is(row, "causal", "1");
    double queries = number(row, "seq_len"), keys = keys_of(row), width = number(row, "head_dim");
    double tiles = number(row, "batch") * number(row, "heads") * ceil((forward ? queries : keys) / COST_ATTENTION_TILE);
    return (struct cost_attention){.flop = forward_flop(row) * (forward ? 1 : 2.5),
                                   .queries = causal ? queries * (2 * keys - queries) / keys : queries,
                                   .keys = causal ? 2 * keys - queries : keys,
                                   .head_dim = width,
                                   .tile_flop = forward ? 4 * COST_ATTENTION_TILE * width * keys
                                                        : 10 * COST_ATTENTION_TILE * width * queries,
                                   .tiles = tiles};
}

static double attention_seconds(struct row row, double flop)
{
    double rate = number(row, "tflops"), milliseconds = number(row, "time_ms");
    return milliseconds > 0 ? milliseconds * 1e-3 : rate > 0 ? flop / rate * 1e-12 : 0;
}

/** Return the seconds of a pass; 0: the row does not give them. */
static double seconds_of(struct row row, enum pass pass)
{
    double flop = forward_flop(row);
    if (is(row, "pass", pass == PASS_FORWARD ? "fwd" : "bwd"))
        return attention_seconds(row, pass == PASS_FORWARD ? flop : 2.5 * flop);
    if (pass == PASS_FORWARD || !is(row, "pass", "fwd+bwd") || of_pass(row, "bwd").index >= 0)
        return 0;
    struct row forward = of_pass(row, "fwd");
    double both_s = attention_seconds(row, 3.5 * flop);
    return forward.index >= 0 && both_s > 0 ? both_s - attention_seconds(forward, flop) : 0;
}

void samples_attention(const struct sample_source *source, enum device_attention kernel, enum pass pass,
                       struct samples *samples)
{
    for (int32_t i = 0; i < source->kernels->n_rows; i++) {
        struct row row = {source->kernels, i};
        if (!taken(row, source) || !is_plain(row) || !of_kernel(row, kernel))
            continue;
        double seconds = seconds_of(row, pass);
        if (seconds <= 0 || number(row, "seq_len") == 0)
            continue;
        struct sample *sample = add(samples, row, seconds);
        sample->causal = is(row, "causal", "1");
        sample->from_host = is(row, "kind", "attention-varlen");
        sample->attention = attention_of(row, pass);
        sample->span[0] = sample->attention.keys * (sample->causal ? 1 : 2);
        sample->span[1] = sample->attention.head_dim;
    }
}

/** Bytes of an element that cost/ counts, by bench. less_forward: the row's time includes the forward pass. */
static const struct {
    const char *op, *library, *pass;
    double bytes;
    enum device_memory_kind kind;
    bool less_forward;
} fused[] = {
    {"megatron_rms_norm", "liger", "fwd", 4, DEVICE_NORM, false},
    {"rms_norm", "cudnn", "fwd", 4, DEVICE_NORM, false},
    {"rms_norm", "cudnn", "bwd", 6, DEVICE_NORM, false},
    {"layer_norm", "PyTorch", "fwd", 4, DEVICE_LAYER_NORM, false},
    {"layer_norm", "PyTorch", "bwd", 10, DEVICE_LAYER_NORM, false},
    {"gelu", "PyTorch", "fwd", 4, DEVICE_GELU, false},
    {"gelu", "PyTorch", "bwd", 6, DEVICE_GELU, false},
    {"compiled swiglu", "PyTorch", "fwd", 6, DEVICE_GELU, false},
    {"compiled swiglu", "PyTorch", "bwd", 10, DEVICE_GELU, false},
    {"megatron_swiglu", "liger", "fwd", 6, DEVICE_ACTIVATION, false},
    {"megatron_swiglu", "megatron", "fwd", 6, DEVICE_ACTIVATION, false},
    {"megatron_swiglu", "liger", "bwd", 10, DEVICE_ACTIVATION, true},
    {"megatron_cross_entropy", "megatron-fused", "fwd", 30, DEVICE_LOSS, false},
    {"megatron_cross_entropy", "megatron-fused", "bwd", 14, DEVICE_LOSS, true},
};

/** Return the time of the forward pass of the same bench and shape [s]. */
static double forward_s(struct row row)
{
    for (int32_t i = 0; i < row.file->n_rows; i++) {
        struct row other = {row.file, i};
        if (is(other, "op", text(row, "op")) && is(other, "library", text(row, "library")) &&
            is(other, "pass", "fwd") && is(other, "m", text(row, "m")) && is(other, "n", text(row, "n")))
            return number(other, "time_ms") * 1e-3;
    }
    return INFINITY;
}

static void add_fused(struct row row, enum device_memory_kind kind, double scale, struct samples *samples)
{
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
        if (fused[i].kind != kind || !is(row, "op", fused[i].op) || !is(row, "library", fused[i].library) ||
            !is(row, "pass", fused[i].pass))
            continue;
        double seconds = number(row, "time_ms") * 1e-3 - (fused[i].less_forward ? forward_s(row) : 0);
        double columns = number(row, "n");
        if (seconds <= 0 || columns < 1024)
            continue; /* a narrower row has no width of a hidden state */
        struct sample *sample = add(samples, row, seconds);
        sample->span[0] = fused[i].bytes * number(row, "m") * columns;
        sample->bytes = sample->span[0] * scale;
        sample->from_host =
            has(row, "op", "megatron_") && !fused[i].less_forward; /* Liger's bench puts events around the call */
    }
}

/** Add copies and casts, whose bytes the bench counts. */
static void add_copy(struct row row, double scale, struct samples *samples)
{
    double rate = number(row, "gbps") * 1e9, seconds = number(row, "time_ms") * 1e-3;
    bool copy = has(row, "op", "device-to-device copy"),
         cast = has(row, "library", "torchao") || has(row, "op", "cast,");
    if ((!copy && !cast) || rate == 0)
        return;
    struct sample *sample = add(samples, row, seconds > 0 ? seconds : 1);
    sample->bytes = rate * sample->seconds * scale;
    sample->span[0] = rate * seconds;
}

void samples_memory(const struct sample_source *source, enum device_memory_kind kind, struct samples *samples)
{
    for (int32_t i = 0; i < source->kernels->n_rows; i++) {
        struct row row = {source->kernels, i};
        if (!taken(row, source) || !is(row, "kind", "memory-bound"))
            continue;
        double scale = source->device->hbm_bytes_per_s / machine_of(row, source->device).hbm_bytes_per_s;
        if (kind == DEVICE_COPY)
            add_copy(row, scale, samples);
        else
            add_fused(row, kind, scale, samples);
    }
}

/** Return the bytes that a GPU sends and receives, as the bench counts its bus bandwidth. */
static double bus_bytes(struct row row)
{
    double ranks = number(row, "n_gpus"), bytes = number(row, "size_bytes");
    double share = ranks > 0 ? (ranks - 1) / ranks : 0;
    return is(row, "collective", "all_reduce") ? 2 * share * bytes : share * bytes;
}

static double collective_seconds(struct row row)
{
    double microseconds = number(row, "time_us"), rate = number(row, "algbw_GBps"), bus = number(row, "busbw_GBps");
    if (microseconds > 0)
        return microseconds * 1e-6;
    return rate > 0 ? number(row, "size_bytes") / rate * 1e-9 : bus > 0 ? bus_bytes(row) / bus * 1e-9 : 0;
}

static bool of_collective(struct row row, enum device_collective_kind kind)
{
    static const char *const names[] = {"all_gather", "reduce_scatter", "all_reduce", "all_reduce", "alltoall"};
    double ranks = number(row, "n_gpus");
    bool ring = has(row, "algo", "Ring"), switches = ranks >= 5 && !ring;
    if (!is(row, "collective", names[kind]) || number(row, "n_nodes") != 1)
        return false;
    return kind == DEVICE_ALL_REDUCE ? !switches : kind == DEVICE_NVLS ? switches : true;
}

/** Add a message of one byte at a plateau's bandwidth. */
static void add_plateau(struct samples *samples, struct row row, double bytes_per_s)
{
    struct sample *sample = add(samples, row, 1 / bytes_per_s);
    sample->bytes = 1;
    sample->ranks = 1;
}

void samples_collective(const struct sample_source *source, enum device_collective_kind kind, struct samples *samples)
{
    for (int32_t i = 0; source->collectives != NULL && i < source->collectives->n_rows; i++) {
        struct row row = {source->collectives, i};
        if (!taken(row, source) || !of_collective(row, kind))
            continue;
        double bytes = number(row, "size_bytes"), seconds = collective_seconds(row);
        if (kind == DEVICE_ALL_TO_ALL && number(row, "busbw_GBps") > 0)
            add_plateau(samples, row, number(row, "busbw_GBps") * 1e9);
        if (bytes == 0 || seconds == 0)
            continue;
        struct sample *sample = add(samples, row, seconds);
        sample->bytes = bytes;
        sample->ranks = (int32_t)number(row, "n_gpus");
        sample->span[0] = kind == DEVICE_NVLS ? bytes : bus_bytes(row);
    }
}

void samples_fabric(const struct sample_source *source, struct samples *samples)
{
    for (int32_t i = 0; source->collectives != NULL && i < source->collectives->n_rows; i++) {
        struct row row = {source->collectives, i};
        double seconds = collective_seconds(row), nodes = number(row, "n_nodes"), ranks = number(row, "n_gpus");
        if (!taken(row, source) || !is(row, "collective", "all_reduce") || nodes < 2 || seconds == 0 || ranks == 0 ||
            number(row, "size_bytes") == 0)
            continue;
        struct sample *sample = add(samples, row, seconds);
        sample->bytes = number(row, "size_bytes");
        sample->ranks = (int32_t)ranks;
        sample->nodes = (int32_t)nodes;
        sample->span[0] = bus_bytes(row) * nodes / ranks;
    }
}

void samples_link(const struct sample_source *source, bool same_node, struct samples *samples)
{
    for (int32_t i = 0; source->collectives != NULL && i < source->collectives->n_rows; i++) {
        struct row row = {source->collectives, i};
        double seconds = collective_seconds(row), bytes = number(row, "size_bytes");
        if (!taken(row, source) || !is(row, "collective", "send_recv") || bytes == 0 || seconds == 0 ||
            (number(row, "n_nodes") == 1) != same_node)
            continue;
        struct sample *sample = add(samples, row, seconds);
        sample->bytes = sample->span[0] = bytes;
    }
}

void samples_nic_plateau(const struct sample_source *source, struct samples *samples)
{
    for (int32_t i = 0; source->collectives != NULL && i < source->collectives->n_rows; i++) {
        struct row row = {source->collectives, i};
        bool one_flow = is(row, "collective", "alltoall") || is(row, "collective", "point-to-point") ||
                        is(row, "collective", "send/recv over one 400G NIC");
        double rate = number(row, "busbw_GBps") * 1e9;
        if (taken(row, source) && one_flow && number(row, "n_nodes") != 1 && rate > 0)
            add_plateau(samples, row, rate);
    }
}

void samples_pcie(const struct sample_source *source, struct samples *samples)
{
    for (int32_t i = 0; source->collectives != NULL && i < source->collectives->n_rows; i++) {
        struct row row = {source->collectives, i};
        double rate = number(row, "algbw_GBps") * 1e9, bytes = number(row, "size_bytes");
        double seconds = number(row, "time_us") * 1e-6;
        if (!taken(row, source) || !has(row, "collective", "copy (PCIe"))
            continue;
        if (bytes > 0 && seconds > 0) {
            struct sample *sample = add(samples, row, seconds);
            sample->bytes = sample->span[0] = bytes;
        } else if (rate > 0) {
            add_plateau(samples, row, rate);
        }
    }
}
