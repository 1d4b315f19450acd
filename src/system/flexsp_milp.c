/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file solves FlexSP's mixed-integer program with GLPK. */
#include "system/flexsp_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "packing/milp.h"

/* The program. Columns: C in units of the start's C, m_p, then A_qp by p and q (0: no column). */
struct milp {
    const struct flexsp_problem *problem;
    const struct flexsp_bucket *buckets;
    int32_t n_buckets, n_virtual, n_columns;
    int32_t *level;  /* [n_virtual] level of p, ascending */
    int32_t *column; /* [n_virtual][n_buckets] column of A_qp */
    struct flexsp_division *division;
    double micro_batch_s, bound; /* C of the start; best known bound, in micro-batches of it */
    int64_t n_nodes;
    bool offered;
    glp_prob *program;
};

static int32_t *column_of(const struct milp *milp, int32_t p, int32_t q)
{
    return &milp->column[p * milp->n_buckets + q];
}

static void number_columns(struct milp *milp)
{
    int32_t n_ranks = milp->problem->n_ranks, widest = flexsp_widest(n_ranks);
    for (int32_t level = 0; level <= widest; level++)
        milp->n_virtual += n_ranks >> level;
    milp->level = check_malloc((size_t)milp->n_virtual * sizeof *milp->level);
    milp->column = check_calloc((size_t)milp->n_virtual * (size_t)milp->n_buckets, sizeof *milp->column);
    milp->n_columns = 1 + milp->n_virtual;
    for (int32_t level = 0, p = 0; level <= widest; level++)
        for (int32_t end = p + (n_ranks >> level); p < end; p++) {
            milp->level[p] = level;
            for (int32_t q = 0; q < milp->n_buckets; q++)
                if (milp->buckets[q].tokens <= milp->problem->capacity << level)
                    *column_of(milp, p, q) = ++milp->n_columns;
        }
}

/* One row under construction. */
struct row {
    int32_t n;
    int *index;
    double *value;
};

static void add_term(struct row *row, int32_t column, double value)
{
    row->index[++row->n] = column;
    row->value[row->n] = value;
}

static void end_row(struct milp *milp, struct row *row, int kind, double bound)
{
    int at = glp_add_rows(milp->program, 1);
    glp_set_mat_row(milp->program, at, row->n, row->index, row->value);
    glp_set_row_bnds(milp->program, at, kind, bound, bound);
    row->n = 0;
}

/* Add the rows of time and memory of a virtual group, and of its order among the groups of its degree. */
static void add_group_rows(struct milp *milp, int32_t p, struct row *row)
{
    const struct flexsp_problem *problem = milp->problem;
    int32_t level = milp->level[p];
    double room = (double)(problem->capacity << level);
    for (int32_t q = 0; q < milp->n_buckets; q++)
        if (*column_of(milp, p, q) > 0)
            add_term(row, *column_of(milp, p, q),
                     flexsp_sequence_s(&problem->cost, milp->buckets[q].tokens, level) / milp->micro_batch_s);
    add_term(row, 2 + p, problem->cost.constant_s / milp->micro_batch_s);
    add_term(row, 1, -1);
    end_row(milp, row, GLP_UP, 0);
    for (int32_t q = 0; q < milp->n_buckets; q++)
        if (*column_of(milp, p, q) > 0)
            add_term(row, *column_of(milp, p, q), milp->buckets[q].tokens / room);
    add_term(row, 2 + p, -1);
    end_row(milp, row, GLP_UP, 0);
    if (p + 1 < milp->n_virtual && milp->level[p + 1] == level) {
        add_term(row, 2 + p, 1);
        add_term(row, 3 + p, -1);
        end_row(milp, row, GLP_LO, 0);
    }
}

static void add_program(struct milp *milp)
{
    size_t width = (size_t)milp->n_columns + 1;
    struct row row = {.index = check_malloc(width * sizeof(int)), .value = check_malloc(width * sizeof(double))};
    milp->program = glp_create_prob();
    glp_set_obj_dir(milp->program, GLP_MIN);
    glp_add_cols(milp->program, milp->n_columns);
    glp_set_obj_coef(milp->program, 1, 1);
    glp_set_col_bnds(milp->program, 1, GLP_DB, milp->bound, 1);
    for (int32_t p = 0; p < milp->n_virtual; p++) {
        glp_set_col_kind(milp->program, 2 + p, GLP_BV);
        for (int32_t q = 0; q < milp->n_buckets; q++)
            if (*column_of(milp, p, q) > 0) {
                glp_set_col_kind(milp->program, *column_of(milp, p, q), GLP_IV);
                glp_set_col_bnds(milp->program, *column_of(milp, p, q), GLP_DB, 0, milp->buckets[q].n);
            }
        add_group_rows(milp, p, &row);
    }
    for (int32_t p = 0; p < milp->n_virtual; p++)
        add_term(&row, 2 + p, 1 << milp->level[p]);
    end_row(milp, &row, GLP_FX, milp->problem->n_ranks);
    for (int32_t q = 0; q < milp->n_buckets; q++) {
        for (int32_t p = 0; p < milp->n_virtual; p++)
            if (*column_of(milp, p, q) > 0)
                add_term(&row, *column_of(milp, p, q), 1);
        end_row(milp, &row, GLP_FX, milp->buckets[q].n);
    }
    free(row.index);
    free(row.value);
}

/* Offer the division as a solution. Its groups are the first of their degree; remaining ranks are groups of one. */
static void offer_start(struct milp *milp, glp_tree *tree)
{
    const struct flexsp_division *division = milp->division;
    double *x = check_calloc((size_t)milp->n_columns + 1, sizeof *x);
    int32_t next[FLEXSP_LEVELS] = {0}, n_free = milp->problem->n_ranks;
    for (int32_t p = 1; p < milp->n_virtual; p++)
        if (milp->level[p] != milp->level[p - 1])
            next[milp->level[p]] = p;
    x[1] = 1;
    for (int32_t i = 0; i < division->n_groups; i++) {
        int32_t p = next[division->level[i]]++;
        n_free -= 1 << division->level[i];
        x[2 + p] = 1;
        for (int32_t q = 0; q < milp->n_buckets; q++)
            x[*column_of(milp, p, q)] = division->count[i * milp->n_buckets + q];
    }
    while (n_free-- > 0)
        x[2 + next[0]++] = 1;
    glp_ios_heur_sol(tree, x);
    free(x);
    milp->offered = true;
}

static void callback(glp_tree *tree, void *context)
{
    struct milp *milp = context;
    int n_nodes, best = glp_ios_best_node(tree);
    if (glp_ios_reason(tree) == GLP_IHEUR && !milp->offered)
        offer_start(milp, tree);
    glp_ios_tree_size(tree, NULL, NULL, &n_nodes);
    milp->n_nodes = n_nodes;
    if (best != 0)
        milp->bound = fmax(milp->bound, glp_ios_node_bound(tree, best));
    if (n_nodes >= milp->problem->node_limit)
        glp_ios_terminate(tree);
}

/*
 * Replace the division by the solution's groups if they are faster. GLPK keeps rows to a tolerance, so rounded counts
 * may exceed a group's room by some tokens. Such a solution is not used.
 */
static void take_solution(struct milp *milp)
{
    const struct flexsp_problem *problem = milp->problem;
    struct flexsp_division *old = milp->division;
    size_t n = (size_t)problem->n_ranks, width = (size_t)milp->n_buckets;
    struct flexsp_division new = {.level = check_malloc(n * sizeof(int32_t)),
                                  .count = check_calloc((n + 1) * width, sizeof(int32_t)),
                                  .load_s = check_malloc(n * sizeof(double)),
                                  .tokens = check_malloc(n * sizeof(int64_t))};
    int32_t n_free = problem->n_ranks;
    bool fits = true;
    for (int32_t p = 0; p < milp->n_virtual; p++) {
        int32_t *count = new.count + (size_t) new.n_groups *width, level = milp->level[p];
        double load_s = problem->cost.constant_s;
        int64_t tokens = 0;
        for (int32_t q = 0; q < milp->n_buckets; q++) {
            int32_t column = *column_of(milp, p, q);
            count[q] = column > 0 ? (int32_t)lround(glp_mip_col_val(milp->program, column)) : 0;
            load_s += count[q] * flexsp_sequence_s(&problem->cost, milp->buckets[q].tokens, level);
            tokens += (int64_t)count[q] * milp->buckets[q].tokens;
        }
        if (tokens == 0)
            continue;
        n_free -= 1 << level;
        fits = fits && n_free >= 0 && tokens <= problem->capacity << level;
        if (!fits)
            break;
        new.level[new.n_groups] = level;
        new.load_s[new.n_groups] = load_s;
        new.tokens[new.n_groups++] = tokens;
        new.longest_s = fmax(new.longest_s, load_s);
    }
    struct flexsp_division worse = new;
    if (fits && new.longest_s < old->longest_s) {
        worse = *old;
        *old = new;
    }
    free(worse.level);
    free(worse.count);
    free(worse.load_s);
    free(worse.tokens);
}

double flexsp_milp(const struct flexsp_problem *problem, const struct flexsp_bucket *buckets, int32_t n_buckets,
                   double bound_s, struct flexsp_division *division, int64_t *n_nodes)
{
    struct milp milp = {.problem = problem,
                        .buckets = buckets,
                        .n_buckets = n_buckets,
                        .division = division,
                        .micro_batch_s = division->longest_s,
                        .bound = bound_s / division->longest_s};
    number_columns(&milp);
    if (milp.n_columns <= problem->max_columns && problem->node_limit > 0) {
        add_program(&milp);
        bool finished, found = milp_solve(milp.program, callback, &milp, &finished);
        if (found)
            take_solution(&milp);
        if (found && finished)
            milp.bound =
                fmin(milp.division->longest_s / milp.micro_batch_s, glp_mip_obj_val(milp.program) * (1 + 1e-9));
        glp_delete_prob(milp.program);
        *n_nodes += milp.n_nodes;
    }
    free(milp.level);
    free(milp.column);
    return fmax(0, 1 - milp.bound * milp.micro_batch_s / division->longest_s);
}
