/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Several tests count these models by hand: a small one, and two of the literature. */
#ifndef SLIMSIM_TESTS_HAND_MODEL_H
#define SLIMSIM_TESTS_HAND_MODEL_H

#include "cost/layer.h"
#include "scenario/model.h"

/** h 4, k 2, f 8: P = 4 x 8 + 16 + 3 x 32 = 144. */
extern const struct model hand_toy;

/** Touvron et al. 2023 (arXiv:2302.13971), table 2. */
extern const struct model hand_llama_13b;

/** Brown et al. 2020 (arXiv:2005.14165), table 2.1, with the vocabulary that Megatron-LM pads to. */
extern const struct model hand_gpt_3;

/** Count all parameters without padding: layers with norms and biases, last norm, embeddings and, unless tied, head. A
 * layer has biases of h + 2k, h, the columns of the up GEMM, and h. All kinds of layers have the sizes of the first. */
int64_t hand_parameters(const struct model *model);

/** Two latent heads of 2 + 2 wide keys and 2 wide values, over 3 and 2 compressed columns; 4 experts of 8, 2 a token,
 * and shared ones of 6. Layer 0 is dense, 12 wide. */
extern const struct model hand_latent;

/** Change the width of the heads by number % 3: 0 leaves it, 1 halves it, 2 doubles it. */
void hand_heads(struct model *model, uint64_t number);

/** Give two of three layers eight experts, two a token, and shared ones, and all of them latent attention. */
void hand_experts(struct model *model);

#endif
