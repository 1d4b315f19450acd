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
    pid_t child;                /* -1: it could not be forked, for this reason */
    int reason;                 /* errno */
    int output;                 /* reads the child's stdout and stderr */
};

/* The end of the child. */
struct ending {
    int status; /* as waitpid returns it */
    char *said; /* output on stdout and stderr */
};

static bool gpus_check(const struct dag *dag, const struct platform *platform, struct error *err)
{
    int32_t largest = -1;
    for (int32_t p = 0; p < dag->n_ranks; p++) {
        CHECK(dag->ranks[p].rank >= 0);
        largest = dag->ranks[p].rank > largest ? dag->ranks[p].rank : largest;
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

/* Read the child's output until it closes the pipe. */
static void pipe_read(int file, struct ending *ending)
{
    size_t n_bytes;
    char more[4096];
    ssize_t n;
    free(ending->said);
    FILE *said = check_memstream(&ending->said, &n_bytes);
    while ((n = read(file, more, sizeof more)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        fwrite(more, 1, (size_t)n, said);
    }
    CHECK(fclose(said) == 0);
}

/*
 * Find the GPUs that run or send, since loading takes time by zones and hosts. With one rank for a tensor-parallel
 * group of 8 most hosts are idle. Plug-ins, traces, faults and files of users concern all hosts.
 * @return [GPUs], caller frees. NULL: all
 */
static bool *used_gpus(const struct execution *execution)
{
    const struct dag *dag = execution->dag;
    const struct execute_options *options = execution->options;
    if (*execution->platform->path != '\0' || *options->cfg != '\0' || options->trace != NULL || dag->faults != NULL)
        return NULL;
    bool *used = check_calloc((size_t)platform_n_gpus(execution->platform), sizeof *used);
    for (int32_t i = 0; i < dag->n_ranks; i++)
        used[dag->ranks[i].rank] = true;
    for (int32_t s = 0; s < dag_n_streams(dag); s++)
        if (dag->stream_first[s] >= 0)
            used[streams_rank(dag, s)] = true;
    for (int32_t t = 0; t < dag->n_tasks; t++) {
        const int32_t ends[] = {dag->tasks[t].from_rank, dag->tasks[t].to_rank};
        for (int i = 0; i < 2 && dag->tasks[t].kind == DAG_SEND; i++)
            if (ends[i] >= 0)
                used[ends[i]] = true;
    }
    return used;
}

static _Noreturn void child(const struct execution *execution, const int *ends, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child dies with its parent */
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    struct cluster cluster;
    bool *used = used_gpus(execution);
    cluster_open(execution->platform, execution->dag->faults, execution->options, used, &cluster);
    free(used);
    streams_run(execution->dag, execution->graph, &cluster, execution->start_s, execution->finish_s);
    cluster_free(&cluster);
    fflush(NULL);
    _exit(EXIT_SUCCESS);
}

/* Fork the child. If that fails, `child` is -1. */
static void child_start(struct execution *execution)
{
    int ends[2];
    for (int32_t t = 0; t < execution->dag->n_tasks; t++)
        execution->finish_s[t] = NAN; /* not run */
    execution->child = -1;
    execution->reason = pipe(ends) != 0 ? errno : 0;
    if (execution->reason != 0)
        return;
    fflush(NULL); /* otherwise the child writes the buffer again */
    pid_t parent = getpid();
    execution->child = fork();
    execution->reason = errno;
    if (execution->child == 0)
        child(execution, ends, parent);
    close(ends[1]);
    execution->output = ends[0];
    if (execution->child < 0)
        close(ends[0]);
}

/* Wait for the end of the child. @return false if there is none */
static bool child_wait(struct execution *execution, struct ending *ending)
{
    if (execution->child < 0)
        return false;
    pipe_read(execution->output, ending);
    close(execution->output);
    while (waitpid(execution->child, &ending->status, 0) < 0)
        CHECK(errno == EINTR);
    execution->child = -1;
    return true;
}

/* Return the line with the reason, which follows "[clock] file: [category/ERROR] ". A backtrace may follow it. */
static const char *reason(struct ending *ending)
{
    static const char *const marks[] = {"/REFUSED] ", "/ERROR] ", "/CRITICAL] "};
    char *mark = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && mark == NULL; i++)
        mark = strstr(ending->said, marks[i]);
    char *text = mark != NULL ? strchr(mark, ' ') + 1 : ending->said;
    text[strcspn(text, "\n")] = '\0';
    return *text != '\0' ? text : "it said nothing";
}

/* Check that all tasks have finished. If actors wait for each other, simgrid_run returns normally, without finishes. */
static bool all_finished(const struct execution *execution, struct error *err)
{
    const struct dag *dag = execution->dag;
    for (int32_t t = 0; t < dag->n_tasks; t++)
        if (isnan(execution->finish_s[t]))
            return error_set_status(
                err, ERROR_FAILED,
                "SimGrid ended before task %d (%s of stage %d, GPU %d) had run: a bug of slimsim, or a "
                "host that the platform switches off",
                t, dag_kind_name[dag->tasks[t].kind], dag->tasks[t].stage, dag->ranks[dag->tasks[t].dag_rank].rank);
    return true;
}

/* Return whether the child was killed, or says that it got no memory, in the words of SimGrid, flex, C++ or ours. */
static bool was_killed(const struct ending *ending)
{
    static const char *const words[] = {"std::bad_alloc",
                                        "Failed to allocate stack",
                                        "Failed to protect stack",
                                        "Memory allocation of",
                                        "Memory callocation of",
                                        "memory (re)allocation of",
                                        "memory allocation error",
                                        "out of dynamic memory",
                                        "surfxml_bufferstack' failed",
                                        "indexstack' failed",
                                        "out of memory",
                                        "Cannot allocate memory"};
    bool killed = WIFSIGNALED(ending->status) && WTERMSIG(ending->status) == SIGKILL;
    bool fine = WIFEXITED(ending->status) && WEXITSTATUS(ending->status) == EXIT_SUCCESS;
    for (size_t i = 0; i < sizeof words / sizeof *words && !fine; i++)
        killed = killed || strstr(ending->said, words[i]) != NULL;
    return killed;
}

static bool ending_check(struct ending *ending, const struct execution *execution, struct error *err)
{
    int status = ending->status;
    const struct platform *used = execution->platform;
    const char *platform = *used->path != '\0' ? used->path : used->name, *cfg = execution->options->cfg;
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) == CLUSTER_REFUSED;
    bool folded = WIFEXITED(status) && WEXITSTATUS(status) == CLUSTER_FOLDED;
    if (was_killed(ending))
        return error_set_status(err, ERROR_INTERRUPTED,
                                "interrupted: SimGrid's process was killed twice on platform %s: out of memory?",
                                platform);
    if (folded)
        return error_set_status(err, ERROR_FOLDED, "%s: SimGrid cannot use this platform: %.4000s", platform,
                                reason(ending));
    if (*cfg != '\0' && (WIFSIGNALED(status) || refused))
        return error_set(err, "%s: SimGrid cannot run this platform with simgrid_cfg '%s': %.4000s", platform, cfg,
                         reason(ending));
    if (refused)
        return error_set(err, "%s: SimGrid cannot use this platform: %.4000s", platform, reason(ending));
    if (WIFSIGNALED(status))
        return error_set_status(err, ERROR_FAILED, "SimGrid died of signal %d (%s) on platform %s: %.4000s",
                                WTERMSIG(status), strsignal(WTERMSIG(status)), platform, reason(ending));
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

/*
 * Wait for the child, and start and await another one if it was killed.
 * @return false if there is no child; ending_check says whether it was killed both times
 */
static bool wait_twice(struct execution *execution, struct ending *ending)
{
    if (child_wait(execution, ending) && !was_killed(ending))
        return true;
    child_start(execution);
    return child_wait(execution, ending);
}

static size_t shared_bytes(const struct dag *dag)
{
    return (2 * (size_t)dag->n_tasks + 1) * sizeof(double);
}

static void execution_free(struct execution *execution)
{
    munmap(execution->start_s, shared_bytes(execution->dag));
    free(execution);
}

struct execution *execute_start(const struct dag *dag, const struct graph *graph, const struct platform *platform,
                                const struct execute_options *options, struct error *err)
{
    if (!gpus_check(dag, platform, err))
        return NULL;
    double *shared_s = mmap(NULL, shared_bytes(dag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared_s == MAP_FAILED) {
        error_set_status(err, ERROR_INTERRUPTED, "interrupted: no memory to share with SimGrid: %s", strerror(errno));
        return NULL;
    }
    struct execution *execution = check_calloc(1, sizeof *execution);
    *execution = (struct execution){.dag = dag,
                                    .graph = graph,
                                    .platform = platform,
                                    .options = options,
                                    .start_s = shared_s,
                                    .finish_s = shared_s + dag->n_tasks};
    child_start(execution);
    return execution;
}

bool execute_end(struct execution *execution, struct timeline *timeline, struct error *err)
{
    struct ending ending = {0};
    bool ok = wait_twice(execution, &ending)
                  ? ending_check(&ending, execution, err)
                  : error_set_status(err, ERROR_INTERRUPTED, "interrupted: SimGrid cannot be started: %s",
                                     strerror(execution->reason));
    if (ok)
        timeline_take(execution, timeline);
    if (ok && *execution->options->cfg != '\0')
        fputs(ending.said, stderr); /* reports of plug-ins */
    free(ending.said);
    execution_free(execution);
    return ok;
}

void execute_abandon(struct execution *execution)
{
    struct ending ending = {0};
    if (execution == NULL)
        return;
    if (execution->child > 0)
        kill(execution->child, SIGKILL);
    child_wait(execution, &ending);
    free(ending.said);
    execution_free(execution);
}

bool execute(const struct dag *dag, const struct graph *graph, const struct platform *platform,
             const struct execute_options *options, struct timeline *timeline, struct error *err)
{
    struct execution *execution = execute_start(dag, graph, platform, options, err);
    return execution != NULL && execute_end(execution, timeline, err);
}

const char *execute_simgrid_version(void)
{
    static char text[32];
    int major, minor, patch;
    sg_version_get(&major, &minor, &patch);
    snprintf(text, sizeof text, patch > 0 ? "%d.%d.%d" : "%d.%d", major, minor, patch);
    return text;
}
