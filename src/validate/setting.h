/* SPDX-License-Identifier: GPL-3.0-or-later */
/** What a measured row ran, in the simulator's words: the one place where frameworks' names become settings. */
#ifndef SLIMSIM_VALIDATE_SETTING_H
#define SLIMSIM_VALIDATE_SETTING_H

#include "scenario/scenario.h"
#include "validate/measured.h"

enum { SETTING_ASSUMED = 384, SETTING_CAUSE = 256 }; /* bytes of texts */

struct setting {
    struct model model;
    char device[64]; /* of model/gpu */
    struct platform platform;
    struct scenario_communication communication;
    struct scenario_plan plan; /* dp filled in */
    enum device_attention attention;
    enum scenario_kernels kernels;
    enum scenario_loss loss;
    int64_t n_gpus, seq_len, micro_batch, global_batch; /* global_batch 0: not in the row */
    char assumed[SETTING_ASSUMED];                      /* what the row leaves open, as it was taken; "; " between */
};

/** What names in rows mean: gpus.csv, models.csv and causes.csv of model/validation. */
struct setting_tables {
    struct measured gpus, models, causes;
};

/** The shipped ones; a cause that is too long is refused. setting_tables_free also after false. */
bool setting_tables_read(struct setting_tables *tables, struct error *err);
void setting_tables_free(struct setting_tables *tables);

/** Why a row is not simulated; "" it is. */
enum { SETTING_REASON = 192 };

/**
 * Fill a setting from a row. Columns are those of the shipped files; texts are looked for as parts of a cell, in any
 * case. What a row leaves open, and how it is taken, goes to `assumed`.
 *
 *   setting          column             value
 *   model            hidden ... vocab   as they stand; activation: relu and squared-relu count as gelu (one inner
 *                                       tensor, by element), so "non-gated" and "ungated"; "silu" and gated ones as
 *                                       swiglu; norm "layernorm...": LayerNorm, else RMSNorm
 *   parameters       params_b           more than 10% off what the sizes make: said
 *   sizes            model              where any of these is empty: of the public model that model/validation/
 *                                       models.csv names for this name, in any case, with or without blanks, - and
 *                                       _, "Meta" or a repository's owner ("Qwen/") before it, "Instruct", "chat",
 *                                       "base", "hf", "it", "pretrain", "pretraining" or a remark in brackets without
 *                                       digits or "layer" behind it; sizes in the row must agree with it; norm, biases
 *                                       and whether positions are learned are that model's, too
 *   tied embeddings  notes, model,      "untied embeddings": no. "tied embeddings": yes. Else, and said: the public
 *                    framework,         model's above; MPT (as the notes of the H100 rows say of mpt-*.yaml), and a GPT
 *                    params_b           of Megatron or NeMo (their default): yes. Else what alone makes params_b, to
 *                                       2%, where that has three digits or more. Else no
 *   biases,          model, framework   a GPT of Megatron or NeMo (their defaults): biases, learned positions, as many
 *   positions                           as seq_len; MPT (as the notes of the H100 rows say of mpt-*.yaml): learned
 *                                       positions; others and squared-relu (Nemotron): none, rotary. More
 *                                       tokens than the public model above has positions: skipped
 *   dropout          notes, gpu         "0.1 defaults", and a GPT of Megatron on A100 (2021, 2022): yes. Else no
 *   padding          framework          Megatron and NeMo pad the vocabulary to a multiple of 128 x TP
 *   workload         model, notes       "SFT", "LoRA", "grpo": skipped, not all weights on whole sequences; so are
 *                                       mixtures of experts ("MoE", "Mixtral", "8x7B", "A3B"), "sliding window", and
 *                                       Gemma 2 and 3, which have such windows; so are sequences longer than the
 *                                       window of Mistral-7B-v0.1 (4096) and Phi-3-...-4k (2047; 2048 tokens: taken)
 *   width of heads   model              of the public model; Gemma 256; Qwen3, Mistral-Nemo, Mistral-Small of
 *                                       2501 128, said where that is not hidden / heads. Else hidden / heads
 *   device           gpu                by model/validation/gpus.csv: the first whose name the cell, without a count
 *                                       ("8x") and "NVIDIA", begins with (`alone`: is), in any case, with or without
 *                                       blanks, - and _; none, or "PCIe" or "NVL", but not "NVLink" (boards of other
 *                                       power and links), or "N per node" but 8: skipped. "non-standard": skipped, its
 *                                       clocks are not known. h100-96g is for memory
 *   platform         fabric, gpu        "N GB/s" beside NVLink or NVSwitch: of both directions, unless "per direction";
 *                                       beside no name as well if that makes the speed of gpus.csv, and said; beside
 *                                       anything else skipped. "KxM Gb/s" (Gbps, Tb/s, GbE), or "M Gb/s per
 *                                       node": shared by 8 GPUs; "M Gb/s per GPU"; without a word, up to 400 Gb/s a
 *                                       GPU, above it a node. Without a unit by InfiniBand's names: NDR 400 Gb/s, HDR
 *                                       200, EDR 100, "HDR100". Ports: "4x NDR", "4 NDR", "NDR x 4", "NDR (4 per
 *                                       node)". Else by gpus.csv. Nodes of 8 GPUs
 *   attention        attn_kernel,       llm-foundry (2023): flash1, whatever its rows are labelled: its benchmark
 *                    attn_backend,      script takes the Triton kernel by default (submit_benchmarks.py, attn_impl),
 *                                       between its rows' lengths lies half the speed of FlashAttention-2's tables.
 *                    framework, gpu     FlashAttention-2 ("flash_attn 2.6", "FA2"), FlashAttention-3, cuDNN.
 *                                       "unfused", "eager", "math" (no "fallback"), but not beside "flash", and
 *                                       Megatron-LM (not Megatron-Core or -Bridge) on A100 where nothing else is named
 *                                       (2021, 2022: before flash attention): unfused. Other kernels: skipped.
 *                                       Empty or "auto": NeMo, Megatron and MaxText on H100, H200, H800: cuDNN (what
 *                                       Transformer Engine takes). All others, and "flash" of no version:
 *                                       FlashAttention-2
 *   kernels          framework, notes   "eager", "no compile": eager. "compile", and fms-fsdp (its config/training.py:
 *                                       use_torch_compile True), MaxText, Paxml (XLA): compiled. llm-foundry, HF,
 *                                       Transformers, torchtitan: eager. Megatron, NeMo, DeepSpeed, InternEvo, and
 *                                       nanotron, whose models/llama.py has one kernel each for norms and rotation,
 *                                       and joint projections: fused. Else PyTorch: eager; others: fused, assumed
 *   loss             framework          llm-foundry: fused-metrics (modeling_mpt.py: loss_fn is fused_crossentropy by
 *                                       default, and there are two train metrics). Others: passes
 *   gradients        sharding, notes,   "bf16 grad", "bf16 reduce", "reduce_dtype=bf16": bf16, so fp32. Else the
 *                    precision,         framework's default, 2 bytes:
 *                    framework, source  llm-foundry (Composer's PURE, whose reduce_dtype is bf16; DEFAULT with none,
 *                                       which FSDP takes from the parameters'), fms-fsdp (policies/mixed_precision.py,
 *                                       bfSixteen), DeepSpeed (engine.py, communication_data_type), InternEvo
 *                                       (param.grad as it is: hybrid_zero_optim.py). Others fp32, as Megatron-LM with
 *                                       bf16, torchtitan, and llm-foundry's table "Large Scale": its MP Mode is
 *                                       DEFAULT, which reduces in fp32 since October 2023 (mosaicml/composer pull 2628,
 *                                       get_mixed_precision); submit_benchmarks.py beside that table's sweep.py asks
 *                                       for flash-attn 2.4.2, of December 2023
 *   gradient         framework,         kept by Megatron-LM (param_and_grad_buffer.py), NeMo, nanotron
 *   buffers          sharding           (gradient_accumulator.py), DeepSpeed's zero3 (stage3.py,
 *                                       grad_partitions_flat_buffer), and the buckets of PyTorch's DDP. Freed by
 *                                       Composer (trainer.py), torchtitan (train.py), fms-fsdp (train_utils.py) and
 *                                       Transformers (trainer.py): zero_grad, which sets them to none; by DeepSpeed's
 *                                       others (stage_1_and_2.py, averaged_gradients), InternEvo
 *                                       (hybrid_zero_optim.py, zero_grad and release_param_grad), and XLA's steps, of
 *                                       which they are temporaries (MaxText, Paxml). Others: kept, assumed
 *   optimizer        framework          llm-foundry: eager (Composer's DecoupledAdamW). Else fused
 *   sharding         sharding, notes,   the number after "ZeRO" ("zero2", "ZeRO Stage 2"). "SHARD_GRAD_OP": zero2.
 *                    framework          "FSDP", "HSDP", "HYBRID_SHARD", "FULL_SHARD": zero3, with pp 1 and
 *                                       "reshard_after_forward=False" zero2. "distributed optimizer", "dist opt",
 *                                       "sharded optimizer", "optimizer (state) sharding": zero1. "DDP", "DP",
 *                                       "NO_SHARD", "none", "not sharded", and an empty cell with notes of "no
 *                                       distributed optimizer" or "gradient all-reduce", or with dp 1: none. No word
 *                                       counts, nor "overlap" below, that is negated (cell_says in validate/cell.h). An
 *                                       empty cell of Megatron-Bridge without such notes: zero1, dp overlap both (its
 *                                       recipes/common.py). FSDP with pp above 1: torchtitan's is zero1, as its stages
 *                                       do not reshard between micro-batches (parallelize_llama.py,
 *                                       reshard_after_forward) and reduce behind the last backward (PyTorch, torch/
 *                                       distributed/pipelining/stage.py, backward_maybe_with_nosync), unless "reshard"
 *                                       stands there or in the notes; others, and an empty cell, "CPU", "offload",
 *                                       "ZeRO++", "MiCS": skipped
 *   fsdp             framework,         2 of torchtitan, and where either names "FSDP2", with zero2 and zero3; else 1,
 *                    sharding           as of llm-foundry and fms-fsdp (FullyShardedDataParallel); DeepSpeed's own
 *                                       copies count as these. Others that do not name FSDP1: 1, assumed
 *   fsdp prefetch    sharding,          "BACKWARD_POST", "BACKWARD_PRE". Else backward-post of llm-foundry
 *                    framework          (Composer's default), others backward-pre (PyTorch's)
 *   fsdp ends        notes              "groups of their own": own. Else root
 *   shard group      sharding           "zero1=N", "over N" (times cp where "x CP" stands, and of torchtitan), "FSDP N"
 *                                       and "FSDP=N" but for versions 1 and 2: N ranks, more than there are: skipped;
 *                                       "over N nodes": theirs; else with "HSDP" or "hybrid" "shard=N", "N shards",
 *                                       "shard N nodes", or without a number (but of types, versions, stages) those of
 *                                       a node; so with FSDP and "within node", "replicate", "dp_shard". "FSDP N-way":
 *                                       N ranks; "+DP" without a number, another number beside FSDP: skipped. Else all
 *   stages           layers, pp, vpp    equal; where pp x vpp does not divide layers, embedding and head counted as
 *                                       layers (Megatron's option; so Llama 3, arXiv:2407.21783, section 3.3.2), if
 *                                       that divides. Else skipped
 *   tp               tp                 divides the GPUs of a node. Else skipped
 *   tp, pp, mbs, gbs n_gpus, tp, cp, dp, where one is missing: what makes n_gpus = tp x pp x cp x dp, gbs = mbs x dp x
 *                    n_microbatch,      n_microbatch. torchtitan and fms-fsdp with pp 1: gbs = mbs x dp where both are
 *                    framework          missing (fms-fsdp's train_utils.py steps after each backward; torchtitan's
 *                                       global_batch_size is that by default), with pp above 1 then micro-batches of
 *                                       one sequence (its pipeline_parallel_microbatch_size)
 *   cp type          framework, cp,     Megatron's cp_comm_type in the notes: p2p ring, all_gather, a2a ulysses; others
 *                                       are skipped; so a remark in cp, "2 (Ulysses)". "Ulysses": ulysses. torchtitan:
 *                                       all-gather (its default
 *                    sharding, notes    context_parallel_rotate_method). Else a ring (Megatron's default cp_comm_type)
 *   tp overlap       tp_comm_overlap,   1, and torchtitan with "async TP": chunked. Empty: NeMo and Megatron-Bridge
 *                    framework, notes,  with TP and sequence parallelism chunked, assumed: NeMo's recipes for
 *                    tp, sp             performance have it (nemo/collections/llm/recipes/nemotron3_22b.py,
 *                                       nemotron4_15b.py, nemotron4_340b.py, llama3_70b.py, llama31_405b.py,
 *                                       gpt3_175b.py, mistral_nemo_12b.py: tp_comm_overlap=True in
 *                                       pretrain_performance_optimizations, added by performance_mode, or in
 *                                       pretrain_recipe_performance; scripts/performance turns performance_mode on
 *                                       and sets sequence parallelism wherever TP > 1), and both take it back without
 *                                       TP or sequence parallelism (megatron_comm_overlap.py, comm_overlap.py).
 *                                       Megatron-Bridge's have it for Llama 3 70B and in scripts/performance for
 *                                       Llama 3 and 3.1, but nvfp4; not llama3_8b_16k, _64k, _128k, nor Qwen3 (without
 *                                       sequence parallelism). Else 0 or empty: torchtitan none (DTensor waits
 *                                       for a collective where its result is used), others bulk (Megatron's default).
 *                                       Others: skipped
 *   pp overlap       vpp                above 1: yes. Else no (Megatron's overlap_p2p_comm needs virtual stages)
 *   dp overlap       sharding,          zero3, and FSDP's zero2: both (they prefetch by default). DeepSpeed: none (its
 *                    framework          overlap_comm is for stage 3 by default: runtime/zero/config.py,
 *                                       overlap_comm_valid). "overlap": both where "param" stands too
 *                                       ("grad/param overlap", "--overlap-param-gather"), else gradients.
 *                                       InternEvo: gradients (its 7B_sft.py: overlap_sync_grad True, overlap_sync_param
 *                                       False); so PyTorch's DDP. Else none (Megatron's default)
 *   sequence         sp                 0: off. 1 or empty: on. Others: skipped
 *   parallelism
 *   recompute,       recompute,         word by word; a word or number that is not understood, or belongs to nothing
 *   early stop       framework, gpu,    there, skips the row ("full, 10 layers", "core_attn, mlp", "full attention").
 *                    precision          "none", "0", "no", "off", "false" at the begin or behind what they are about
 *                                       ("remat: none", "gradient_checkpointing=False"), without "full", "selective"
 *                                       and the like behind it, or empty: none. "core attention", "core_attn",
 *                                       Megatron's "selective": [attention-core]; "SwiGLU act...": activation,
 *                                       "layernorm", "norms": norm; together: all of these. "full", and "uniform, 1" of
 *                                       Megatron: full; "block, N": of N layers of each virtual stage (no row of one
 *                                       layer, nor of activations alone); torchtitan's "selective op", "per-op",
 *                                       "matmul", and "selective" or "SAC" alone (its llama3_8b.toml): [selective,
 *                                       alternate-gemms]. "gradient checkpointing", "activation checkpointing", "all
 *                                       layers", "every layer", "per layer" alone, but of Megatron, and "yes", "true"
 *                                       of Transformers and DeepSpeed: full. MaxText's minimal_flash: selective
 *                                       (checkpoint_dots_with_no_batch_dims and "context",
 *                                       attention's output, are saved). "every Nth layer", "every other layer",
 *                                       torchtitan's "selective (N)": full, of one layer in N, so "every N layers" but
 *                                       of Megatron, where that may be one checkpoint; with early stop of torchtitan
 *                                       and fms-fsdp (checkpoint_wrapper without reentrance, torch 2.1 and later), and
 *                                       where "use_reentrant=False" stands. llm-foundry
 *                                       asks for that too (submit_benchmarks.py): its rows on H100 and those of
 *                                       amp_bf16, as its README calls them, came with pull 543 of autumn 2023, whose
 *                                       images are of torch 2.1 (sweep.sh: 2.0.1 at first, then a nightly of 2.1,
 *                                       then 2.1.0): early stop. Its rows of bf16 came before, on torch 1.13, which
 *                                       knew none. Others: skipped
 *   offload          offload, recompute "alpha 0.5", "alpha=50%": that share of activations. "none", "0", "no", "off",
 *                                       "false", also behind the name ("cpu_offload=False"): none. Others: skipped
 *   precision        precision,         bf16, amp_bf16; fp16 is as fast. Others, and "fp8", "float8", "fp4", "int8" or
 *                    framework          "8-bit" beside: skipped
 *   other names                         a column of the file's own ("activation_checkpointing", "context_parallel")
 *                                       that is not empty where recompute, offload, vpp, tp, pp or cp is: skipped
 *
 * @param reason  why the row cannot run: a missing column (the first), or what the simulator has no model of
 * @return        false with err for a cell that is malformed
 */
bool setting_of_row(const struct measured *measured, int32_t row, const struct setting_tables *tables,
                    struct setting *setting, char reason[SETTING_REASON], struct error *err);

/** Columns a simulation cannot do without, NULL at the end. */
extern const char *const setting_columns[];

#endif
