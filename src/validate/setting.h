/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a measured row ran, in the simulator's words: the one place where frameworks' names become settings. */
#ifndef SLIMSIM_VALIDATE_SETTING_H
#define SLIMSIM_VALIDATE_SETTING_H

#include "scenario/scenario.h"
#include "validate/measured.h"

/** Sharing among the ranks of one stage and tensor index. */
enum setting_sharding { SETTING_REPLICATED, SETTING_ZERO1, SETTING_ZERO2, SETTING_ZERO3 };

struct setting {
    struct model model;
    char device[64]; /* of model/gpu */
    struct platform platform;
    struct scenario_communication communication;
    struct scenario_plan plan; /* dp filled in */
    enum device_attention attention;
    enum setting_sharding sharding;
    bool bf16_gradients;
    int64_t vpp, seq_len, micro_batch, global_batch; /* 0: not in the row */
    int64_t n_gpus;
};

/** Why a row is not simulated; "" it is. */
enum { SETTING_REASON = 192 };

/**
 * Fill a setting from a row. Columns are those of the shipped files; texts are looked for as parts of a cell.
 *
 *   setting           column               value
 *   model             hidden layers heads  as they stand; kv_groups, ffn, vocab, activation too. squared-relu counts as
 *                                          gelu (one inner tensor, element by element). Norms RMSNorm, positions rotary
 *   tied embeddings   notes, framework     "untied embeddings": no; "tied embeddings", llm-foundry (MPT ties), or a GPT
 *                                          of Megatron or NeMo (their default): yes; else no
 *   device            gpu                  by the table model/validation/gpus.csv; not there: skipped
 *   platform          fabric, gpu          "N GB/s": NVLink, both directions; "KxM Gb/s" or "M Gb/s per node" shared by
 *                                          8 GPUs, "M Gb/s per GPU"; else by gpus.csv. Nodes of 8 GPUs
 *   attention kernel  attn_kernel,         FlashAttention-2, FlashAttention-3, cuDNN; empty or "auto": NeMo, Megatron
 * on framework            H100, MaxText: cuDNN (Transformer Engine's choice); all others FlashAttention-2. "unfused"
 * and Megatron on A100 (2021, 2022: before flash attention): FlashAttention-2's time stands in for it gradients
 * sharding, framework  "bf16 grad", or llm-foundry (mixed_precision PURE): reduced in bf16; else fp32 sharding sharding
 * "ZeRO-3", "FULL_SHARD", "FSDP": zero3; "ZeRO-2", "SHARD_GRAD_OP": zero2; "ZeRO-1", "distributed optimizer": zero1;
 * else replicated (time as zero1) tp overlap        tp_comm_overlap      1: all collectives beside GEMMs; else none
 * (Megatron's default) dp overlap        sharding             "overlap", or zero2 and zero3 (prefetch is their
 * default): all; else none (Megatron's default) recompute         recompute            "none" or empty: none.
 * "selective (core attention)": none, flash attention keeps no core. "SwiGLU act...": selective. "full": full. Others:
 * skipped offload           offload, recompute   "alpha 0.5", "alpha=0.5": that share of activations precision
 * precision            bf16; fp16 is as fast. Others: skipped
 *
 * Sequence parallelism goes with tensor parallelism: without it (sp 0) the collectives move the same bytes.
 *
 * @param reason  why the row cannot run: a missing column (the first), or what the simulator has no model of
 * @return        false with err for a cell that is malformed
 */
bool setting_of_row(const struct measured *measured, int32_t row, const struct measured *gpus, struct setting *setting,
                    char reason[SETTING_REASON], struct error *err);

/** Columns a simulation cannot do without, NULL at the end. */
extern const char *const setting_columns[];

#endif
