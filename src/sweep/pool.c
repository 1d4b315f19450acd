/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

enum { MAX_ATTEMPTS = 3, POLL_MS = 100, SAID_BYTES = 512 };

struct worker {
    pid_t process; /* 0: none */
    int task_end, answer_end, said_end;
    int32_t position; /* of its task in the list, -1: idle */
    double begin_s;   /* of the task */
    bool expired;     /* its time was over, so it was killed */
    char *answer;     /* [n_bytes] so far; its length comes first */
    size_t n_bytes, capacity;
    char said[SAID_BYTES]; /* beginning of its stderr */
    size_t n_said;
};

struct run {
    const struct pool *pool;
    const int32_t *tasks;
    int32_t n_tasks, n_given, n_taken;
    int32_t n_again, *again; /* positions that are given once more */
    int8_t *attempts;        /* of each position */
    struct worker *workers;  /* [pool->jobs] */
    struct error *err;
};

static bool read_all(int descriptor, void *bytes, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = read(descriptor, (char *)bytes + done, n_bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_all(int descriptor, const void *bytes, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = write(descriptor, (const char *)bytes + done, n_bytes - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/** Run tasks until the pipe ends. */
static _Noreturn void run_tasks(const struct pool *pool, int task_end, int answer_end)
{
    int32_t task;
    while (read_all(task_end, &task, sizeof task)) {
        char *answer = NULL;
        size_t n_bytes = 0;
        FILE *file = check_memstream(&answer, &n_bytes);
        pool->work(pool->context, task, file);
        CHECK(fclose(file) == 0);
        uint64_t length = n_bytes;
        if (!write_all(answer_end, &length, sizeof length) || !write_all(answer_end, answer, n_bytes))
            break;
        free(answer);
        if (pool->memory_bytes > 0) /* memory that one task left must not count against the next */
            break;
    }
    _exit(EXIT_SUCCESS);
}

/**
 * Become a worker, in the child. It keeps only the memory of the parent. Its process group differs, so Ctrl-C does not
 * reach it.
 */
static _Noreturn void become_worker(const struct run *run, pid_t parent, const int ends[6])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    for (int32_t i = 0; i < run->pool->jobs; i++)
        if (run->workers[i].process > 0) {
            close(run->workers[i].task_end);
            close(run->workers[i].answer_end);
            close(run->workers[i].said_end);
        }
    close(ends[1]);
    close(ends[2]);
    close(ends[4]);
    dup2(ends[5], STDOUT_FILENO);
    dup2(ends[5], STDERR_FILENO);
    close(ends[5]);
    rlim_t bytes = (rlim_t)run->pool->memory_bytes;
    if (bytes > 0)
        CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes}) == 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    run_tasks(run->pool, ends[0], ends[3]);
}

/* Make pipes [read, write] of tasks, of answers and of the worker's stderr. */
static bool make_pipes(int ends[6])
{
    for (int i = 0; i < 6; i += 2)
        if (pipe2(ends + i, O_CLOEXEC) != 0) {
            while (i-- > 0)
                close(ends[i]);
            return false;
        }
    return true;
}

static bool start_worker(struct run *run, struct worker *worker)
{
    int ends[6];
    if (!make_pipes(ends))
        return error_set_status(run->err, ERROR_FAILED, "a worker cannot be started: %s", strerror(errno));
    fflush(NULL); /* otherwise the child writes it again */
    pid_t parent = getpid(), process = fork();
    if (process == 0)
        become_worker(run, parent, ends);
    int reason = errno;
    close(ends[0]);
    close(ends[3]);
    close(ends[5]);
    if (process < 0) {
        close(ends[1]);
        close(ends[2]);
        close(ends[4]);
        return error_set_status(run->err, ERROR_FAILED, "a worker cannot be started: %s", strerror(reason));
    }
    setpgid(process, process); /* both processes call it, as either may be first */
    *worker = (struct worker){.process = process, .task_end = ends[1], .answer_end = ends[2], .said_end = ends[4]};
    worker->position = -1;
    fcntl(ends[2], F_SETFL, O_NONBLOCK);
    fcntl(ends[4], F_SETFL, O_NONBLOCK);
    return true;
}

/** Wait for a worker that is dead or about to die. @param status  of waitpid */
static void end_worker(struct worker *worker, bool kill_it, int *status)
{
    if (kill_it)
        kill(-worker->process, SIGKILL);
    while (waitpid(worker->process, status, 0) < 0 && errno == EINTR)
        ;
    kill(-worker->process, SIGKILL); /* processes that it forked may outlive it */
    close(worker->task_end);
    close(worker->answer_end);
    close(worker->said_end);
    free(worker->answer);
    worker->answer = NULL;
    worker->process = 0;
}

static bool give_task(struct run *run, struct worker *worker)
{
    if (run->n_again == 0 && run->n_given == run->n_tasks)
        return true;
    if (worker->process == 0 && !start_worker(run, worker))
        return false;
    worker->position = run->n_again > 0 ? run->again[--run->n_again] : run->n_given++;
    worker->begin_s = clock_wall_s();
    worker->expired = false;
    worker->n_bytes = 0;
    write_all(worker->task_end, &run->tasks[worker->position], sizeof *run->tasks); /* a dead worker is noticed later */
    return true;
}

/** Report how the worker's task ended. The worker is idle then. */
static bool hand_over(struct run *run, struct worker *worker, struct pool_answer answer)
{
    answer.task = run->tasks[worker->position];
    worker->position = -1;
    run->n_taken++;
    return run->pool->take(run->pool->context, &answer, run->err);
}

static void read_said(struct worker *worker)
{
    char more[4096];
    for (ssize_t n; (n = read(worker->said_end, more, sizeof more)) > 0;) {
        size_t room = SAID_BYTES - 1 - worker->n_said, kept = (size_t)n < room ? (size_t)n : room;
        memcpy(worker->said + worker->n_said, more, kept);
        worker->n_said += kept;
    }
    worker->said[worker->n_said] = '\0';
}

/** Handle the end of a worker. If it had a task, its end is an answer too. SIGKILL or SIGTERM came from outside. */
static bool reap_worker(struct run *run, struct worker *worker)
{
    int status = 0;
    char said[SAID_BYTES + 128];
    bool expired = worker->expired;
    read_said(worker);
    end_worker(worker, false, &status);
    if (worker->position < 0)
        return true;
    worker->said[strcspn(worker->said, "\n")] = '\0';
    if (expired) {
        snprintf(said, sizeof said, "it did not finish within %g s, the time limit", run->pool->time_limit_s);
        return hand_over(run, worker, (struct pool_answer){.ending = POOL_TIME_LIMIT, .said = said});
    }
    bool killed = WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM);
    if (killed && ++run->attempts[worker->position] < MAX_ATTEMPTS) {
        run->again[run->n_again++] = worker->position;
        worker->position = -1;
        return true;
    }
    if (WIFSIGNALED(status))
        snprintf(said, sizeof said, "its process died of signal %d (%s)%s%s%s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), killed ? ", three times: out of memory?" : "",
                 worker->n_said > 0 ? ": " : "", worker->said);
    else
        snprintf(said, sizeof said, "its process ended with status %d%s%s", WEXITSTATUS(status),
                 worker->n_said > 0 ? ": " : "", worker->said);
    return hand_over(run, worker, (struct pool_answer){.ending = killed ? POOL_KILLED : POOL_DIED, .said = said});
}

/** Read the bytes that the worker has written. A complete answer is reported. */
static bool read_answer(struct run *run, struct worker *worker)
{
    for (;;) {
        uint64_t length = 0;
        if (worker->capacity - worker->n_bytes < 65536 || worker->answer == NULL) {
            worker->capacity = 2 * worker->n_bytes + 131072;
            worker->answer = check_realloc(worker->answer, worker->capacity);
        }
        ssize_t n = read(worker->answer_end, worker->answer + worker->n_bytes, worker->capacity - worker->n_bytes);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR || reap_worker(run, worker);
        if (n == 0)
            return reap_worker(run, worker);
        worker->n_bytes += (size_t)n;
        if (worker->n_bytes >= sizeof length)
            memcpy(&length, worker->answer, sizeof length);
        if (worker->n_bytes < sizeof length || worker->n_bytes < sizeof length + length)
            continue;
        struct pool_answer answer = {
            .ending = POOL_ANSWERED, .bytes = worker->answer + sizeof length, .n_bytes = length};
        if (!hand_over(run, worker, answer))
            return false;
        if (run->pool->memory_bytes > 0) { /* the worker ends by itself */
            int status;
            end_worker(worker, false, &status);
        }
        return give_task(run, worker);
    }
}

static void check_times(struct run *run)
{
    for (int32_t i = 0; i < run->pool->jobs && run->pool->time_limit_s > 0; i++) {
        struct worker *worker = &run->workers[i];
        if (worker->process > 0 && worker->position >= 0 &&
            clock_wall_s() - worker->begin_s > run->pool->time_limit_s) {
            worker->expired = true;
            kill(-worker->process, SIGKILL);
        }
    }
}

/** Wait a moment for workers, and handle all that have written something. */
static bool step(struct run *run, struct pollfd *files)
{
    int32_t jobs = run->pool->jobs;
    for (int32_t i = 0; i < jobs; i++) {
        const struct worker *worker = &run->workers[i];
        files[2 * i] = (struct pollfd){worker->process > 0 ? worker->answer_end : -1, POLLIN, 0};
        files[2 * i + 1] = (struct pollfd){worker->process > 0 ? worker->said_end : -1, POLLIN, 0};
    }
    poll(files, 2 * (nfds_t)jobs, POLL_MS);
    bool ok = true;
    for (int32_t i = 0; i < jobs && ok; i++) {
        struct worker *worker = &run->workers[i];
        if (files[2 * i + 1].revents & POLLIN)
            read_said(worker);
        if (files[2 * i].revents != 0)
            ok = read_answer(run, worker);
        if (ok && worker->position < 0)
            ok = give_task(run, worker);
    }
    check_times(run);
    run->pool->idle(run->pool->context);
    return ok;
}

bool pool_run(const struct pool *pool, int32_t n_tasks, const int32_t *tasks, struct error *err)
{
    struct pool used = *pool;
    used.jobs = used.jobs < n_tasks ? used.jobs : n_tasks;
    size_t jobs = (size_t)used.jobs;
    struct run run = {.pool = &used, .tasks = tasks, .n_tasks = n_tasks, .err = err};
    run.workers = check_calloc(jobs, sizeof *run.workers);
    run.again = check_calloc(jobs, sizeof *run.again);
    run.attempts = check_calloc((size_t)n_tasks, sizeof *run.attempts);
    struct pollfd *files = check_calloc(2 * jobs, sizeof *files);
    bool ok = true;
    for (size_t i = 0; i < jobs && ok; i++)
        ok = give_task(&run, &run.workers[i]);
    while (ok && run.n_taken < n_tasks && *pool->stop == 0)
        ok = step(&run, files);
    ok = ok && *pool->stop == 0;
    for (size_t i = 0; i < jobs; i++)
        if (run.workers[i].process > 0) {
            int status;
            end_worker(&run.workers[i], true, &status);
        }
    free(files);
    free(run.attempts);
    free(run.again);
    free(run.workers);
    return ok;
}
