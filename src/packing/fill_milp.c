/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Fill bins by a mixed-integer program that GLPK solves. */
#include "packing/fill.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "packing/milp.h"

/* The program. Its columns are D, then z[k][t] boundary by boundary. Positions count from the chain's start. */
struct milp {
    const struct fill *fill;
    int64_t *first, *last; /* [n_micro_batches - 1] range of positions of boundary k */
    int32_t *column;       /* [n_micro_batches] column of each boundary's first position; last: end of the columns */
    int64_t *start;        /* [n_micro_batches] the exact fill's ends */
    double token;          /* FLOPs of the most expensive token x n_micro_batches */
    fill_flop total;       /* FLOPs of the chain */
    glp_prob *problem;
    bool offered; /* the exact fill's solution was offered */
    double gap;
};

static fill_flop token_flop(const struct fill *fill)
{
    fill_flop most = 1;
    for (int32_t i = 0; i < fill->n_samples; i++) {
        int64_t tokens = fill->tokens[fill->sample[i]];
        fill_flop last = flop_of_slice(fill->curve, tokens - 1, tokens);
        most = last > most ? last : most;
    }
    return most;
}

fill_flop fill_flop_before(const struct fill *fill, int64_t position)
{
    fill_flop flop = 0;
    for (int32_t i = 0; i < fill->n_samples && position > 0; i++) {
        int64_t tokens = fill->tokens[fill->sample[i]], taken = position < tokens ? position : tokens;
        bool forward = fill->pass == PASS_FORWARD;
        flop += flop_of_slice(fill->curve, forward ? 0 : tokens - taken, forward ? taken : tokens);
        position -= taken;
    }
    return flop;
}

/* Return the work before a position minus (k + 1) shares [most expensive tokens]. */
static double deviation(const struct milp *milp, int64_t k, int64_t position)
{
    fill_flop before = fill_flop_before(milp->fill, position) * milp->fill->n_micro_batches;
    return (double)(before - (k + 1) * milp->total) / milp->token;
}

static int32_t n_positions(const struct milp *milp, int64_t k)
{
    return milp->column[k + 1] - milp->column[k];
}

static void open_windows(struct milp *milp, int64_t window)
{
    const struct fill *fill = milp->fill;
    int64_t n_micro_batches = fill->n_micro_batches, n_tokens = milp->start[n_micro_batches - 1];
    milp->column[0] = 2;
    for (int64_t k = 0; k < n_micro_batches - 1; k++) {
        int64_t least = k + 1, most = n_tokens - (n_micro_batches - 1 - k);
        milp->first[k] = window > 0 && milp->start[k] - window > least ? milp->start[k] - window : least;
        milp->last[k] = window > 0 && milp->start[k] + window < most ? milp->start[k] + window : most;
        milp->column[k + 1] = milp->column[k] + (int32_t)(milp->last[k] - milp->first[k] + 1);
    }
}

/* Add a row with the terms of D and of boundaries `from` and `to` (to - from). A boundary that does not exist has no
 * terms. */
static void add_row(struct milp *milp, int64_t from, int64_t to, double d, bool positions, double least)
{
    int64_t boundary[] = {from, to};
    int32_t n = 0, capacity = 2;
    for (int i = 0; i < 2; i++)
        if (0 <= boundary[i] && boundary[i] < milp->fill->n_micro_batches - 1)
            capacity += n_positions(milp, boundary[i]);
    int *index = check_malloc((size_t)capacity * sizeof *index);
    double *value = check_malloc((size_t)capacity * sizeof *value);
    if (d != 0) {
        index[++n] = 1;
        value[n] = 1;
    }
    for (int i = 0; i < 2; i++) {
        int64_t k = boundary[i];
        if (k < 0 || k >= milp->fill->n_micro_batches - 1)
            continue;
        double sign = (i == 0 ? -1 : 1) * (d < 0 ? -1 : 1);
        for (int32_t t = 0; t < n_positions(milp, k); t++) {
            index[++n] = milp->column[k] + t;
            value[n] = sign * (positions ? (double)(milp->first[k] + t) : deviation(milp, k, milp->first[k] + t));
        }
    }
    int row = glp_add_rows(milp->problem, 1);
    glp_set_mat_row(milp->problem, row, n, index, value);
    glp_set_row_bnds(milp->problem, row, GLP_LO, least, 0);
    free(index);
    free(value);
}

static void add_columns(struct milp *milp)
{
    int64_t n_boundaries = milp->fill->n_micro_batches - 1;
    glp_add_cols(milp->problem, milp->column[n_boundaries] - 1);
    glp_set_col_bnds(milp->problem, 1, GLP_LO, 0, 0);
    glp_set_obj_dir(milp->problem, GLP_MIN);
    glp_set_obj_coef(milp->problem, 1, 1);
    for (int64_t k = 0; k < n_boundaries; k++) {
        int n = n_positions(milp, k), row = glp_add_rows(milp->problem, 1);
        int *index = check_malloc(((size_t)n + 1) * sizeof *index);
        double *one = check_malloc(((size_t)n + 1) * sizeof *one);
        for (int t = 0; t < n; t++) {
            index[t + 1] = milp->column[k] + t;
            one[t + 1] = 1;
            glp_set_col_kind(milp->problem, index[t + 1], GLP_BV);
        }
        glp_set_mat_row(milp->problem, row, n, index, one);
        glp_set_row_bnds(milp->problem, row, GLP_FX, 1, 1);
        free(index);
        free(one);
    }
}

static void add_rows(struct milp *milp)
{
    for (int64_t k = 0; k < milp->fill->n_micro_batches; k++) {
        add_row(milp, k - 1, k, -1, false, 0); /* D >= work of micro-batch k - share */
        add_row(milp, k - 1, k, 1, false, 0);  /* D >= share - work of micro-batch k */
        if (0 < k && k < milp->fill->n_micro_batches - 1)
            add_row(milp, k - 1, k, 0, true, 1); /* no micro-batch is empty */
    }
}

static double largest_deviation(const struct milp *milp, const int64_t *end)
{
    double largest = 0, before = 0;
    for (int64_t k = 0; k < milp->fill->n_micro_batches; k++) {
        double here = k < milp->fill->n_micro_batches - 1 ? deviation(milp, k, end[k]) : 0;
        largest = fmax(largest, fabs(here - before));
        before = here;
    }
    return largest;
}

static void offer_start(struct milp *milp, glp_tree *tree)
{
    int n = glp_get_num_cols(milp->problem);
    double *x = check_calloc((size_t)n + 1, sizeof *x);
    x[1] = largest_deviation(milp, milp->start);
    for (int64_t k = 0; k < milp->fill->n_micro_batches - 1; k++)
        x[milp->column[k] + milp->start[k] - milp->first[k]] = 1;
    glp_ios_heur_sol(tree, x);
    free(x);
    milp->offered = true;
}

static void callback(glp_tree *tree, void *context)
{
    struct milp *milp = context;
    int n_nodes;
    if (glp_ios_reason(tree) == GLP_IHEUR && !milp->offered)
        offer_start(milp, tree);
    glp_ios_tree_size(tree, NULL, NULL, &n_nodes);
    milp->fill->search->n_solved_nodes = n_nodes;
    milp->gap = fmin(glp_ios_mip_gap(tree), 1); /* D >= 0; GLPK's own gap is infinite before it has a solution */
    if (n_nodes >= milp->fill->search->node_limit)
        glp_ios_terminate(tree);
}

/*
 * Fill in the boundaries of the best solution found.
 *
 * @return whether there is one
 */
static bool branch_and_bound(struct milp *milp, int64_t *end)
{
    bool finished, found = milp_solve(milp->problem, callback, milp, &finished);
    if (finished)
        milp->gap = 0;
    if (!found)
        return false;
    for (int64_t k = 0; k < milp->fill->n_micro_batches - 1; k++)
        for (int32_t t = 0; t < n_positions(milp, k); t++)
            if (glp_mip_col_val(milp->problem, milp->column[k] + t) > 0.5)
                end[k] = milp->first[k] + t;
    return true;
}

void fill_milp(const struct fill *fill, int64_t *end)
{
    struct fill_search *search = fill->search;
    size_t n_micro_batches = (size_t)fill->n_micro_batches;
    struct milp milp = {
        .fill = fill, .start = end, .gap = 1, .total = fill_flop_before(fill, end[n_micro_batches - 1])};
    if (n_micro_batches < 2)
        return;
    search->n_solved_nodes = 0;
    milp.token = (double)(token_flop(fill) * fill->n_micro_batches);
    milp.first = check_malloc(n_micro_batches * sizeof *milp.first);
    milp.last = check_malloc(n_micro_batches * sizeof *milp.last);
    milp.column = check_malloc(n_micro_batches * sizeof *milp.column);
    int64_t *best = check_malloc(n_micro_batches * sizeof *best);
    best[n_micro_batches - 1] = end[n_micro_batches - 1];
    milp.problem = glp_create_prob();
    open_windows(&milp, search->window);
    add_columns(&milp);
    add_rows(&milp);
    bool found = branch_and_bound(&milp, best) && largest_deviation(&milp, best) < largest_deviation(&milp, end);
    for (size_t k = 0; found && k < n_micro_batches; k++)
        end[k] = best[k];
    search->n_nodes += search->n_solved_nodes;
    search->gap = fmax(search->gap, milp.gap);
    search->deviation = largest_deviation(&milp, end);
    glp_delete_prob(milp.problem);
    free(milp.first);
    free(milp.last);
    free(milp.column);
    free(best);
}
