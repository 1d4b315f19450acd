/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * This module writes SimGrid's XML of a cluster that keys describe (scenario/platform.h).
 *
 * 1. A node has GPUs g<node>_<gpu> behind NVSwitch and a host memory cpu<node>. Each GPU has one PCIe link to it and
 * one NIC, or shares a NIC with its neighbours.
 * 2. Every link is two: _u out of its device, _d into it. Opposite directions therefore do not disturb each other.
 * 3. Latencies are 0, since SimGrid shares a link fairly only among routes of equal latency. The sender pays the
 * latency before the transfer.
 * 4. With w for a NIC's bandwidth, N for the NICs of a node and o for the oversubscription, the links are:
 *
 *   nv<node>_<gpu>, pc..         NVLink and PCIe of a GPU
 *   ib<node>_<nic>               NIC; without sharing its number is the GPU's
 *   fat-tree    pt<node>         N w, node to leaf switch; up<leaf>: leaf N w / o, leaf switch to spine
 *   dragonfly   pt<node>         likewise; up<group>_<other>: leaf N w / o / (groups - 1), each pair of groups
 *   rail        up<switch>       leaf w / o, leaf switch to spine; switch: group N + NIC
 *
 *   Nodes without NVLink have no nv. They have px<node>_<switch>, the uplink of a PCIe switch, and
 *   numa<node>_<socket>, out of a socket. Nodes of one NVLink domain are one zone.
 *
 * 5. With rails, NIC g of each of `leaf` nodes is on one switch, which is free of contention.
 * 6. Inside such a group, a transfer to another NIC number first takes NVLink to the first GPU at the NIC of that
 *    number (NCCL's PXN).
 * 7. A transfer to another group leaves on the sender's rail. The spine passes it on to the receiver's rail.
 */
#ifndef SLIMSIM_SCENARIO_PLATFORM_XML_H
#define SLIMSIM_SCENARIO_PLATFORM_XML_H

#include <stdio.h>

#include "scenario/platform.h"

/**
 * Write the XML of a platform without a file. The caller checks with ferror whether it was written.
 * @param used  [GPUs] hosts that are written, with the host memories of their nodes; NULL: all
 */
void platform_xml_write(FILE *file, const struct platform *platform, const bool *used);

#endif
