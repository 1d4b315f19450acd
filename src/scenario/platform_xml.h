/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * SimGrid's XML of a cluster that keys describe (scenario/platform.h).
 *
 * A node has GPUs g<node>_<gpu> behind NVSwitch, a host memory cpu<node>, one PCIe link a GPU to it and one NIC a GPU.
 * Every link is two: _u out of its device, _d into it; so opposite directions do not disturb each other. Latencies are
 * 0: SimGrid shares a link fairly only among routes of equal latency, so the sender pays the latency before the
 * transfer. w is a NIC's bandwidth, G the GPUs of a node, o the oversubscription:
 *
 *   nv<node>_<gpu>, ib.., pc..   NVLink, NIC and PCIe of a GPU
 *   fat-tree    pt<node>         G w, node to leaf switch; up<leaf>: leaf G w / o, leaf switch to spine
 *   dragonfly   pt<node>         likewise; up<group>_<other>: leaf G w / o / (groups - 1), each pair of groups
 *   rail        up<switch>       leaf w / o, leaf switch to spine; switch: group G + gpu
 *
 * With rails, NIC g of each of `leaf` nodes is on one switch, which is free of contention. Inside such a group of nodes
 * a transfer to another GPU number first takes NVLink to the GPU of the receiver's number (NCCL's PXN). To another
 * group it leaves on its own rail, and the spine hands it to the receiver's.
 */
#ifndef SLIMSIM_SCENARIO_PLATFORM_XML_H
#define SLIMSIM_SCENARIO_PLATFORM_XML_H

#include <stdio.h>

#include "scenario/platform.h"

/** Write the XML of a platform without a file. Whether it was written, the file knows (ferror). */
void platform_xml_write(FILE *file, const struct platform *platform);

#endif
