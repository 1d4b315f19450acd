/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim calibrate`. It fits a device's curves to measured kernels and collectives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "cli/commands.h"
#include "scenario/scenario.h"
#include "trace/output.h"
#include "validate/training.h"

/* In a device's file the data sheet is above this line. This command writes the text below it. */
static const char marker[] = "# Fitted values: written by slimsim calibrate, not by hand.\n";

struct arguments {
    const char *kernels, *collectives, *device, *output;
    char *training; /* files, separated by commas */
};

enum { KEY_TRAINING = 0x100 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'd':
        arguments->device = argument;
        return 0;
    case KEY_TRAINING:
        arguments->training = argument;
        return 0;
    case 'o':
        if (*argument == '\0')
            argp_error(state, "--output needs the name of a file");
        arguments->output = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            return ARGP_ERR_UNKNOWN;
        *(state->arg_num == 0 ? &arguments->kernels : &arguments->collectives) = argument;
        return 0;
    case ARGP_KEY_END:
        if (arguments->device == NULL)
            argp_error(state, "--device NAME is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"device", 'd', "NAME", 0, "Device of model/gpu, or a file, whose data sheet is used (needed)", 0},
    {"training", KEY_TRAINING, "FILE.csv[,FILE.csv]", 0,
     "Training runs or layers. Their rows of split calib give how much slower training is than its kernels", 0},
    {"output", 'o', "FILE", 0, "Write the device to FILE and print the residuals (default: print the device)", 0},
    {0},
};

static const struct argp argp = {
    argp_options,
    parse,
    "[KERNELS.csv [COLLECTIVES.csv]]",
    "Fit the curves of a device to its rows of split calib and write its file: the data "
    "sheet without changes, parameters, used rows, residuals and measured ranges. A device that "
    "names no rows takes the curves of the device that it is `like`.",
    NULL,
    NULL,
    NULL};

/** Read a whole file, which the library has read before. */
static char *contents(const char *path, struct error *err)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0;
    if (file == NULL) {
        error_set(err, "%s: cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    if (getdelim(&text, &bytes, '\0', file) < 0) {
        error_set(err, "%s: cannot be read: %s", path, ferror(file) ? strerror(errno) : "it is empty");
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static void write_device(FILE *file, const char *sheet, const struct calibration *calibration)
{
    const char *end = strstr(sheet, marker);
    int bytes = (int)(end != NULL ? (size_t)(end - sheet) : strlen(sheet));
    fprintf(file, "%.*s%s%s", bytes, sheet, bytes > 0 && sheet[bytes - 1] == '\n' ? "" : "\n", marker);
    calibration_write(file, calibration);
}

static bool is_calibrated(const char *path)
{
    bool found = false;
    char *line = NULL;
    size_t bytes = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getline(&line, &bytes, file) >= 0)
        found = strcmp(line, marker) == 0;
    free(line);
    if (file != NULL)
        fclose(file);
    return found;
}

/** Refuse a foreign file. The sheet itself may be replaced, since its text is kept. */
static bool may_write(const char *path, const char *sheet, struct error *err)
{
    struct stat of_path, of_sheet;
    bool same = stat(path, &of_path) == 0 && stat(sheet, &of_sheet) == 0 && of_path.st_dev == of_sheet.st_dev &&
                of_path.st_ino == of_sheet.st_ino;
    return output_may_replace(path, same ? NULL : is_calibrated, "calibrated device", "another --output", err);
}

/**
 * Write the device to its file, or to the target of a link. The file gets its name when it is complete, so a full disk
 * never destroys an existing device.
 */
static bool write_file(const char *path, const char *sheet, const struct calibration *calibration, struct error *err)
{
    struct output output;
    struct stat status;
    char *target = stat(path, &status) == 0 ? realpath(path, NULL) : check_strdup(path);
    FILE *file = target != NULL ? output_open(&output, target, err) : NULL;
    if (target == NULL)
        error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: %s", path, strerror(errno));
    free(target);
    if (file == NULL)
        return false;
    write_device(file, sheet, calibration);
    return output_close(&output, file, true, err);
}

/** Require columns. A word in the header identifies the kind of a file. */
static bool check_columns(const struct measured *file, const char *one, const char *or_one, const char *what,
                          struct error *err)
{
    const char *lacks = measured_column(file, one) < 0 && measured_column(file, or_one) < 0 ? one
                        : measured_column(file, "split") < 0                                ? "split"
                        : measured_column(file, "gpu") < 0                                  ? "gpu"
                                                                                            : NULL;
    return lacks == NULL || error_set(err,
                                      "%s: it has no column '%s', so it is no table of measured %s; its columns: "
                                      "docs/model/measurements.md, Calibrate",
                                      file->path, lacks, what);
}

/** These are the files of --training. */
struct runs {
    int32_t n;
    struct measured *files;
};

static bool check_training(const struct measured *file, struct error *err)
{
    const char *lacks = measured_column(file, "data.context") < 0 ? "data.context"
                        : measured_column(file, "split") < 0      ? "split"
                                                                  : NULL;
    return lacks == NULL || error_set(err,
                                      "%s: it has no column '%s', so it is no table of measured training runs; "
                                      "model/validation/normalise.py makes one from a raw table",
                                      file->path, lacks);
}

static bool read_runs(char *paths, struct runs *runs, struct error *err)
{
    char *rest = NULL;
    if (paths == NULL)
        return true;
    bool ok = true;
    for (char *path = strtok_r(paths, ",", &rest); ok && path != NULL; path = strtok_r(NULL, ",", &rest)) {
        runs->files = check_realloc(runs->files, (size_t)(runs->n + 1) * sizeof *runs->files);
        runs->files[runs->n] = (struct measured){0};
        struct measured *file = &runs->files[runs->n++];
        ok = measured_read(path, file, err) && check_training(file, err);
    }
    return ok && (runs->n > 0 || error_set(err, "--training: no file is named"));
}

static void runs_free(struct runs *runs)
{
    for (int32_t i = 0; i < runs->n; i++)
        measured_free(&runs->files[i]);
    free(runs->files);
}

/**
 * Report the rows of the device that no curve was fitted to. Only this message shows a misspelt word or a missing
 * number.
 */
static void report_unused_rows(const struct calibration_rows *rows)
{
    enum { SHOWN = 160 };
    if (rows->n_left > 0)
        fprintf(stderr,
                "%s: %d of the device's %d rows of split calib are in no curve: %.*s%s; rows that count: "
                "docs/model/measurements.md, Calibrate\n",
                rows->file->path, rows->n_left, rows->n, SHOWN, rows->left, strlen(rows->left) > SHOWN ? "..." : "");
}

/** A device that names its rows must have some. If it names none, all its curves are those of `like`. */
static bool check_rows(const struct arguments *arguments, const struct device *device,
                       const struct calibration *calibration, struct error *err)
{
    report_unused_rows(&calibration->kernels);
    report_unused_rows(&calibration->collectives);
    for (int32_t i = 0; i < calibration->n_fits; i++)
        if (calibration->fit[i].n_rows > 0)
            return true;
    if (calibration->kernels.n + calibration->collectives.n > 0)
        return error_set(err,
                         "%s: no curve can be fitted to the %d rows of this device: each needs a known kind and "
                         "its numbers, and a curve needs enough rows",
                         arguments->kernels, calibration->kernels.n + calibration->collectives.n);
    if (device->rows[0] != '\0')
        return error_set(
            err,
            "%s: no row belongs to this device; a row counts if split is calib and the column gpu holds a word "
            "of the device's rows: '%s'",
            arguments->kernels, device->rows);
    fprintf(stderr, "%s names no rows, so nothing is fitted and all curves are those of %s\n", arguments->device,
            device->like);
    return true;
}

/** Check that there are rows if the device names some, and that these are not another chip's. `like` may be NULL. */
static bool check_named_rows(const struct device *device, const struct device *like, const char *kernels,
                             struct error *err)
{
    if (device->rows[0] == '\0')
        return true;
    if (kernels == NULL)
        return error_set(err, "KERNELS.csv is needed: device %s names rows of it: '%s'", device->name, device->rows);
    return like == NULL || device->peak_flop_per_s[PRECISION_BF16] == like->peak_flop_per_s[PRECISION_BF16] ||
           strcmp(device->rows, like->rows) != 0 ||
           error_set(err,
                     "%s: rows: '%s' are the rows of %s, another chip; remove rows and measured, or name rows that "
                     "were measured on this device",
                     device->name, device->rows, like->name);
}

/** Read the device that a key beside `like` names into `other`. Its curves then replace some of those of `like`. */
static bool read_beside(const struct device *device, const char *key, const char *name, struct device *other,
                        struct error *err)
{
    if (device->like[0] == '\0')
        return error_set(err, "%s: %s: needs like; name a device there, too", device->name, key);
    return device_read(scenario_data_dir(), name, other, err);
}

/** Read the device under `like`, with the collectives of like_collective and the GEMMs of like_gemm. */
static bool read_like(const struct device *device, struct device *like, struct error *err)
{
    struct device other;
    if (device->like[0] != '\0' && !device_read(scenario_data_dir(), device->like, like, err))
        return false;
    if (device->like_collective[0] != '\0') {
        if (!read_beside(device, "like_collective", device->like_collective, &other, err))
            return false;
        memcpy(like->collective, other.collective, sizeof like->collective);
    }
    if (device->like_gemm[0] != '\0') {
        if (!read_beside(device, "like_gemm", device->like_gemm, &other, err))
            return false;
        memcpy(like->gemm, other.gemm, sizeof like->gemm);
    }
    return true;
}

static bool run(const struct arguments *arguments, const struct measured *kernels, const struct measured *collectives,
                struct error *err)
{
    struct device device, like;
    struct calibration calibration = {0};
    char path[1024], *sheet = NULL;
    struct sample_source source = {.kernels = kernels, .collectives = collectives, .device = &device};
    struct runs runs = {0};
    bool ok = read_runs(arguments->training, &runs, err) &&
              device_read_sheet(scenario_data_dir(), arguments->device, &device, path, err) &&
              (arguments->output == NULL || may_write(arguments->output, path, err)) &&
              read_like(&device, &like, err) &&
              check_named_rows(&device, device.like[0] != '\0' ? &like : NULL, arguments->kernels, err) &&
              (sheet = contents(path, err)) != NULL &&
              calibrate(&source, device.like[0] != '\0' ? &like : NULL, &calibration, err) &&
              (arguments->training == NULL || training_fit(&(struct training_source){runs.n, runs.files},
                                                           device.like[0] != '\0' ? &like : NULL, &calibration, err)) &&
              check_rows(arguments, &device, &calibration, err) &&
              (arguments->output == NULL || write_file(arguments->output, sheet, &calibration, err));
    if (ok && arguments->output == NULL)
        write_device(stdout, sheet, &calibration);
    else if (ok)
        calibration_print(stdout, &calibration);
    calibration_free(&calibration);
    runs_free(&runs);
    free(sheet);
    return ok;
}

int command_calibrate(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct measured kernels = {0}, collectives = {0};
    struct error err = {0};
    parse_arguments(&argp, argc, argv, &arguments);
    bool ok = (arguments.kernels == NULL || (measured_read(arguments.kernels, &kernels, &err) &&
                                             check_columns(&kernels, "kind", "kind", "kernels", &err))) &&
              (arguments.collectives == NULL ||
               (measured_read(arguments.collectives, &collectives, &err) &&
                check_columns(&collectives, "collective", "collective", "collectives", &err))) &&
              run(&arguments, &kernels, arguments.collectives != NULL ? &collectives : NULL, &err);
    measured_free(&collectives);
    measured_free(&kernels);
    return ok ? EXIT_SUCCESS : command_fail(&err);
}
