/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Cells of one measured row while it becomes a setting: texts, numbers, and what the frameworks' names say. Inside
 * validate/. */
#ifndef SLIMSIM_VALIDATE_CELL_H
#define SLIMSIM_VALIDATE_CELL_H

#include "validate/setting.h"

struct cells {
    const struct measured *measured, *gpus;
    int32_t row;
    char *reason, *assumed; /* of SETTING_REASON and SETTING_ASSUMED bytes */
    struct model known;     /* the public model of the row's name where sizes are missing; else {0} */
    struct error *err;
};

const char *cell_text(const struct cells *cells, const char *column);

/** Whether a cell has this part, in any case. */
bool cell_has(const struct cells *cells, const char *column, const char *part);

/** As cell_has, where no "no", "not", "non", "without" or "w/o" stands before the part in its clause, which also "with"
 * and "but" end ("no overlap with ..."), nor "un" in its word ("ungated"), nor "off", "disabled", "false", "none", "not
 * used" behind it, or behind the name of an option that the part begins ("param_gather=False"). */
bool cell_says(const struct cells *cells, const char *column, const char *part);

/** Whether a cell says that there is none: it is "0" or begins with "none", "no", "off", "false", "without", "disabled"
 * or "not used". */
bool cell_is_none(const struct cells *cells, const char *column);

/** Say why the row is skipped; the first reason stays. */
__attribute__((format(printf, 2, 3))) void cell_skip(const struct cells *cells, const char *format, ...);

/** Say what the row leaves open and how it is taken. */
__attribute__((format(printf, 2, 3))) void cell_assume(const struct cells *cells, const char *format, ...);

/** A cell that is 0 or 1; `empty` where it is empty. */
bool cell_flag(const struct cells *cells, const char *column, bool empty);

/** A whole number; 0 where the cell is empty, or with err malformed. */
int64_t cell_whole(const struct cells *cells, const char *column);

/** As cell_whole, 1 where the cell says in a word that there is none. */
int64_t cell_count(const struct cells *cells, const char *column);

/** As cell_whole, 1 where the cell is empty or says that there is none. */
int64_t cell_degree(const struct cells *cells, const char *column);

/** tp, or what n_gpus = tp x pp x cp x dp leaves for it where pp and dp are given, or dp is all; 0: neither. */
int64_t cell_tensor(const struct cells *cells);

bool cell_is_megatron(const struct cells *cells);

/** A GPT of Megatron or NeMo by its defaults. */
bool cell_is_megatron_gpt(const struct cells *cells);

/** A model of llm-foundry's mpt-*.yaml. */
bool cell_is_mpt(const struct cells *cells);

/** Attention before there was flash attention: Megatron-LM on A100, 2021 and 2022; Megatron-Core came later. */
bool cell_is_before_flash(const struct cells *cells);

#endif
