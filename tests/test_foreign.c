/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check which files of other tools are recognised, and the numbers in the sentences about them. */
#include "base/check.h"
#include "harness.h"
#include "scenario/foreign.h"

#include <stdio.h>
#include <string.h>

/** A file, whose it is, and what the sentence must say. */
static const struct {
    const char *name, *text;
    enum foreign whose;
    const char *said;
} cases[] = {
    {"nccl.xml", "<system version=\"1\"><cpu numaid=\"0\"/></system>", FOREIGN_NCCL, "NCCL's topology of a node"},
    {"topology.conf", "# racks\nswitchname=a nodes=n[1-4]\n", FOREIGN_SLURM, "Slurm's topology of switches"},
    {"block", "BlockName=a Nodes=n[1-4]\n", FOREIGN_SLURM, "Slurm's topology of switches"},
    {"topology.yaml", "---\n- topology: a\n  tree:\n    switches: []\n", FOREIGN_SLURM, "`slimsim import "},
    {"topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV18\n", FOREIGN_MATRIX,
     "the matrix of `nvidia-smi topo`, which gives no rates"},
    {"simgrid.xml", "<?xml version='1.0'?>\n<platform version=\"4.1\"/>", FOREIGN_SIMGRID, "the file has no GPU"},
    {"three.yml", "topology: [Ring, FullyConnected, Switch]\nnpus_count: [2, 8, 4]\nbandwidth: [250, 200.5, 50]\n",
     FOREIGN_ASTRA_NETWORK, "{nodes: 32, gpus_per_node: 2, nvlink: 250GBps, nic: 200.5GBps}"},
    {"one.yml", "npus_count: [ 16 ]\nbandwidth: [ 50.0 ]\n", FOREIGN_ASTRA_NETWORK,
     "{nodes: 1, gpus_per_node: 16, nvlink: 50GBps}"},
    {"old.json", "{\"topology-name\": \"Hierarchical\", \"units-count\": [8, 16], \"link-bandwidth\": [150, 25]}",
     FOREIGN_ASTRA_NETWORK, "{nodes: 16, gpus_per_node: 8, nvlink: 150GBps, nic: 25GBps}"},
    {"large.yml", "npus_count: [1e300, 1e300]\n", FOREIGN_ASTRA_NETWORK, "{nodes: ..., gpus_per_node: ..., "},
    {"odd.yml", "npus_count: many\n", FOREIGN_ASTRA_NETWORK, "{nodes: ..., gpus_per_node: ..., nvlink: ..., nic: ...}"},
    {"system.json", "{\"scheduling-policy\": \"LIFO\", \"all-reduce-implementation\": [\"ring\"]}",
     FOREIGN_ASTRA_SYSTEM, "a system of ASTRA-sim"},
    {"rank.0.et", "\x01\x02", FOREIGN_CHAKRA, "a workload of ASTRA-sim (Chakra)"},
    {"data.txt", "DATA\n2\nlayer1 -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 512 10\n", FOREIGN_WORKLOAD,
     "`data:` and a plan (`slimsim help"},
    {"simai.txt",
     "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 2 vpp: 4 ga: 1 all_gpus: 32 checkpoints: 0 "
     "checkpoint_initiates: 0\n146\n",
     FOREIGN_WORKLOAD, "a plan {tp: 8, ep: 1, pp: 2, vpp: 4} on 32 GPUs (`slimsim help"},
    /* Two nodes of 2 GPUs have an NVSwitch each (4, 5). Each GPU has two links of 200 Gbps, to switches 6 and 7. */
    {"HPN_4g_H100",
     "8 2 2 2 12 H100\n4 5 6 7 \n0 4 2880Gbps 0.000025ms 0\n0 6 200Gbps 0.0005ms 0\n0 7 200Gbps 0.0005ms 0\n"
     "1 4 2880Gbps 0.000025ms 0\n",
     FOREIGN_SIMAI_NETWORK, "{nodes: 2, gpus_per_node: 2, nvlink: 360GBps, nic: 400Gbps}"},
    {"config.json", "{\n  \"model_type\": \"llama\"\n}\n", FOREIGN_MODEL, "a scenario names it: `model: "},
    {"launch", "#!/bin/bash\nexport A=1\n", FOREIGN_PLAN, "--output mine.yaml` makes a scenario of it"},
    {"launch.sh", "A=1\n", FOREIGN_PLAN, "a script or recipe of another tool"},
    {"titan.toml", "[training]\n", FOREIGN_PLAN, "a script or recipe of another tool"},
    {"train.args", "# flags\n\n--num-layers 32\n", FOREIGN_PLAN, "a script or recipe of another tool"},
    {"axolotl.yml", "# 8B\nbase_model: a/b\n", FOREIGN_PLAN, "a script or recipe of another tool"},
    {"nemo.yaml", "model:\n  _target_: nemo.x\n", FOREIGN_PLAN, "a script or recipe of another tool"},
    {"ds.json", "{\"fp16\": {}, \"train_batch_size\": 8}", FOREIGN_PLAN, "a script or recipe of another tool"},
};

TEST(foreign__recognises_files_and_reads_their_numbers)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        const char *path = harness_path(cases[i].name);
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL && fputs(cases[i].text, file) >= 0 && fclose(file) == 0);
        CHECK_EQUAL(foreign_of(path), cases[i].whose);
        CHECK_TRUE(!foreign_refuse(cases[i].whose, path, &err) && err.status == ERROR_INVALID);
        CHECK_CONTAINS(err.text, cases[i].said);
        CHECK_CONTAINS(err.text, path);
    }
}

TEST(foreign__leaves_other_files_alone)
{
    static const char *const texts[] = {
        "", "nodes: 4\n", "DATA\n", "MODELS\n2\n", "8 2 2 2 12\n", "8 2 2 2 12 H100 more\n",
        /* A scenario stays one, though a comment or a key comes from another tool. */
        "#   --num-layers 32 -> model.layers: 32\nname: a\n", "---\n# _target_: x\nmodel: a\n",
        "#!/usr/bin/env slimsim\nbase_model: a/b\nsystems: []\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *path = harness_path("other.yaml");
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL && fputs(texts[i], file) >= 0 && fclose(file) == 0);
        CHECK_EQUAL(foreign_of(path), FOREIGN_NONE);
    }
    CHECK_EQUAL(foreign_of("/dev/zero"), FOREIGN_NONE);
    CHECK_EQUAL(foreign_of(harness_path("")), FOREIGN_NONE);
    CHECK_EQUAL(foreign_of("absent"), FOREIGN_NONE);
}
