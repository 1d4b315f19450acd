/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/answer.h"

#include <stdlib.h>

#include "base/cores.h"
#include "cli/stop.h"

bool answer_begin(struct answer_run *run, const struct options *options, const char *verb, const char *name,
                  struct error *err)
{
    run->lock = (struct journal){.descriptor = -1};
    run->how = (struct what_if_options){.directory = options->output,
                                        .name = name,
                                        .jobs = cores_available(),
                                        .critical_path = true,
                                        .lock = &run->lock,
                                        .progress = &run->progress,
                                        .stop = &stop_signal};
    if (!command_make_folder(options->output, err))
        return false;
    stop_catch();
    progress_begin(&run->progress, !options->quiet, verb);
    return true;
}

bool answer_end(struct answer_run *run, bool ok)
{
    const struct progress *progress = &run->progress;
    const struct what_if_options *how = &run->how;
    progress_end(&run->progress);
    journal_release(&run->lock);
    if (!ok || !progress->status.shown)
        return ok;
    char *path = shard_path(&how->shard, how->directory, how->name, "journal");
    fprintf(stderr, "%d run%s: %d computed, %d found in %s\n", progress->n, progress->n == 1 ? "" : "s",
            progress->n_done - progress->n_kept, progress->n_kept, path);
    free(path);
    return true;
}

int answer_status(bool ok, struct error *err)
{
    if (!ok && stop_signal != 0)
        return stop_fail("the same command continues from there", err);
    return ok ? EXIT_SUCCESS : command_fail(err);
}
