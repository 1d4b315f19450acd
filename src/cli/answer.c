/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/answer.h"

#include <stdlib.h>

#include "base/cores.h"
#include "cli/stop.h"

bool answer_begin(struct answer_run *run, const struct options *options, const char *verb, const char *name,
                  struct error *err)
{
    run->how = (struct what_if_options){.directory = options->output,
                                        .name = name,
                                        .jobs = cores_available(),
                                        .critical_path = true,
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
    progress_end(&run->progress);
    if (ok && progress->status.shown)
        fprintf(stderr, "%d runs: %d computed, %d kept from before in %s/%s.journal\n", progress->n,
                progress->n_done - progress->n_kept, progress->n_kept, run->how.directory, run->how.name);
    return ok;
}

int answer_status(bool ok, struct error *err)
{
    if (!ok && stop_signal != 0)
        return stop_fail("the same command continues from there", err);
    return ok ? EXIT_SUCCESS : command_fail(err);
}
