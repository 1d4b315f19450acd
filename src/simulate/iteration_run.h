/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module runs one iteration of one system: it draws the batch, plans it, resolves the plan on the critical path
 * and executes it on SimGrid.
 */
#ifndef SLIMSIM_SIMULATE_ITERATION_RUN_H
#define SLIMSIM_SIMULATE_ITERATION_RUN_H

#include "bounds/evaluate.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "lengths/lengths.h"
#include "search/search.h"
#include "system/system.h"

/** An iteration with all its data. Iterations that run side by side have a run each. */
struct iteration_run {
    const struct scenario *scenario;
    const struct lengths *lengths;
    const struct search_result *search; /* NULL: no search */
    const struct scenario_system *entry;
    const struct training_system *system;
    bool again; /* the graph has every task, tasks have their slack, and the memory has events */
    /* filled in by iteration_run_open, shared by copies of the run */
    void *knobs, *state;
    struct faults faults, group_faults; /* of GPUs; of TP groups, each with the factors of its slowest GPU */
    struct cost_setting setting;        /* without faults, for plans */
    struct jitter jitter;               /* of the iteration */
    struct cost_setting faulty;         /* with the faults of GPUs, and the replayed step of the iteration */
    struct cost_setting group_faulty;   /* with the faults of TP groups, likewise */
    /* the iteration that runs */
    int64_t iteration;
    double solve_s;  /* CPU time of planning, 0 if a search did it */
    bool every_rank; /* SimGrid ran every rank of tensor-parallel groups though the scenario does not ask for it */
    struct batch batch;
    struct plan plan;
    struct evaluator evaluator; /* its memory has the times of the engine */
    struct graph *graph;        /* NULL if nobody sees its tasks */
    struct execute_options simgrid;
    struct execution *execution; /* NULL: SimGrid does not run */
    struct timeline executed;
    double *slack_s;
};

/** Read the system's knobs and the faults. The caller closes the run, also after a failure. */
bool iteration_run_open(struct iteration_run *run, struct cost_cache *costs, struct error *err);

/** Draw and plan an iteration. A system that holds a state plans the iterations in order. */
bool iteration_run_plan(struct iteration_run *run, int64_t iteration, struct error *err);

/** Plan an iteration, resolve it, and start SimGrid. */
bool iteration_run_begin(struct iteration_run *run, int64_t iteration, struct error *err);

/** Await SimGrid and compute the memory. */
bool iteration_run_end(struct iteration_run *run, struct error *err);

/** Return whether SimGrid runs the iteration: not in warm-up. */
bool iteration_run_executes(const struct iteration_run *run);

/** Return the times of SimGrid if it runs, otherwise those of the critical path. */
const struct timeline *iteration_run_timeline(const struct iteration_run *run);

/**
 * Check that SimGrid is not faster than the critical path, since contention only adds time. The check is off if the
 * user changes SimGrid's models.
 */
bool iteration_run_check_simgrid(const struct scenario *scenario, double simgrid_s, double path_s, struct error *err);

/** Free the data of one iteration. Arrays are kept for the next one. */
void iteration_run_clear(struct iteration_run *run);

/** Free all that is not shared. */
void iteration_run_free(struct iteration_run *run);

/** Free all that copies of a run share. */
void iteration_run_close(struct iteration_run *run);

#endif
