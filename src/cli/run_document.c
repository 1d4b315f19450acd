/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/run_document.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/document_set.h"
#include "scenario/scenario_read.h"
#include "sweep/axis.h"
#include "trace/trace.h"

/** Return the resolved scenario of a run, or of a point of a sweep. The caller frees it. */
static char *traced_text(const char *path, int64_t point, struct error *err)
{
    if (point >= 0)
        return trace_point_scenario(path, point, err);
    struct trace_reader *trace = trace_open(path, err);
    char *text = trace != NULL ? trace_scenario(trace, err) : NULL;
    trace_reader_close(trace);
    return text;
}

static bool read_trace(const char *path, int64_t point, struct document *document, struct error *err)
{
    char *text = traced_text(path, point, err);
    bool ok = text != NULL && document_parse(text, strlen(text), path, document, err);
    free(text);
    return ok;
}

/** Read the scenario of a point of a sweep. */
static bool read_point(const char *path, int64_t point, struct document *document, struct error *err)
{
    struct document whole = {0};
    struct sweep sweep = {0};
    bool ok = scenario_read_document(path, 0, NULL, &whole, err);
    if (!ok) {
        document_free(&whole);
        return false;
    }
    if (!sweep_present(&whole)) {
        document_free(&whole);
        return error_set(err, "%s: the scenario has no `sweep:`, so '#%lld' names no point; leave it out", path,
                         (long long)point);
    }
    ok = sweep_read(&whole, &sweep, err) &&
         (point < sweep.n_points ||
          error_set(err, "%s: there is no point %lld; allowed: 0 to %d", path, (long long)point, sweep.n_points - 1)) &&
         sweep_point(&sweep, (int32_t)point, document, err);
    sweep_free(&sweep);
    return ok;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

bool run_document_read(const char *argument, const struct options *options, struct document *document,
                       struct error *err)
{
    char *path = check_strdup(argument), *hash = strrchr(path, '#');
    int64_t point = -1;
    if (hash != NULL && hash[1] != '\0' && strspn(hash + 1, "0123456789") == strlen(hash + 1)) {
        point = strtoll(hash + 1, NULL, 10);
        *hash = '\0';
    }
    bool ok, is_trace = ends_with(path, ".h5");
    if (is_trace)
        ok = read_trace(path, point, document, err);
    else if (point >= 0)
        ok = read_point(path, point, document, err);
    else
        ok = scenario_read_document(path, 0, NULL, document, err);
    for (int32_t i = 0; i < options->n_set && document->n_nodes > 0; i++)
        ok &= document_set(document, options->set[i], err);
    if (ok && sweep_present(document))
        ok = error_set(err, "%s: it is a sweep of several points; %s#0 names the first one", path, path);
    if (ok && is_trace && !options->quiet)
        fprintf(stderr, "the scenario of %s runs again\n", argument);
    free(path);
    return ok;
}
