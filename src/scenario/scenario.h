/* SPDX-License-Identifier: GPL-3.0-or-later */
/** A scenario is the user's request, resolved and checked. `slimsim list keys` prints its keys. */
#ifndef SLIMSIM_SCENARIO_SCENARIO_H
#define SLIMSIM_SCENARIO_SCENARIO_H

#include "document/schema.h"
#include "scenario/cache.h"
#include "scenario/device.h"
#include "scenario/faults.h"
#include "scenario/jitter.h"
#include "scenario/model.h"
#include "scenario/platform.h"
#include "scenario/power.h"
#include "scenario/pressure.h"
#include "scenario/price.h"
#include "scenario/reliability.h"
#include "scenario/replay.h"
#include "scenario/system_entry.h"

enum scenario_engine { SCENARIO_SIMGRID, SCENARIO_CRITICAL_PATH, SCENARIO_BOTH };
enum scenario_trace { SCENARIO_TRACE_NONE, SCENARIO_TRACE_SUMMARY, SCENARIO_TRACE_FULL };
enum scenario_long { SCENARIO_CUT, SCENARIO_DROP, SCENARIO_TRUNCATE };
/**
 * Cross-entropy:
 * - passes over fp32 logits (Megatron-LM's, PyTorch's own)
 * - one kernel on bf16 logits (flash-attention's)
 * - that kernel, and two metrics of training that compute it again by passes (MosaicML's Composer)
 * - PyTorch's own, whatever kernels are
 * - with the head, in chunks of tokens, whose gradients the forward computes (Liger)
 */
enum scenario_loss {
    SCENARIO_LOSS_PASSES,
    SCENARIO_LOSS_FUSED,
    SCENARIO_LOSS_FUSED_METRICS,
    SCENARIO_LOSS_TORCH,
    SCENARIO_LOSS_FUSED_LINEAR
};
enum scenario_graphs { SCENARIO_GRAPH_NONE, SCENARIO_GRAPH_LAYER, SCENARIO_GRAPH_FULL };
/** SwiGLU as one kernel, or silu and then the product. The separate form also keeps silu(x). In place, one kernel's
 * backward writes both gradients over what it kept. */
enum scenario_swiglu { SCENARIO_SWIGLU_FUSED, SCENARIO_SWIGLU_SEPARATE, SCENARIO_SWIGLU_IN_PLACE };
/** Libraries that bring tokens to their experts (docs/model/costs.md, Experts). */
enum scenario_dispatcher {
    SCENARIO_DISPATCH_ALL_TO_ALL,
    SCENARIO_DISPATCH_ALL_GATHER,
    SCENARIO_DISPATCH_DEEPEP,
    SCENARIO_DISPATCH_HYBRID_EP
};
#define SCENARIO_DISPATCHER "all-to-all|all-gather|deepep|hybrid-ep"
/** Scales of fp8-tensor: those of earlier micro-batches (Transformer Engine's delayed scaling), or of the tensor
 * itself, which is then read twice. */
enum scenario_scaling { SCENARIO_SCALING_DELAYED, SCENARIO_SCALING_CURRENT };
/** Logits that a rank of a TP group computes the loss of: its share of the vocabulary, or all. */
enum scenario_logits { SCENARIO_LOGITS_PARALLEL, SCENARIO_LOGITS_GATHERED };
/** Operators that a framework runs as one kernel or GEMM (docs/model/costs.md, Fused kernels of frameworks). */
struct scenario_fused {
    bool norm, rotation, qkv, gate_up, permute;
};

/**
 * How the gradients of a rank's micro-batches are added up:
 * - fused: GEMMs of weights' gradients add to the sum (Megatron-LM)
 * - autograd: a kernel adds each new gradient to the sum (PyTorch)
 * - fp32-copy: autograd's kernel adds to zeros, and others copy, add to an fp32 sum and zero (DeepSpeed's
 *   BF16_Optimizer)
 */
enum scenario_accumulation { SCENARIO_ACCUMULATE_FUSED, SCENARIO_ACCUMULATE_AUTOGRAD, SCENARIO_ACCUMULATE_FP32_COPY };
#define SCENARIO_ACCUMULATION "fused|autograd|fp32-copy"

enum { SCENARIO_MOST_PARTS = 8 };

/** One of several sources of lengths. */
struct scenario_part {
    char lengths[512], column[64], weights[64]; /* as those of scenario_data */
    double share;                               /* share of all tokens */
    int64_t end; /* of a schedule: the part ends before this iteration, counted from its begin */
};

struct scenario_data {
    char lengths[512];      /* name of a law or table in model/lengths, path of the user's file, "fixed", a list of
                               lengths, or "mix" or "schedule": those of the parts */
    char column[64];        /* column or field of the user's file, or name of an HDF5 data set; otherwise "" */
    char weights[64];       /* column of the lengths' weights; "none": none; "": found by its name */
    double length_scale;    /* factor of the length of each document */
    int64_t context;        /* length of the longest sample [tokens] */
    int32_t long_documents; /* enum scenario_long */
    int64_t global_batch;   /* documents of one iteration, counted before any is cut; 0: global_batch_tokens counts */
    int64_t global_batch_tokens; /* of whole sequences of one iteration; 0: global_batch counts */
    int32_t n_parts;             /* 0: neither a mix nor a schedule */
    bool scheduled;              /* parts follow one another; otherwise each document is drawn from one of them */
    int64_t schedule_begin;      /* iteration at which a schedule begins; those before have its first part */
    struct scenario_part part[SCENARIO_MOST_PARTS];
};

/** Tensor-parallel collectives that run beside GEMMs: cost/overlap.h. */
enum scenario_tensor_overlap { SCENARIO_EXPOSED, SCENARIO_BULK, SCENARIO_CHUNKED };
/** Data-parallel transfers that run beside passes (dag/dag.h). Each value includes the one before. This follows
 * Megatron-LM, whose --overlap-param-gather needs --overlap-grad-reduce (megatron/training/arguments.py). */
enum scenario_data_overlap { SCENARIO_OVERLAP_NONE, SCENARIO_OVERLAP_GRADIENTS, SCENARIO_OVERLAP_BOTH };
/** A stage that sends to its neighbours waits, or goes on computing, or does so only with virtual stages. Megatron-LM's
 * overlap_p2p_comm needs virtual stages (megatron/training/arguments.py). */
enum scenario_stage_overlap { SCENARIO_STAGES_WAIT, SCENARIO_STAGES_OVERLAP, SCENARIO_STAGES_INTERLEAVED };
#define SCENARIO_STAGE_OVERLAP "false|true|interleaved"
/** Return whether data.lengths holds lengths themselves ("8Ki 4400"). Such a text begins with a digit and has no dot or
 * slash. */
bool scenario_lists_lengths(const struct scenario_data *data);

enum { SCENARIO_BATCH_BYTES = 64 };

/** Write what was asked for an iteration: "512 documents" or "128 packed sequences". */
void scenario_batch_text(const struct scenario_data *data, char text[SCENARIO_BATCH_BYTES]);

/** Return whether a dispatcher was measured on a device, or follows from its collectives. */
bool scenario_has_dispatcher(const struct device *device, int32_t dispatcher);

/** Knobs of the overlap of communication and computation. They are stated with every result. */
struct scenario_communication {
    int32_t tp_overlap;        /* enum scenario_tensor_overlap */
    bool cp_overlap;           /* the ring of keys and values runs beside attention */
    int32_t pp_overlap;        /* enum scenario_stage_overlap */
    int32_t dp_overlap;        /* enum scenario_data_overlap */
    int32_t dispatcher;        /* enum scenario_dispatcher */
    bool fp8_dispatch;         /* tokens go to experts in fp8 */
    bool ep_overlap;           /* tokens go to experts beside the other micro-batch's kernels */
    double on_demand_slowdown; /* time of reads and sends by NIC over that of rings */
};

/** The host's time of launches [s]. */
struct scenario_host {
    double launch_s, graph_s, graph_kernel_s; /* of a kernel, of a graph, of a kernel inside a graph */
};

struct scenario {
    struct document document; /* the file with its --set; holds the knobs */
    char name[64];
    char model_name[512], device_name[512], framework_name[512];
    struct model model;
    struct device device;
    struct platform platform;
    uint64_t model_hash, device_hash; /* hashes of their files */
    struct memory_pressure pressure;
    char power_name[512]; /* "": the one that the device names */
    struct power power;
    struct price price;
    struct scenario_data data;
    struct scenario_communication communication;
    int32_t attention; /* enum device_attention */
    /* seconds of each kernel that `attention: fastest` chooses from; 0 before attention_choice_resolve */
    double attention_s[DEVICE_N_CURVES];
    int32_t kernels;               /* enum scenario_kernels */
    int32_t loss;                  /* enum scenario_loss */
    int32_t precision;             /* enum precision */
    int32_t fp8_scaling;           /* enum scenario_scaling */
    bool fp8_params;               /* weights of layers are stored in fp8 only */
    int64_t bf16_layers_at_start;  /* layers whose GEMMs stay in bf16 */
    int64_t bf16_layers_at_end;    /* likewise */
    int32_t swiglu;                /* enum scenario_swiglu */
    int32_t expert_gemms;          /* enum device_expert_gemms */
    int32_t gradient_accumulation; /* enum scenario_accumulation */
    struct scenario_fused fused;
    int32_t cuda_graphs; /* enum scenario_graphs */
    bool cuda_launch_blocking;
    struct scenario_host host;
    int32_t logits;            /* enum scenario_logits */
    double expert_imbalance;   /* tokens of the busiest rank's experts over the mean of all ranks */
    int64_t warm_up, measured; /* iterations */
    int64_t seed;
    double memory_limit;   /* share of a GPU's memory that a plan may use; CUDA context and NCCL are subtracted first */
    int32_t fits;          /* enum scenario_fits: plans that rank and that capacity buys */
    int32_t engine;        /* enum scenario_engine */
    int32_t trace;         /* enum scenario_trace */
    bool all_tensor_ranks; /* simulate every TP rank instead of one for all */
    char simgrid_cfg[512]; /* options of SimGrid, KEY:VALUE separated by blanks; "": none */
    int32_t n_systems;
    struct scenario_system *systems;
    int32_t n_faults;
    struct fault *faults;
    struct jitter jitter; /* without a seed */
    struct scenario_replay replay;
    struct reliability reliability; /* present only if the scenario has the key */
};

/**
 * Return the folder that holds model/ and platforms/. It is the environment's SLIMSIM_DATA, which the program sets
 * itself if it finds them. Otherwise it is the folder of the Debian package.
 */
const char *scenario_data_dir(void);

/**
 * Return the system with this label; -1: there is none.
 * @param where  name of the scenario for the message: "a.yaml"
 * @param err    says which labels there are; NULL: no message
 */
int32_t scenario_find_system(const struct scenario *scenario, const char *label, const char *where, struct error *err);

void scenario_free(struct scenario *scenario);

/** Return whether the device has a curve of an enum precision. Grouped GEMMs of experts have one of bf16 only. */
bool scenario_has_precision(const struct scenario *scenario, int32_t precision);

/** Return whether PyTorch's modules would cast to fp8 one operation after the other. Fused casts of a tensor's own
 * scale need torch.compile or Transformer Engine's kernels, and only these were measured. */
bool scenario_casts_are_eager(const struct scenario *scenario);

/** Check that the kernel of attention is among those of the device (device_has_attention). */
bool scenario_check_attention(const struct scenario *scenario, struct error *err);

/**
 * Say why GEMMs in a precision cannot run: "mxfp8 was not measured on device h100-sxm; allowed: bf16, fp8-tensor".
 * @param grouped  name of the choice that lets one kernel compute all experts; NULL: no kernel does
 * @return NULL: they can; the caller frees
 */
char *scenario_precision_refusal(const struct device *device, int32_t precision, const char *grouped);

/** Check that the device of a scenario has a curve of its precision. */
bool scenario_check_precision(const struct scenario *scenario, struct error *err);

/** Return whether a scenario may have another precision and dispatcher. Tokens go to experts in fp8 only by DeepEP, in
 * blocks of 1 x 128. */
bool scenario_takes_dispatch(const struct scenario *scenario, int32_t precision, int32_t dispatcher);

/** Check that the device of a scenario with experts has its dispatcher, and that it sends fp8 if it shall. */
bool scenario_check_dispatcher(const struct scenario *scenario, struct error *err);

#endif
