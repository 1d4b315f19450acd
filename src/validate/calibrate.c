/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/calibrate.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "validate/families.h"

/** A family while it is fitted. */
struct work {
    const struct family *family;
    struct samples samples;
    struct device device;
    double beside[FAMILY_N_BESIDE];
    struct family_unknown unknowns[FAMILY_MAX_UNKNOWNS]; /* unknowns of the family; some may be held fixed here */
    struct fit_parameter parameters[FAMILY_MAX_UNKNOWNS];
    int32_t n_free, free[FAMILY_MAX_UNKNOWNS];
};

static double *value_at(struct work *work, size_t offset)
{
    if (offset >= FAMILY_BESIDE)
        return &work->beside[offset - FAMILY_BESIDE];
    return (double *)(void *)((char *)&work->device + offset);
}

static void predict(void *context, const double *values, double *predicted)
{
    struct work *work = context;
    for (int32_t i = 0; i < work->n_free; i++)
        *value_at(work, work->unknowns[work->free[i]].offset) = values[i];
    for (int32_t i = 0; i < work->samples.n; i++)
        predicted[i] = work->family->seconds(work->family, &work->device, &work->samples.sample[i], work->beside);
}

static void hold(struct family_unknown *unknown, double value)
{
    unknown->parameter = (struct fit_parameter){value, 0};
}

/** Properties that differ among the samples of attention. */
struct variety {
    bool masked, unmasked, widths, grids, slices;
};

static struct variety variety_of(const struct samples *samples)
{
    struct variety variety = {0};
    for (int32_t i = 0; i < samples->n; i++) {
        const struct sample *a = &samples->sample[i];
        *(a->causal ? &variety.masked : &variety.unmasked) = true;
        variety.slices = variety.slices || a->attention.keys != a->attention.queries;
        for (int32_t j = 0; j < i; j++) {
            const struct sample *b = &samples->sample[j];
            double ratio = a->attention.flop / a->attention.tile_flop * b->attention.tile_flop / b->attention.flop;
            bool same_width = a->attention.head_dim == b->attention.head_dim;
            variety.widths = variety.widths || !same_width;
            variety.grids = variety.grids || (same_width && a->causal == b->causal && fabs(log(ratio)) > log(1.5));
        }
    }
    return variety;
}

static struct family_unknown *unknown_at(struct work *work, size_t offset)
{
    for (int32_t i = 0; i < work->family->n_unknowns; i++)
        if (work->unknowns[i].offset == offset)
            return &work->unknowns[i];
    return NULL;
}

/** Hold the unknowns that belong to a kind of measurement, if no row or every row was measured so. A factor between
 * machines that another curve's rows tell stays. */
static void hold_beside(struct work *work)
{
    struct family_unknown *host = unknown_at(work, FAMILY_BESIDE + FAMILY_HOST_S),
                          *release = unknown_at(work, FAMILY_BESIDE + FAMILY_RELEASE);
    int32_t from_host = 0, other = 0;
    for (int32_t i = 0; i < work->samples.n; i++) {
        from_host += work->samples.sample[i].from_host;
        other += work->samples.sample[i].other_release;
    }
    if (host != NULL && from_host == 0)
        hold(host, 0);
    if (release != NULL && release->parameter.max > 0 && (other == 0 || other == work->samples.n))
        hold(release, 1);
}

/** Hold an unknown at the value of the device `like`, or at `otherwise` without such a device. */
static void hold_as(struct family_unknown *unknown, const struct device *like, double otherwise)
{
    hold(unknown, like != NULL ? *(const double *)(const void *)((const char *)like + unknown->offset) : otherwise);
}

/** Hold the shape of a GEMM curve at that of the device `like` if there are few rows for each unknown. The rows then
 * determine one factor, the efficiency. */
static void hold_shape(struct work *work, const struct device *like, struct calibration_fit *fit)
{
    int32_t n_free = 0;
    for (int32_t i = 0; i < work->family->n_unknowns; i++)
        n_free += work->unknowns[i].parameter.max > 0;
    fit->is_scaled = like != NULL && like->gemm[work->family->kind].efficiency > 0 && n_free <= work->samples.n &&
                     work->samples.n < CALIBRATION_ROWS_OF_UNKNOWN * n_free;
    for (int32_t i = 1; fit->is_scaled && i < work->family->n_unknowns; i++) /* the first is the efficiency */
        if (work->unknowns[i].offset < FAMILY_BESIDE && work->unknowns[i].parameter.max > 0)
            hold_as(&work->unknowns[i], like, 0);
}

/** Hold the unknowns that attention's rows do not determine. calibration_fit.note names them. */
static void hold_unseen(struct work *work, const struct device *like, struct calibration_fit *fit)
{
    struct variety variety = variety_of(&work->samples);
    bool forward = work->family->kind % N_PASSES == PASS_FORWARD;
    struct family_unknown *unknown = work->unknowns; /* in the order of families.c */
    if (!variety.masked || !variety.unmasked)
        hold(unknown_at(work, FAMILY_BESIDE + FAMILY_UNMASKED), 1);
    if (!variety.widths)
        hold_as(&unknown[3], like, 0);
    if (!variety.slices) { /* the halves add up, and half a tile of padding is certain */
        hold(&unknown[forward ? 1 : 2], COST_ATTENTION_TILE / 2.0);
        hold(&unknown[5], 1);
        hold(&unknown[6], work->device.launch_s);
    }
    if (!variety.grids) {
        hold(&unknown[4], 0.5);
        fit->note = variety.masked ? "tail: assumed half a tile, all grids are alike"
                                   : "no row has a mask: s tokens stand for a causal sample of 2 s; tail: assumed half "
                                     "a tile, all grids are alike";
    }
}

/** Hold the share of adding to a sum if no row measures it. It is taken from `like`, or from copies. */
static void hold_sum(struct work *work, const struct device *like, struct calibration_fit *fit)
{
    struct family_unknown *sum = unknown_at(work, offsetof(struct device, gemm[work->family->kind].sum));
    for (int32_t i = 0; i < work->samples.n; i++)
        if (work->samples.sample[i].gemm.sum_bytes > 0)
            return;
    if (sum == NULL)
        return;
    if (family_is_optional(work->family)) {
        hold(sum, work->device.gemm[PRECISION_BF16].sum);
        return;
    }
    hold_as(sum, like, work->device.memory_share[DEVICE_COPY]);
    fit->note = like != NULL ? "sum: no row, as the device under like" : "sum: no row, as copies";
}

double calibration_rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.5g", value);
    return strtod(text, NULL);
}

static void widen(struct device_range *range, double value)
{
    if (value <= 0)
        return;
    range->min = range->max > 0 ? fmin(range->min, value) : value;
    range->max = fmax(range->max, value);
}

/** Write a row's identifier, or its line if it has none. */
static void write_name(FILE *file, const struct sample *sample)
{
    if (*sample->id != '\0')
        fputs(sample->id, file);
    else
        fprintf(file, "line %d", sample->file->lines[sample->row]);
}

/** List the rows of samples: K001 K002 K003 K010 -> K001-K003 K010. Other identifiers are unchanged. */
static char *rows_text(const struct samples *samples)
{
    size_t bytes = 0;
    char *text = NULL;
    FILE *file = check_memstream(&text, &bytes);
    for (int32_t i = 0, last; i < samples->n; i = last + 1) {
        const char *id = samples->sample[i].id;
        int64_t number = strtoll(id + strcspn(id, "0123456789"), NULL, 10);
        for (last = i; last + 1 < samples->n; last++) {
            const char *next = samples->sample[last + 1].id;
            if (next[0] != id[0] || strtoll(next + strcspn(next, "0123456789"), NULL, 10) != number + last + 1 - i)
                break;
        }
        fputs(i == 0 ? "" : *id == '\0' ? ", " : " ", file);
        write_name(file, &samples->sample[i]);
        if (last > i)
            fprintf(file, "-%s", samples->sample[last].id);
    }
    CHECK(fclose(file) == 0);
    return text;
}

/** Name the rows that FAMILY_RELEASE belongs to. */
static const char *other_of(const struct work *work)
{
    for (int32_t i = 0; i < work->samples.n; i++)
        if (*work->samples.sample[i].machine != '\0')
            return work->samples.sample[i].machine;
    return "measure_kernels.py";
}

static void describe_beside(const struct work *work, struct calibration_fit *fit)
{
    for (int32_t i = 0; i < work->n_free; i++) {
        size_t offset = work->unknowns[work->free[i]].offset, used = strlen(fit->extra),
               room = sizeof fit->extra - used;
        if (offset == FAMILY_BESIDE + FAMILY_HOST_S)
            snprintf(fit->extra + used, room, "events around the call %.3g s; ", work->beside[FAMILY_HOST_S]);
        if (offset == FAMILY_BESIDE + FAMILY_UNMASKED)
            snprintf(fit->extra + used, room, "unmasked %.3g; ", work->beside[FAMILY_UNMASKED]);
        if (offset == FAMILY_BESIDE + FAMILY_RELEASE)
            snprintf(fit->extra + used, room, "rows of %s x %.3g; ", other_of(work), work->beside[FAMILY_RELEASE]);
        if (offset == FAMILY_BESIDE + FAMILY_PLATEAU)
            snprintf(fit->extra + used, room, "plateau %.3g of the NIC; ", work->beside[FAMILY_PLATEAU]);
    }
    if (fit->extra[0] != '\0')
        fit->extra[strlen(fit->extra) - 2] = '\0';
}

static void solve(struct work *work, struct calibration_fit *fit)
{
    double *measured = check_malloc((size_t)work->samples.n * sizeof *measured), values[FAMILY_MAX_UNKNOWNS];
    struct fit_problem problem = {work->n_free, work->samples.n, work->parameters, measured, predict, work};
    for (int32_t i = 0; i < work->samples.n; i++)
        measured[i] = work->samples.sample[i].seconds;
    fit_robust(&problem, values);
    for (int32_t i = 0; i < work->n_free; i++)
        values[i] = values[i] < 1e-9 * work->parameters[i].max ? 0 : calibration_rounded(values[i]);
    fit->quality = fit_quality_of(&problem, values);
    fit->n_rows = work->samples.n;
    fit->rows = rows_text(&work->samples);
    snprintf(fit->worst, sizeof fit->worst, "%s", work->samples.sample[fit->quality.worst].id);
    describe_beside(work, fit);
    for (int32_t i = 0; i < work->samples.n; i++)
        for (int32_t j = 0; j < work->family->n_ranges; j++)
            widen((struct device_range *)(void *)((char *)&work->device + work->family->ranges[j]),
                  work->samples.sample[i].span[j]);
    free(measured);
}

/** Compare the curve with the rows of split open. */
static void check_open(struct work *work, const struct sample_source *source, struct calibration_fit *fit)
{
    struct sample_source open = *source;
    struct samples fitted = work->samples;
    double values[FAMILY_MAX_UNKNOWNS];
    open.open = true;
    work->samples = (struct samples){0};
    work->family->select(work->family, &open, &work->samples);
    fit->n_open = work->samples.n;
    if (fit->n_open > 0) {
        double *measured = check_malloc((size_t)fit->n_open * sizeof *measured);
        struct fit_problem problem = {work->n_free, fit->n_open, work->parameters, measured, predict, work};
        for (int32_t i = 0; i < work->n_free; i++)
            values[i] = *value_at(work, work->unknowns[work->free[i]].offset);
        for (int32_t i = 0; i < fit->n_open; i++)
            measured[i] = work->samples.sample[i].seconds;
        fit->open = fit_quality_of(&problem, values);
        free(measured);
    }
    samples_free(&work->samples);
    work->samples = fitted;
}

/** Widen the measured ranges by those of the device `like`. */
static void widen_as(struct work *work, const struct device *like)
{
    for (int32_t i = 0; i < work->family->n_ranges; i++) {
        struct device_range *range = (struct device_range *)(void *)((char *)&work->device + work->family->ranges[i]);
        const struct device_range *other = (const void *)((const char *)like + work->family->ranges[i]);
        widen(range, other->min);
        widen(range, other->max);
    }
}

static bool copy(struct work *work, const struct device *like, struct error *err)
{
    const struct family *family = work->family;
    if (like == NULL)
        return error_set(
            err,
            "%s: %s: %d rows of split calib are of this device (their column gpu contains a word of '%s'), but %d are "
            "needed; add rows, or name a device under like: from which the curve is copied",
            work->device.name, family->name, work->samples.n, work->device.rows, work->n_free);
    for (int32_t i = 0; i < family->n_unknowns; i++)
        if (family->unknowns[i].offset < FAMILY_BESIDE)
            *value_at(work, family->unknowns[i].offset) =
                *(const double *)(const void *)((const char *)like + family->unknowns[i].offset);
    if (family_is_optional(family))
        work->device.gemm[family->kind].sum = work->device.gemm[PRECISION_BF16].sum;
    widen_as(work, like);
    return true;
}

static bool fit_family(struct work *work, const struct device *like, struct calibration_fit *fit, struct error *err)
{
    const struct family *family = work->family;
    memcpy(work->unknowns, family->unknowns, sizeof work->unknowns);
    hold_beside(work);
    hold_sum(work, like, fit);
    if (family_is_gemm(family))
        hold_shape(work, like, fit);
    if (family_is_attention(family))
        hold_unseen(work, like, fit);
    work->n_free = 0;
    for (int32_t i = 0; i < family->n_unknowns; i++) {
        *value_at(work, work->unknowns[i].offset) = work->unknowns[i].parameter.start;
        if (work->unknowns[i].parameter.max > 0) {
            work->parameters[work->n_free] = work->unknowns[i].parameter;
            work->free[work->n_free++] = i;
        }
    }
    fit->n_found = work->samples.n;
    fit->n_needed = work->n_free;
    if (work->samples.n < work->n_free) {
        fit->note = NULL;
        return copy(work, like, err);
    }
    solve(work, fit);
    if (fit->is_scaled)
        widen_as(work, like);
    return true;
}

/**
 * Return the efficiency of flash-attention 2 that a device takes from another one. The kernel issues the instructions
 * of an A100's tensor cores on all devices. It therefore does the same work per clock and multiprocessor everywhere.
 */
static double flash2_efficiency(double efficiency, const struct device *like, const struct device *device)
{
    CHECK(like != NULL); /* copy() refuses a device without rows and without another device */
    double own = device->tensor_flop_per_clock, other = like->tensor_flop_per_clock;
    return own > 0 && other > 0 ? fmin(1, calibration_rounded(efficiency * other / own)) : efficiency;
}

/** Take a value that no row determines from another curve, as the families' notes say. */
static void borrow(const struct calibration_fit *fit, const struct device *like, struct device *device)
{
    struct device_flash *forward = &device->forward[DEVICE_FLASH2], *backward = &device->backward[DEVICE_FLASH2];
    if (fit->n_rows == 0 && strcmp(fit->name, "attention.flash2.forward") == 0)
        forward->efficiency = flash2_efficiency(forward->efficiency, like, device);
    if (fit->n_rows == 0 && strcmp(fit->name, "attention.flash2.backward") == 0)
        backward->efficiency = flash2_efficiency(backward->efficiency, like, device);
    if (strcmp(fit->name, "gemm_fp8_tensor") == 0 && device->mxfp8 > 0) {
        struct device_gemm *mxfp8 = &device->gemm[PRECISION_MXFP8];
        *mxfp8 = device->gemm[PRECISION_FP8_TENSOR];
        mxfp8->efficiency = calibration_rounded(device->mxfp8 * mxfp8->efficiency);
    }
    struct device_collective *all = &device->collective[DEVICE_ALL_TO_ALL];
    const struct device_collective *gather = &device->collective[DEVICE_ALL_GATHER];
    if (fit->n_rows > 0 && strcmp(fit->name, "collective.all_to_all") == 0) {
        double efficiency = all->efficiency;
        *all = *gather;
        all->efficiency = efficiency;
    }
    if (fit->n_rows > 0 && strcmp(fit->name, "pcie") == 0 && device->pcie.bytes.max == 0)
        device->pcie.latency_s = device->nvlink.latency_s;
}

static bool check_links(const struct sample_source *source, struct error *err)
{
    const struct device *device = source->device;
    if (source->collectives == NULL || device->rows[0] == '\0' ||
        (device->measured_nvlink_bytes_per_s > 0 && device->measured_nic_bytes_per_s > 0 &&
         device->measured_pcie_bytes_per_s > 0))
        return true;
    return error_set(
        err,
        "%s: collectives need the bandwidths of the links they ran on: measured.nvlink, measured.nic and measured.pcie",
        device->name);
}

/** Check that no kernel exceeds the peak, which means that its row has other units. */
static bool check_peak(const struct work *work, struct error *err)
{
    for (int32_t i = 0; i < work->samples.n; i++) {
        const struct sample *sample = &work->samples.sample[i];
        const struct cost_gemm *gemm = &sample->gemm;
        double peak = work->device.peak_flop_per_s[gemm->precision];
        double rate = (2 * gemm->m * gemm->n * gemm->k + sample->attention.flop) / sample->seconds;
        if (rate > peak)
            return error_set(err,
                             "%s:%d: %s%s%.4g TFLOP/s is more than the peak of %s, %.4g TFLOP/s; allowed: time_ms in "
                             "milliseconds, tflops in TFLOP/s",
                             sample->file->path, sample->file->lines[sample->row], sample->id,
                             *sample->id != '\0' ? ": " : "", rate * 1e-12, work->device.name, peak * 1e-12);
    }
    return true;
}

static void mark(const struct samples *samples, const struct sample_source *source, bool *kernels, bool *collectives)
{
    for (int32_t i = 0; i < samples->n; i++)
        (samples->sample[i].file == source->kernels ? kernels : collectives)[samples->sample[i].row] = true;
}

static struct calibration_rows rows_of(const struct sample_source *source, const struct measured *file,
                                       const bool *fitted)
{
    struct calibration_rows rows = {.file = file};
    struct samples left = {0};
    if (file == NULL)
        return rows;
    rows.n = samples_left(source, file, fitted, &left);
    rows.n_left = left.n;
    rows.left = rows_text(&left);
    samples_free(&left);
    return rows;
}

/** Return whether a curve of fp8 is left out: it was made of another one, or it has too few rows and none to copy. */
static bool is_left_out(const struct work *work, const struct device *like)
{
    if (!family_is_optional(work->family))
        return false;
    int32_t kind = work->family->kind;
    bool copies = like != NULL && like->gemm[kind].efficiency > 0 && work->device.peak_flop_per_s[kind] > 0;
    return work->device.gemm[kind].efficiency > 0 || (work->samples.n < work->family->n_unknowns && !copies);
}

bool calibrate(const struct sample_source *source, const struct device *like, struct calibration *calibration,
               struct error *err)
{
    bool ok = check_links(source, err), *kernels = check_calloc((size_t)source->kernels->n_rows, sizeof *kernels);
    int32_t n_collectives = source->collectives != NULL ? source->collectives->n_rows : 0;
    bool *collectives = check_calloc((size_t)n_collectives, sizeof *collectives);
    *calibration = (struct calibration){.device = *source->device};
    if (like != NULL) { /* until training_fit replaces it */
        calibration->device.training.products = like->training.products;
        calibration->device.training.flash1 = like->training.flash1;
    }
    CHECK(n_families <= CALIBRATION_MAX_FITS);
    for (int32_t i = 0; ok && i < n_families; i++) {
        struct calibration_fit *fit = &calibration->fit[calibration->n_fits];
        struct work work = {.family = &families[i], .device = calibration->device};
        *fit = (struct calibration_fit){.name = families[i].name, .note = families[i].note};
        families[i].select(&families[i], source, &work.samples);
        if (is_left_out(&work, like)) {
            samples_free(&work.samples);
            continue;
        }
        calibration->n_fits++;
        ok = check_peak(&work, err) && fit_family(&work, like, fit, err);
        if (ok && fit->n_rows > 0) {
            mark(&work.samples, source, kernels, collectives);
            check_open(&work, source, fit);
        }
        calibration->device = work.device;
        if (ok)
            borrow(fit, like, &calibration->device);
        samples_free(&work.samples);
    }
    calibration->kernels = rows_of(source, source->kernels, kernels);
    calibration->collectives = rows_of(source, source->collectives, collectives);
    free(collectives);
    free(kernels);
    if (!calibration->device.nvls)
        calibration->device.collective[DEVICE_NVLS] = (struct device_collective){0};
    return ok;
}

/** Return the device that a curve was copied from, or its shape. */
static const char *origin(const struct calibration *calibration, const struct calibration_fit *fit)
{
    const struct device *device = &calibration->device;
    const char *like = strncmp(fit->name, "collective.", strlen("collective.")) == 0 ? device->like_collective
                       : strncmp(fit->name, "gemm", strlen("gemm")) == 0             ? device->like_gemm
                                                                                     : "";
    return like[0] != '\0' ? like : device->like;
}

void calibration_write(FILE *file, const struct calibration *calibration)
{
    device_write_curves(file, &calibration->device);
    fputs("fit:\n", file);
    for (int32_t i = 0; i < calibration->n_fits; i++) {
        const struct calibration_fit *fit = &calibration->fit[i];
        fprintf(file, "  %s:\n", fit->name);
        if (fit->n_rows == 0) {
            fprintf(file, "    copied_from: %s\n", origin(calibration, fit));
            continue;
        }
        if (fit->is_scaled)
            fprintf(file, "    scaled_from: %s\n", origin(calibration, fit));
        fprintf(file, "    rows: \"%s\"\n    n_rows: %d\n    median_error: %.4f\n    max_error: %.4f\n", fit->rows,
                fit->n_rows, fit->quality.median, fit->quality.max);
        fprintf(file, "    mean_error: %.4f\n    worst_row: \"%s\"\n", fit->quality.bias, fit->worst);
        if (fit->n_open > 0)
            fprintf(file, "    open_rows: %d\n    open_median_error: %.4f\n    open_mean_error: %.4f\n", fit->n_open,
                    fit->open.median, fit->open.bias);
        if (fit->extra[0] != '\0')
            fprintf(file, "    beside: \"%s\"\n", fit->extra);
        if (fit->constants[0] != '\0')
            fprintf(file, "    constants: \"%s\"\n", fit->constants);
        if (fit->residuals != NULL)
            fprintf(file, "    residuals: \"%s\"\n", fit->residuals);
        if (fit->note != NULL)
            fprintf(file, "    note: \"%s\"\n", fit->note);
    }
}

void calibration_print(FILE *file, const struct calibration *calibration)
{
    fprintf(file, "%-26s %6s %10s %10s %10s  %s\n", "curve", "rows", "median [%]", "worst [%]", "mean [%]",
            "worst row");
    for (int32_t i = 0; i < calibration->n_fits; i++) {
        const struct calibration_fit *fit = &calibration->fit[i];
        if (fit->n_rows == 0 && fit->n_found > 0)
            fprintf(file, "%-26s copied from %s: %d of at least %d rows\n", fit->name, origin(calibration, fit),
                    fit->n_found, fit->n_needed);
        else if (fit->n_rows == 0)
            fprintf(file, "%-26s copied from %s\n", fit->name, origin(calibration, fit));
        else
            fprintf(file, "%-26s %6d %10.2f %10.2f %+10.2f  %s%s%s\n", fit->name, fit->n_rows,
                    100 * fit->quality.median, 100 * fit->quality.max, 100 * fit->quality.bias, fit->worst,
                    fit->is_scaled ? ", scaled from " : "", fit->is_scaled ? origin(calibration, fit) : "");
    }
}

void calibration_free(struct calibration *calibration)
{
    for (int32_t i = 0; i < calibration->n_fits; i++) {
        free(calibration->fit[i].rows);
        free(calibration->fit[i].residuals);
    }
    free(calibration->kernels.left);
    free(calibration->collectives.left);
    *calibration = (struct calibration){0};
}
