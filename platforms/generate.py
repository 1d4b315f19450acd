#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the SimGrid platform of a cluster of equal nodes, of any size.

A node has GPUs g<node>_<gpu> behind NVSwitch, a host memory cpu<node>, one PCIe link a GPU to it and one
NIC a GPU. Nodes hang on leaf switches, leaves on a spine. Every link is two: _u out of its device, _d into it;
so opposite directions do not disturb each other. Latencies are 0: SimGrid shares a link fairly only among
routes of equal latency, so the sender pays the latency before the transfer.

Each node has one gateway. The nodes of a leaf are a zone, where there are several leaves: in one zone of all nodes
routing would take the square of the nodes (DijkstraCache: routes of a node are found when one is asked for, all at
once), or their cube (Floyd).
Links stand first in a zone of their own, because SimGrid looks them up zone after zone.
"""
import argparse
import fractions
import os
import re
import sys

HEADER = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<!-- SPDX-License-Identifier: GPL-3.0-or-later
  {name}: {nodes} nodes of {gpus} GPUs, written by platforms/generate.py.{free}
  Bandwidths are of one direction. Latency is 0 here: the sender pays it before the transfer.
  Sources of the defaults:
    nodes of 8 Hopper GPUs, NVLink 400 GB/s a GPU (both directions: 200 GB/s each), one 400 Gbps NIC a GPU,
    1000 GiB of memory: SlimPack, section 6.1 (experimental setup);
    PCIe 5.0 x16, 64 GB/s a direction: data sheet of the H100 SXM (128 GB/s both directions);
    speed of a GPU, bf16 dense: data sheet of the H100 SXM (the H800's is equal). It is informational:
    durations come from the device's efficiency curves. So is the speed of a cpu, which SimGrid demands.
    fabric: the source names none. Assumed: {fabric}
  {source}
  Here: nvlink {nvlink}, nic {nic}, pcie {pcie}, host memory {host_memory}, speed {speed}.
-->
<platform version="4.1">
  <zone id="cluster" routing="DijkstraCache">
"""


def quantity(text, units, example):
    """Split '400Gbps' into an exact number and its unit."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(" + units + ")", text)
    if not match or fractions.Fraction(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number with a unit, such as {example}")
    return fractions.Fraction(match[1]), match[2]


def bandwidth(text):
    quantity(text, r"[kMGT]?[Bb]ps", "200Gbps or 25GBps")
    return text


def speed(text):
    quantity(text, r"[kMGTP]?f", "989.4Tf")
    return text


def memory_bytes(text):
    number, unit = quantity(text, r"[KMGT]?i?B", "1000GiB")
    base = 1024 if unit[1:2] == "i" else 1000
    size = number * base ** " KMGT".index(unit[0] if unit[0] in "KMGT" else " ")
    if size.denominator != 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of bytes")
    return text, int(size)


def count(text):
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def at_least_one(text):
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) or fractions.Fraction(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 1")
    return fractions.Fraction(text)


def times(text, factor):
    """'400Gbps' times 8 is '3200Gbps'."""
    number, unit = quantity(text, r"[kMGT]?[Bb]ps", "200Gbps or 25GBps")
    return f"{float(number * factor):.17g}{unit}"


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] + " It goes to standard output.")
    parser.add_argument("--name", default="cluster", help="in the comment (%(default)s)")
    parser.add_argument("--nodes", type=count, required=True)
    parser.add_argument("--gpus", type=count, default=8, help="of a node (%(default)s)")
    parser.add_argument("--nvlink", type=bandwidth, default="200GBps", help="of a GPU and direction (%(default)s)")
    parser.add_argument("--nic", type=bandwidth, default="400Gbps", help="of a GPU and direction (%(default)s)")
    parser.add_argument("--pcie", type=bandwidth, default="64GBps", help="of a GPU and direction (%(default)s)")
    parser.add_argument("--speed", type=speed, default="989.4Tf", help="of a GPU (%(default)s)")
    parser.add_argument("--host-memory", type=memory_bytes, default="1000GiB", help="of a node (%(default)s)")
    parser.add_argument("--nodes-per-leaf", type=count, default=32, help="(%(default)s)")
    parser.add_argument("--oversubscription", type=at_least_one, default="1",
                        help="NICs of a leaf over its uplink to the spine (%(default)s)")
    parser.add_argument("--source", default="Here the defaults.",
                        help="where numbers that are not the defaults come from, in the comment")
    parser.add_argument("--free", action="store_true", help="no contention: a link gives each transfer all it has")
    return parser.parse_args()


def write_links(cluster, write):
    sharing = ' sharing_policy="FATPIPE"' if cluster.free else ""

    def pair(name, width):
        for direction in "ud":
            write(f'      <link id="{name}_{direction}" bandwidth="{width}" latency="0"{sharing}/>\n')

    name = "spine" if cluster.leaves > 1 else "leaf0"
    write(f'    <zone id="{name}z" routing="Full">\n      <router id="{name}"/>\n')
    for n in range(cluster.nodes):
        for g in range(cluster.gpus):
            pair(f"nv{n}_{g}", cluster.nvlink)
            pair(f"ib{n}_{g}", cluster.nic)
            pair(f"pc{n}_{g}", cluster.pcie)
        pair(f"pt{n}", times(cluster.nic, cluster.gpus))
    if cluster.leaves > 1:
        for leaf in range(cluster.leaves):
            pair(f"up{leaf}", times(cluster.nic, cluster.gpus * cluster.nodes_per_leaf / cluster.oversubscription))
    write("    </zone>\n")


def write_node(cluster, n, write):
    def route(src, dst, *links):
        inside = "".join(f'<link_ctn id="{link}"/>' for link in links)
        write(f'      <route src="{src}" dst="{dst}" symmetrical="NO">{inside}</route>\n')

    write(f'    <zone id="node{n}" routing="Full">\n')
    for g in range(cluster.gpus):
        write(f'      <host id="g{n}_{g}" speed="{cluster.speed}"/>\n')
    memory = f'<prop id="host_memory_bytes" value="{cluster.host_memory[1]}"/>'
    write(f'      <host id="cpu{n}" speed="1Gf">{memory}</host>\n')
    write(f'      <router id="sw{n}"/>\n')
    for g in range(cluster.gpus):
        gpu = f"g{n}_{g}"
        for other in range(cluster.gpus):
            if other != g:
                route(gpu, f"g{n}_{other}", f"nv{n}_{g}_u", f"nv{n}_{other}_d")
        route(gpu, f"cpu{n}", f"pc{n}_{g}_u")
        route(f"cpu{n}", gpu, f"pc{n}_{g}_d")
        route(gpu, f"sw{n}", f"ib{n}_{g}_u")
        route(f"sw{n}", gpu, f"ib{n}_{g}_d")
    write("    </zone>\n")


def write_nodes(cluster, write):
    def wire(zone, gateway, above, gateway_above, link):
        write(f'    <zoneRoute src="{zone}" dst="{above}" gw_src="{gateway}" gw_dst="{gateway_above}"'
              f' symmetrical="NO"><link_ctn id="{link}_u"/></zoneRoute>\n')
        write(f'    <zoneRoute src="{above}" dst="{zone}" gw_src="{gateway_above}" gw_dst="{gateway}"'
              f' symmetrical="NO"><link_ctn id="{link}_d"/></zoneRoute>\n')

    for leaf in range(cluster.leaves):
        nodes = range(leaf * cluster.nodes_per_leaf, min(cluster.nodes, (leaf + 1) * cluster.nodes_per_leaf))
        if cluster.leaves > 1:
            write(f'    <zone id="pod{leaf}" routing="DijkstraCache">\n')
        for n in nodes:
            write_node(cluster, n, write)
        if cluster.leaves > 1:
            write(f'    <zone id="leaf{leaf}z" routing="Full"><router id="leaf{leaf}"/></zone>\n')
        for n in nodes:
            wire(f"node{n}", f"sw{n}", f"leaf{leaf}z", f"leaf{leaf}", f"pt{n}")
        if cluster.leaves > 1:
            write("    </zone>\n")
    if cluster.leaves > 1:
        for leaf in range(cluster.leaves):
            wire(f"pod{leaf}", f"leaf{leaf}", "spinez", "spine", f"up{leaf}")


def main():
    cluster = options()
    cluster.leaves = -(-cluster.nodes // cluster.nodes_per_leaf)
    write = sys.stdout.write
    fabric = (f"leaves of {cluster.nodes_per_leaf} nodes, {float(cluster.oversubscription):g}:1 between NICs"
              " and spine.")
    free = "\n  Without contention: every transfer has its links for itself." if cluster.free else ""
    write(HEADER.format(name=cluster.name, nodes=cluster.nodes, gpus=cluster.gpus, nvlink=cluster.nvlink,
                        nic=cluster.nic, pcie=cluster.pcie, host_memory=cluster.host_memory[0], speed=cluster.speed,
                        free=free, fabric=fabric, source=cluster.source))
    write_links(cluster, write)
    write_nodes(cluster, write)
    write("  </zone>\n</platform>\n")
    sys.stdout.flush()


try:
    main()
except OSError as error:
    print(f"generate.py: standard output cannot be written: {error.strerror}", file=sys.stderr)
    os._exit(74)  # without another try to write what is left
