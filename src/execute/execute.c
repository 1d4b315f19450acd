/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "execute/execute.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <simgrid/engine.h>
#include <simgrid/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "execute/streams.h"

struct execution {
    const struct dag *dag;
    const struct graph *graph;
    const struct platform *platform;
    const struct execute_options *options;
    double *start_s, *finish_s; /* [n_tasks] shared with the child */
};

/* How the child ended. */
struct ending {
    int status; /* of waitpid */
    char *said; /* on stdout and stderr, NUL-terminated */
    size_t n_said, capacity;
};

static bool gpus_check(const struct dag *dag, const struct platform *platform, struct error *err)
{
    int32_t largest = -1;
    for (int32_t p = 0; p < dag->n_places; p++) {
        CHECK(dag->places[p].rank >= 0);
        largest = dag->places[p].rank > largest ? dag->places[p].rank : largest;
    }
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        const struct dag_task *task = &dag->tasks[t];
        CHECK(dag->duration_s[t] >= 0 && isfinite(dag->duration_s[t]));
        CHECK(0 <= task->stream && task->stream < dag_n_streams(dag));
        if (task->kind != DAG_SEND)
            continue;
        CHECK(task->wire_bytes >= 0 && isfinite(task->wire_bytes));
        CHECK(task->latency_s >= 0 && isfinite(task->latency_s));
        CHECK(task->from_rank >= 0 || task->to_rank >= 0);
        CHECK(task->from_rank != task->to_rank);
        largest = task->from_rank > largest ? task->from_rank : largest;
        largest = task->to_rank > largest ? task->to_rank : largest;
    }
    if (largest < platform_n_gpus(platform))
        return true;
    return error_set(err, "the plan uses GPU %d, but platform %s has GPUs 0 to %d (%d nodes of %d)", largest,
                     platform->name, platform_n_gpus(platform) - 1, platform->n_nodes, platform->gpus_per_node);
}

/* Read what the child says until it closes the pipe. */
static void pipe_read(int file, struct ending *ending)
{
    char more[4096];
    ssize_t n;
    ending->n_said = 0;
    while ((n = read(file, more, sizeof more)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            ending->said = check_grow(ending->said, ending->n_said, &ending->capacity, 1);
            ending->said[ending->n_said++] = more[i];
        }
    }
    ending->said = check_grow(ending->said, ending->n_said, &ending->capacity, 1);
    ending->said[ending->n_said] = '\0';
}

static _Noreturn void child(const struct execution *execution, const int *ends, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no orphans */
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    struct cluster cluster;
    cluster_open(execution->platform, execution->dag->faults, execution->options, &cluster);
    streams_run(execution->dag, execution->graph, &cluster, execution->start_s, execution->finish_s);
    cluster_free(&cluster);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

static bool child_run(const struct execution *execution, struct ending *ending, struct error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return error_set_status(err, ERROR_INTERRUPTED, "interrupted: SimGrid cannot be started: %s", strerror(errno));
    fflush(NULL); /* or the child writes it again */
    pid_t parent = getpid(), process = fork();
    if (process == 0)
        child(execution, ends, parent);
    close(ends[1]);
    if (process > 0) {
        pipe_read(ends[0], ending);
        while (waitpid(process, &ending->status, 0) < 0)
            CHECK(errno == EINTR);
    } else {
        error_set_status(err, ERROR_INTERRUPTED, "interrupted: SimGrid cannot be started: %s", strerror(errno));
    }
    close(ends[0]);
    return process > 0;
}

/* What the child gave as its reason; else SimGrid's first line, after "[clock] file: [category/ERROR] ". */
static const char *reason(struct ending *ending)
{
    char *refused = strstr(ending->said, "/REFUSED] ");
    char *said = refused != NULL ? refused : ending->said;
    said[strcspn(said, "\n")] = '\0';
    const char *mark = refused != NULL ? refused : strstr(said, "/ERROR] ");
    if (mark == NULL)
        mark = strstr(said, "/CRITICAL] ");
    if (mark != NULL)
        return strchr(mark, ' ') + 1;
    return *said != '\0' ? said : "it said nothing";
}

/* simgrid_run returns normally when actors wait for each other: then some tasks have no finish. */
static bool all_finished(const struct execution *execution, struct error *err)
{
    const struct dag *dag = execution->dag;
    for (int32_t t = 0; t < dag->n_tasks; t++)
        if (isnan(execution->finish_s[t]))
            return error_set_status(
                err, ERROR_FAILED, "SimGrid ended before task %d (%s of stage %d, GPU %d) had run: a bug of slimsim", t,
                dag_kind_name[dag->tasks[t].kind], dag->tasks[t].stage, dag->places[dag->tasks[t].place].rank);
    return true;
}

static bool was_killed(const struct ending *ending)
{
    return WIFSIGNALED(ending->status) && WTERMSIG(ending->status) == SIGKILL;
}

static bool ending_check(struct ending *ending, const struct execution *execution, struct error *err)
{
    int status = ending->status;
    const char *platform = execution->platform->path;
    if (was_killed(ending))
        return error_set_status(err, ERROR_INTERRUPTED,
                                "interrupted: SimGrid's process was killed twice on platform %s: out of memory?",
                                platform);
    if (WIFSIGNALED(status))
        return error_set_status(err, ERROR_FAILED, "SimGrid died of signal %d (%s) on platform %s: %.4000s",
                                WTERMSIG(status), strsignal(WTERMSIG(status)), platform, reason(ending));
    if (WEXITSTATUS(status) == CLUSTER_REFUSED && *execution->options->cfg != '\0')
        return error_set(err, "%s: SimGrid cannot use this platform, or simgrid_cfg '%s': %.4000s", platform,
                         execution->options->cfg, reason(ending));
    if (WEXITSTATUS(status) == CLUSTER_REFUSED)
        return error_set(err, "%s: SimGrid cannot use this platform: %.4000s", platform, reason(ending));
    if (WEXITSTATUS(status) != EXIT_SUCCESS)
        return error_set_status(err, ERROR_FAILED, "SimGrid ended with status %d on platform %s: %.4000s",
                                WEXITSTATUS(status), platform, reason(ending));
    return all_finished(execution, err);
}

static void timeline_take(const struct execution *execution, struct timeline *timeline)
{
    timeline_reserve(timeline, execution->dag->n_tasks);
    timeline->makespan_s = 0;
    for (int32_t t = 0; t < execution->dag->n_tasks; t++) {
        timeline->start_s[t] = execution->start_s[t];
        timeline->finish_s[t] = execution->finish_s[t];
        timeline->makespan_s = fmax(timeline->makespan_s, timeline->finish_s[t]);
    }
}

/* @return false when the child cannot be started; ending_check says whether it was killed both times */
static bool run_twice(const struct execution *execution, struct ending *ending, struct error *err)
{
    struct error failure = {0};
    for (int attempt = 0; attempt < 2; attempt++) {
        for (int32_t t = 0; t < execution->dag->n_tasks; t++)
            execution->finish_s[t] = NAN; /* not run */
        failure = (struct error){0};
        if (child_run(execution, ending, &failure) && !was_killed(ending))
            return true;
    }
    if (failure.status != ERROR_NONE)
        *err = failure;
    return failure.status == ERROR_NONE;
}

bool execute(const struct dag *dag, const struct graph *graph, const struct platform *platform,
             const struct execute_options *options, struct timeline *timeline, struct error *err)
{
    if (!gpus_check(dag, platform, err))
        return false;
    size_t n_tasks = (size_t)dag->n_tasks, bytes = (2 * n_tasks + 1) * sizeof(double);
    double *shared_s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared_s == MAP_FAILED)
        return error_set_status(err, ERROR_FAILED, "no memory to share with SimGrid: %s", strerror(errno));
    struct execution execution = {dag, graph, platform, options, shared_s, shared_s + n_tasks};
    struct ending ending = {0};
    bool ok = run_twice(&execution, &ending, err) && ending_check(&ending, &execution, err);
    if (ok)
        timeline_take(&execution, timeline);
    if (ok && *options->cfg != '\0')
        fwrite(ending.said, 1, ending.n_said, stderr); /* the reports of plug-ins */
    free(ending.said);
    munmap(shared_s, bytes);
    return ok;
}

const char *execute_simgrid_version(void)
{
    static char text[32];
    int major, minor, patch;
    sg_version_get(&major, &minor, &patch);
    snprintf(text, sizeof text, patch > 0 ? "%d.%d.%d" : "%d.%d", major, minor, patch);
    return text;
}
