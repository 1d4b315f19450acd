/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Parts of setting_of_row, by theme; what each cell becomes stands in validate/setting.h. Inside validate/. */
#ifndef SLIMSIM_VALIDATE_SETTING_PARTS_H
#define SLIMSIM_VALIDATE_SETTING_PARTS_H

#include "validate/cell.h"

enum { SETTING_NODE_GPUS = 8 };

/** Skip what trains something else than all weights on whole sequences. */
void setting_refuse_workload(const struct cells *cells);
void setting_read_model(const struct cells *cells, struct model *model);

/** Device, nodes and links. */
void setting_read_platform(const struct cells *cells, struct setting *setting);

enum device_attention setting_read_attention(const struct cells *cells);
enum scenario_kernels setting_read_kernels(const struct cells *cells);
enum scenario_loss setting_read_loss(const struct cells *cells);

/** What is recomputed. */
struct setting_recompute {
    int32_t parts;        /* enum recompute */
    int64_t every, block; /* of whole layers: every Nth of the model; the first N of each virtual stage; 0: all */
};

/**
 * Read the cell word by word: the model has `layers`. A word or number that is not understood, or that belongs to
 * nothing here, skips the row, so that no part of a cell is passed over; behind a "none" a remark may follow.
 */
struct setting_recompute setting_read_recompute(const struct cells *cells, int64_t layers);

/** Layers of a stage that recompute; needs pp and vpp. Every Nth layer must leave each virtual stage as many. 0: all */
int64_t setting_recompute_layers(const struct cells *cells, struct setting_recompute read,
                                 const struct setting *setting);

/** Runs whose checkpoints are PyTorch's without reentrance, from 2.1 on. */
bool setting_stops_early(const struct cells *cells, int32_t recompute);

/** Layout, recomputation and batch; needs model and n_gpus. */
void setting_read_plan(const struct cells *cells, struct setting *setting);

/** States, gradients and optimizer; needs the layout. */
void setting_read_sharding(const struct cells *cells, struct setting *setting);

/** Needs the sharding. */
void setting_read_overlaps(const struct cells *cells, struct setting *setting);

#endif
