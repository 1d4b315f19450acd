/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simgrid.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "bench.h"
#include "execute/execute.h"
#include "execute/streams.h"

/* A step is a task of the bare loop. The steps of a stream follow one another. */
struct step {
    double sleep_s, execute_s, bytes; /* done in this order; 0: skipped */
    int32_t from_rank, to_rank;
    /* steps of other streams that it waits for; steps that wait for it, in bare.next */
    int32_t n_waits, first_next, n_next;
    int32_t stream;
};

struct stream {
    struct bare *bare;
    int32_t first, end, waits_for;
    sg_sem_t wake;
};

struct bare {
    const struct cluster *cluster;
    struct step *steps;
    int32_t *next;
    struct stream *streams;
    int32_t n_streams;
    double *finish_s; /* [steps], shared with the parent */
};

static void walk(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct stream *stream = sg_actor_self_get_data();
    struct bare *bare = stream->bare;
    for (int32_t i = stream->first; i < stream->end; i++) {
        const struct step *step = &bare->steps[i];
        if (step->n_waits > 0) {
            stream->waits_for = i;
            sg_sem_acquire(stream->wake);
        }
        if (step->sleep_s > 0)
            sg_actor_sleep_for(step->sleep_s);
        if (step->execute_s > 0)
            sg_actor_execute(step->execute_s * sg_host_get_speed(sg_host_self()));
        if (step->bytes > 0)
            sg_host_sendto(cluster_host(bare->cluster, step->from_rank, step->to_rank),
                           cluster_host(bare->cluster, step->to_rank, step->from_rank), step->bytes);
        bare->finish_s[i] = simgrid_get_clock();
        for (int32_t k = step->first_next; k < step->first_next + step->n_next; k++) {
            struct stream *other = &bare->streams[bare->steps[bare->next[k]].stream];
            if (--bare->steps[bare->next[k]].n_waits == 0 && other->waits_for == bare->next[k])
                sg_sem_release(other->wake);
        }
    }
}

static struct step step_of(const struct dag *dag, int32_t t, struct bench_rates *rates)
{
    const struct dag_task *task = &dag->tasks[t];
    struct step step = {.from_rank = task->from_rank, .to_rank = task->to_rank, .stream = task->stream};
    double whole_bytes = floor(task->wire_bytes);
    if (task->kind == DAG_SEND && whole_bytes > 0) {
        step.bytes = whole_bytes;
        step.sleep_s = task->latency_s + (dag->duration_s[t] - task->latency_s) * (1 - whole_bytes / task->wire_bytes);
        rates->n_transfers++;
    } else if (task->kind == DAG_SEND || task->kind == DAG_SYNC) {
        step.sleep_s = dag->duration_s[t];
    } else {
        step.execute_s = dag->duration_s[t];
        rates->n_executions += dag->duration_s[t] > 0;
    }
    return step;
}

/* Make the steps in the order of streams. @param step_of_task  [n_tasks] is filled in */
static struct bare bare_of(const struct dag *dag, int32_t *step_of_task, struct bench_rates *rates)
{
    size_t n_tasks = (size_t)dag->n_tasks;
    struct bare bare = {.steps = check_calloc(n_tasks, sizeof *bare.steps),
                        .next = check_calloc((size_t)dag->n_edges, sizeof *bare.next),
                        .n_streams = dag_n_streams(dag)};
    int32_t n = 0, n_next = 0;
    bare.streams = check_calloc((size_t)bare.n_streams, sizeof *bare.streams);
    for (int32_t s = 0; s < bare.n_streams; s++) {
        bare.streams[s] = (struct stream){.first = n, .waits_for = -1};
        for (int32_t t = dag->stream_first[s]; t >= 0; t = dag->stream_next[t]) {
            step_of_task[t] = n;
            bare.steps[n++] = step_of(dag, t, rates);
        }
        bare.streams[s].end = n;
    }
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (dag->tasks[dag->in_task[e]].stream != dag->tasks[t].stream) {
                bare.steps[step_of_task[t]].n_waits++;
                bare.steps[step_of_task[dag->in_task[e]]].n_next++;
            }
    for (int32_t i = 0; i < n; i++) {
        bare.steps[i].first_next = n_next;
        n_next += bare.steps[i].n_next;
        bare.steps[i].n_next = 0;
    }
    for (int32_t t = 0; t < dag->n_tasks; t++)
        for (int32_t e = dag->in_first[t]; e < dag->in_first[t + 1]; e++)
            if (dag->tasks[dag->in_task[e]].stream != dag->tasks[t].stream) {
                struct step *before = &bare.steps[step_of_task[dag->in_task[e]]];
                bare.next[before->first_next + before->n_next++] = step_of_task[t];
            }
    return bare;
}

static _Noreturn void bare_child(struct bare *bare, const struct dag *dag, const struct platform *platform)
{
    struct cluster cluster;
    cluster_open(platform, dag->faults, &(struct execute_options){.cfg = ""}, NULL, &cluster);
    bare->cluster = &cluster;
    for (int32_t s = 0; s < bare->n_streams; s++) {
        struct stream *stream = &bare->streams[s];
        if (stream->first == stream->end)
            continue;
        stream->bare = bare;
        stream->wake = sg_sem_init(0);
        sg_actor_t actor = sg_actor_init("stream", cluster.gpu[streams_rank(dag, s)]);
        sg_actor_set_data(actor, stream);
        sg_actor_start(actor, walk, 0, NULL);
    }
    simgrid_run();
    _exit(EXIT_SUCCESS);
}

static bool bare_run(struct bare *bare, const struct dag *dag, const struct platform *platform)
{
    int status;
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0)
        bare_child(bare, dag, platform);
    CHECK(waitpid(process, &status, 0) == process);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

/* Return the CPU seconds of this process and of the children that it has waited for. */
static double cpu_s(struct bench_rates *rates)
{
    double children_s;
    children_usage(&children_s, &rates->peak_bytes);
    return clock_cpu_s() + children_s;
}

static double difference(const struct timeline *timeline, const double *finish_s, const int32_t *step_of_task,
                         int32_t n)
{
    double most_s = 0;
    for (int32_t t = 0; t < n; t++)
        most_s = fmax(most_s, fabs(timeline->finish_s[t] - finish_s[step_of_task[t]]));
    return most_s / timeline->makespan_s;
}

bool bench_simgrid_rates(const struct dag *dag, const struct graph *graph, const struct platform *platform,
                         struct bench_rates *rates, struct error *err)
{
    size_t n_tasks = (size_t)dag->n_tasks, bytes = n_tasks * sizeof(double);
    double execute_s[RUNS], bare_s[RUNS], ratio[RUNS];
    struct timeline timeline = {0};
    int32_t *step_of_task = check_malloc(n_tasks * sizeof *step_of_task);
    struct bare bare = bare_of(dag, step_of_task, rates);
    bool ok = true;
    bare.finish_s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(bare.finish_s != MAP_FAILED);
    for (int i = 0; i < RUNS && ok; i++) {
        double start_s = cpu_s(rates);
        ok = execute(dag, graph, platform, &(struct execute_options){.cfg = ""}, &timeline, err);
        double middle_s = cpu_s(rates);
        ok = ok && (bare_run(&bare, dag, platform) || error_set_status(err, ERROR_FAILED, "the bare loop failed"));
        bare_s[i] = cpu_s(rates) - middle_s;
        execute_s[i] = middle_s - start_s;
        ratio[i] = bare_s[i] / execute_s[i];
    }
    if (ok) {
        rates->execute_s = median(execute_s, RUNS);
        rates->bare_s = median(bare_s, RUNS);
        rates->ratio = median(ratio, RUNS);
        rates->difference = difference(&timeline, bare.finish_s, step_of_task, dag->n_tasks);
    }
    munmap(bare.finish_s, bytes);
    timeline_free(&timeline);
    free(step_of_task);
    free(bare.steps);
    free(bare.next);
    free(bare.streams);
    return ok;
}
