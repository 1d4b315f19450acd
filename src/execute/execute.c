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
#include "execute/replay.h"

/* How the child ended. */
struct ending {
    int status;      /* of waitpid */
    char said[4096]; /* beginning of its stdout and stderr, NUL-terminated */
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
        largest = task->from_rank > largest ? task->from_rank : largest;
        largest = task->to_rank > largest ? task->to_rank : largest;
    }
    if (largest < platform_n_gpus(platform))
        return true;
    return error_set(err, "the plan uses GPU %d, but platform %s has GPUs 0 to %d (%d nodes of %d)", largest,
                     platform->name, platform_n_gpus(platform) - 1, platform->n_nodes, platform->gpus_per_node);
}

/* Keep the beginning of what the child says, read on until it closes the pipe. */
static void pipe_read(int file, struct ending *ending)
{
    size_t length = 0;
    char more[4096];
    ssize_t n;
    while ((n = read(file, more, sizeof more)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        CHECK(n > 0);
        size_t room = sizeof ending->said - 1 - length, kept = (size_t)n < room ? (size_t)n : room;
        memcpy(ending->said + length, more, kept);
        length += kept;
    }
    ending->said[length] = '\0';
}

static _Noreturn void child(const struct replay *replay, const int *ends, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no orphans */
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    int status = replay_run(replay);
    fflush(stderr);
    _exit(status);
}

static bool child_run(const struct replay *replay, struct ending *ending, struct error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return error_set_status(err, ERROR_FAILED, "SimGrid cannot be started: %s", strerror(errno));
    fflush(NULL); /* or the child writes it again */
    pid_t parent = getpid(), process = fork();
    if (process == 0)
        child(replay, ends, parent);
    close(ends[1]);
    if (process > 0) {
        pipe_read(ends[0], ending);
        while (waitpid(process, &ending->status, 0) < 0)
            CHECK(errno == EINTR);
    } else {
        error_set_status(err, ERROR_FAILED, "SimGrid cannot be started: %s", strerror(errno));
    }
    close(ends[0]);
    return process > 0;
}

/* The reason stands in SimGrid's first line, after "[clock] file: [category/ERROR] "; a backtrace may follow. */
static const char *reason(struct ending *ending)
{
    ending->said[strcspn(ending->said, "\n")] = '\0';
    const char *mark = strstr(ending->said, "/ERROR] ");
    if (mark == NULL)
        mark = strstr(ending->said, "/CRITICAL] ");
    if (mark != NULL)
        return strchr(mark, ' ') + 1;
    return ending->said[0] != '\0' ? ending->said : "it said nothing";
}

static const char *task_text(const struct dag *dag, int32_t task, char *text, size_t size)
{
    static const char *const kind[DAG_N_KINDS] = {"computation", "attention", "send", "barrier", "optimizer step"};
    static const char *const purpose[DAG_N_PURPOSES] = {"",
                                                        " (boundary)",
                                                        " (context ring)",
                                                        " (tensor ring)",
                                                        " (exchange)",
                                                        " (reduce-scatter)",
                                                        " (all-gather)",
                                                        " (all-reduce)",
                                                        " (reshard)",
                                                        " (offload)",
                                                        " (prefetch)"};
    const struct dag_task *of = &dag->tasks[task];
    int used = snprintf(text, size, "%s%s", kind[of->kind], purpose[of->purpose]);
    if (of->unit >= 0)
        used += snprintf(text + used, size - (size_t)used, " of %s unit %d", pass_name[of->pass], of->unit);
    snprintf(text + used, size - (size_t)used, ", pipeline %d, stage %d, GPU %d", of->pipeline, of->stage,
             dag->places[of->place].rank);
    return text;
}

/* The first unfinished predecessor, -1: none. */
static int32_t waited_for(const struct dag *dag, const double *finish_s, int32_t task)
{
    for (int32_t e = dag->in_first[task]; e < dag->in_first[task + 1]; e++)
        if (isnan(finish_s[dag->in_task[e]]))
            return dag->in_task[e];
    return -1;
}

/* simgrid_run returns normally when all wait: then some tasks have no finish. Name the first of up to three streams. */
static bool all_finished(const struct replay *replay, struct error *err)
{
    const struct dag *dag = replay->dag;
    const struct queues *queues = replay->queues;
    int32_t n_waiting = 0;
    char task_words[256], other_words[256], list[2048] = "";
    for (int32_t s = 0; s < queues->n_streams; s++) {
        int32_t i = queues->stream_first[s];
        while (i < queues->stream_first[s + 1] && !isnan(replay->finish_s[queues->stream_task[i]]))
            i++;
        if (i == queues->stream_first[s + 1] || ++n_waiting > 3)
            continue;
        int32_t task = queues->stream_task[i], other = waited_for(dag, replay->finish_s, task);
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s waits for %s", n_waiting > 1 ? "; " : "",
                 task_text(dag, task, task_words, sizeof task_words),
                 other >= 0 ? task_text(dag, other, other_words, sizeof other_words) : "SimGrid");
    }
    if (n_waiting == 0)
        return true;
    return error_set_status(err, ERROR_FAILED, "deadlock: %d streams wait for each other: %s%s", n_waiting, list,
                            n_waiting > 3 ? "; ..." : "");
}

static bool ending_check(struct ending *ending, const struct replay *replay, struct error *err)
{
    int status = ending->status;
    if (WIFSIGNALED(status))
        return error_set_status(err, ERROR_FAILED, "SimGrid died of signal %d (%s) on platform %s: %s",
                                WTERMSIG(status), strsignal(WTERMSIG(status)), replay->platform->path, reason(ending));
    if (WEXITSTATUS(status) == REPLAY_REFUSED)
        return error_set(err, "%s: SimGrid cannot use this platform: %s", replay->platform->path, reason(ending));
    if (WEXITSTATUS(status) != EXIT_SUCCESS)
        return error_set_status(err, ERROR_FAILED, "SimGrid ended with status %d on platform %s: %s",
                                WEXITSTATUS(status), replay->platform->path, reason(ending));
    return all_finished(replay, err);
}

static void timeline_take(const struct replay *replay, struct timeline *timeline)
{
    timeline_reserve(timeline, replay->dag->n_tasks);
    timeline->makespan_s = 0;
    for (int32_t t = 0; t < replay->dag->n_tasks; t++) {
        timeline->start_s[t] = replay->start_s[t];
        timeline->finish_s[t] = replay->finish_s[t];
        timeline->makespan_s = fmax(timeline->makespan_s, timeline->finish_s[t]);
    }
}

bool execute(const struct dag *dag, const struct platform *platform, struct timeline *timeline, struct error *err)
{
    if (!gpus_check(dag, platform, err))
        return false;
    size_t n_tasks = (size_t)dag->n_tasks, bytes = (2 * n_tasks + 1) * sizeof(double);
    double *shared_s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared_s == MAP_FAILED)
        return error_set_status(err, ERROR_FAILED, "no memory to share with SimGrid: %s", strerror(errno));
    for (size_t i = n_tasks; i < 2 * n_tasks; i++)
        shared_s[i] = NAN; /* not run */
    struct queues queues;
    queues_build(dag, &queues);
    struct replay replay = {dag, &queues, platform, .start_s = shared_s, .finish_s = shared_s + n_tasks};
    struct ending ending = {0};
    bool ok = child_run(&replay, &ending, err) && ending_check(&ending, &replay, err);
    if (ok)
        timeline_take(&replay, timeline);
    queues_free(&queues);
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
