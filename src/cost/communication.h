/* SPDX-License-Identifier: GPL-3.0-or-later */
/** This file has the time of transfers and collectives. */
#ifndef SLIMSIM_COST_COMMUNICATION_H
#define SLIMSIM_COST_COMMUNICATION_H

#include "cost/setting.h"

/** A transfer. Its latency is paid first. Then wire_bytes, which are bytes over the link's efficiency, move at the
 * full bandwidth of the slowest link. */
struct cost_transfer {
    double latency_s, wire_bytes, bytes_per_s,
        duration_s; /* duration = latency + wire/bandwidth, without other traffic on its links */
};

/** Routes between GPUs of a domain (by PCIe if the nodes have no NVLink), between domains, and to the host. */
enum cost_route { COST_NVLINK, COST_NIC, COST_PCIE };

/** Ranks of a collective in a domain, `distance` GPUs apart. So many groups of the same kind send at once. */
struct cost_group {
    int32_t ranks, distance;
};

/** Return a NIC's bandwidth for one rank if n neighbouring GPUs send to other domains at once. Without NVLink it is
 * at most that of PCIe. */
double cost_nic_bytes_per_s(const struct cost_setting *setting, int32_t n);

/** Return the bandwidth of each rank of a ring, or of an all-to-all, in a domain. Without NVLink it is that of the
 * slowest hop: groups that cross a PCIe switch or a socket divide its uplink. */
double cost_inside_bytes_per_s(const struct platform *platform, bool to_all, struct cost_group group);

/** Return the rails between domains with these ranks in each. NCCL opens a channel for each NIC, and at most one for
 * each rank. */
int32_t cost_n_rails(const struct platform *platform, struct cost_group each);

/** Return a pipelined transfer of `steps` messages, of `bytes` in all, over one kind of link. Each message pays the
 * link's latency. The ramp is paid once. 0 bytes take 0 s. GPUs of a tensor-parallel
 * group that share a NIC or the uplink to the host send at once. Inside a node without NVLink a transfer has PCIe to
 * itself. */
struct cost_transfer cost_of_transfer(const struct cost_setting *setting, enum cost_route route, double bytes,
                                      int32_t steps);

/**
 * Return the time of a collective of one tensor of `bytes` over `ranks` GPUs, without other traffic on their links [s].
 *
 * 1. Inside a domain it uses NVLink. Five GPUs and more reduce in the switches if the device can do it. Without NVLink
 *    it is a ring over PCIe, as fast as its slowest hop.
 * 2. An all-reduce over whole domains follows the fabric's curve.
 * 3. A reduce-scatter or all-gather over nodes takes cost_rails_s.
 * 4. An all-to-all over nodes takes its NIC's transfers.
 */
double cost_collective_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                         int32_t ranks);

/** Return the time of an all-to-all over domains in which each of `ranks` ranks, TP GPUs apart, sends `sent` bytes to
 * all others together [s]. Bytes that leave a domain go by NICs, beside those that stay.
 * @param wire_bytes  takes the bytes through a rank's NIC too, over the link's efficiency */
double cost_all_to_all_s(const struct cost_setting *setting, double sent, int32_t ranks, double *wire_bytes);

/** Return whether the message of a collective lies outside the measured range. */
bool cost_collective_extrapolates(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                                  int32_t ranks);

/**
 * Return how many ranks a group of `ranks` has in an NVLink domain: all of them, or as many as fit. Each rank has its
 * TP.
 *
 * If groups one after the other do not fill nodes, it is the fewest that some group has on some node. This is the
 * greatest common divisor of both numbers. This group is the slowest, and its NICs on that node carry all that enters
 * and leaves the node.
 */
int32_t cost_ranks_each(const struct cost_setting *setting, int32_t ranks);

/**
 * Return the traffic of one route in an all-gather, reduce-scatter or all-reduce of a tensor of `bytes`. It has `ranks`
 * GPUs, ranks_each on each node (= ranks: all on one). NCCL's rails are the model.
 *
 * 1. A rank sends (ranks - 1)/ranks of the tensor, in an all-reduce twice that.
 * 2. 1/ranks_each of this goes by its own NIC to its counterpart on the next node. The rest goes by NVLink to its
 *    neighbour at the same time. If ranks share NICs, one rank for each NIC sends 1/NICs.
 * 3. NVLink follows the curve of the collective on ranks_each GPUs. An all-reduce takes the curves of both others,
 *    since it crosses the nodes between them. If all ranks are on one node, the time is that of cost_collective_s.
 * 4. The NICs form a ring through all ranks (device_ring). An all-reduce follows the curve of the fabric.
 * 5. Without bytes to send it takes no time.
 */
struct cost_transfer cost_of_rails(const struct cost_setting *setting, enum device_collective_kind kind,
                                   enum cost_route route, double bytes, int32_t ranks, int32_t ranks_each);

/** Return the time of both routes at once, without other traffic on their links [s]. */
double cost_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes, int32_t ranks,
                    int32_t ranks_each);

/** Return the NVLink traffic of a rank without a NIC's rail. Nodes then hold different numbers of the ranks, and
 * ranks_each is the fewest. The rank sends all its bytes to its neighbour by NVLink, so cost_of_rails' share grows
 * in proportion. 1 < ranks_each < ranks. */
struct cost_transfer cost_without_rail(const struct cost_setting *setting, enum device_collective_kind kind,
                                       double bytes, int32_t ranks, int32_t ranks_each);

/** Return cost_rails_s for such nodes, which hold from `fewest` to `most` ranks. */
double cost_uneven_rails_s(const struct cost_setting *setting, enum device_collective_kind kind, double bytes,
                           int32_t ranks, int32_t fewest, int32_t most);

#endif
