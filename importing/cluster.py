#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This program makes a platform of NCCL's topology of a node, Slurm's topology.conf or topology.yaml, or both. `slimsim
import` runs it.

`read` returns the YAML text. Its first lines say what was assumed and what was left out. A ValueError is a sentence on
a file that cannot be read so.
"""
import argparse
import collections
import itertools
import json
import math
import pathlib
import re
import sys
import xml.etree.ElementTree

import yaml

MODEL = pathlib.Path(__file__).resolve().parent.parent / "model"
MOST_NODES = 1 << 20
PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")  # of a hostlist
SLURM_KEYS = "SwitchName Switches Nodes LinkSpeed BlockName BlockSizes Level BlockIndex BlockSize".split()
YAML_LISTS = {"tree": ("switches", "SwitchName", "switch"), "block": ("blocks", "BlockName", "block")}  # of topology.yaml


def table(name):
    """Return a file of the folder model."""
    return yaml.safe_load((MODEL / f"{name}.yaml").read_text())


class Platform:
    """Keys of a platform with their remarks, and the sentences above them."""

    def __init__(self):
        self.keys, self.taken, self.assumed, self.left_out = {}, [], [], []

    def set(self, key, value, remark=""):
        self.keys[key] = value, remark

    def text(self, source):
        remarks = (("Taken", self.taken), ("Assumed", self.assumed), ("Left out", self.left_out))
        lines = [f"# {word}: {sentence}" for word, sentences in remarks for sentence in sentences]
        for key, (value, remark) in self.keys.items():
            lines.append(f"{key}: {value}".ljust(27) + f"# {remark}" if remark else f"{key}: {value}")
        return "\n".join(lines + [f"source: {json.dumps(source)}"]) + "\n"


def groups(members, links):
    """Join members that share a link, and return the sizes of the groups. links: {member: names of its ends}."""
    joined = {member: member for member in members}

    def root(member):
        while joined[member] != member:
            member = joined[member]
        return member

    ends = {}
    for member in members:
        for end in links[member]:
            joined[root(member)] = root(ends.setdefault(end, member))
    sizes = {}
    for member in members:
        sizes[root(member)] = sizes.get(root(member), 0) + 1
    return sorted(sizes.values())


def whole(element, name, what):
    text = element.get(name, "")
    if not re.fullmatch(r"\d+", text):
        raise ValueError(f"{what} has {name}=\"{text}\"; allowed: a whole number")
    return int(text)


def rate(gigabytes_per_s):
    return f"{gigabytes_per_s:g}GBps"


class Node:
    """NCCL's topology: the GPUs, with the PCI functions and CPUs that they belong to, and the NICs."""

    def __init__(self, path, text):
        self.path = path
        try:
            root = xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError as error:
            raise ValueError(f"{path}: not well-formed XML: {error}") from error
        if root.tag != "system":
            raise ValueError(f"{path}: the root is <{root.tag}>; allowed: <system>, as NCCL_TOPO_DUMP_FILE writes it")
        self.gpus, self.nets, self.hosts = [], [], set()  # gpus: (GPU, its PCI function, the bridge above, the CPU)
        for cpu in root.iter("cpu"):
            self.hosts.add(cpu.get("host_hash"))
            above = {child: parent for parent in cpu.iter() for child in parent}
            for gpu in cpu.iter("gpu"):
                self.gpus.append((gpu, above[gpu], above.get(above[gpu], cpu), cpu))
            self.nets += cpu.iter("net")
        if not self.gpus:
            raise ValueError(f"{path}: it has no GPU; allowed: the topology of a node with GPUs")
        if any(gpu.get("gcn") or gpu.find("xgmi") is not None for gpu, *_ in self.gpus):
            raise ValueError(f"{path}: its GPUs are AMD's, which have no device here; allowed: NVIDIA's (`slimsim list devices`)")
        kinds = {(whole(gpu, "sm", f"{path}: a GPU"), function.get("device")) for gpu, function, *_ in self.gpus}
        if len(kinds) > 1:
            raise ValueError(f"{path}: its GPUs differ ({', '.join(f'sm {sm}' for sm, _ in sorted(kinds, key=str))}); allowed: equal GPUs")
        self.sm, self.function = kinds.pop()


def device_of(node, links_rate):
    """Name the device, and the others that it may be."""
    known = table("nccl_topology")["pci_device"].get(node.function)
    if known is not None:
        return [known]
    names = []
    for path in sorted((MODEL / "gpu").glob("*.yaml")):
        device = table(f"gpu/{path.stem}")
        base = table(f"gpu/{device['like']}") if "like" in device else {}
        capability = device.get("compute_capability", base.get("compute_capability", 0))
        if round(10 * float(capability)) == node.sm and links_rate in (None, float(device["nvlink_bytes_per_s"])):
            names.append(device["name"])
    return sorted(names, key=lambda name: (name != "h100-sxm", name))


def read_nvlink(platform, node, n_gpus):
    """Take the NVLinks of a GPU, and which GPUs they join."""
    links = [gpu.findall("nvlink") for gpu, *_ in node.gpus]
    counts = {sum(whole(link, "count", f"{node.path}: an NVLink") for link in of_gpu) for of_gpu in links}
    if len(counts) > 1:
        raise ValueError(f"{node.path}: its GPUs have {min(counts)} to {max(counts)} NVLinks; allowed: as many for each")
    count = counts.pop()
    if count == 0:
        platform.set("nvlink", "none", "GPUs send by PCIe")
        return None
    rates = table("nccl_topology")["nvlink_bytes_per_s"]
    if node.sm not in rates:
        platform.assumed.append(f"{count} NVLinks have the rate of the device's data sheet, as that of sm {node.sm} is not known.")
        return None
    platform.set("nvlink", rate(count * rates[node.sm] / 1e9), f"{count} links of {rates[node.sm] / 1e9:g} GB/s")
    buses = {function.get("busid", "").lower(): at for at, (_, function, *_) in enumerate(node.gpus)}
    ends = {at: {link.get("target", "").lower() for link in of_gpu} for at, of_gpu in enumerate(links)}
    for at in list(ends):  # the end of a link to a GPU is the pair of both
        ends[at] = {tuple(sorted((at, buses[end]))) if end in buses else end for end in ends[at]}
    switched = any(isinstance(end, str) for end in ends[0])
    sizes = set(groups(range(len(node.gpus)), ends))
    if len(sizes) > 1:
        raise ValueError(f"{node.path}: NVLink joins {min(sizes)} to {max(sizes)} GPUs; allowed: equal groups")
    if len(node.gpus) == 1 and switched:
        platform.assumed.append("a node has 1 GPU, though its links lead to NVSwitches. NCCL lists only GPUs of the job that writes "
                                "the file: let a job on all GPUs of a node write it, or correct gpus_per_node.")
    if sizes != {n_gpus}:
        platform.set("nvlink_domain", sizes.pop())
    return count * rates[node.sm]


def read_pcie(platform, node, n_gpus):
    """Take the GPUs' PCIe links. Without NVLink the switches and sockets above them matter, too."""
    speeds = set()
    for _, function, *_ in node.gpus:
        speed, width = re.match(r"[\d.]+", function.get("link_speed", "")), function.get("link_width", "")
        if speed and re.fullmatch(r"[1-9]\d*", width):
            speeds.add((float(speed[0]), int(width)))
    if len(speeds) == 1:
        speed, width = speeds.pop()
        platform.set("pcie", rate(speed * width / 8), f"{speed:g} GT/s on {width} lanes")
    else:
        platform.assumed.append("pcie is that of the device's data sheet, as the file gives " + ("several" if speeds else "none") + ".")
    if platform.keys.get("nvlink", ("",))[0] != "none":
        return
    for key, place in (("gpus_per_pcie_switch", 2), ("sockets", 3)):
        counts = {}
        for gpu in node.gpus[:n_gpus]:
            above = gpu[place] if gpu[place].tag != "cpu" or key == "sockets" else gpu[1]
            counts[above] = counts.get(above, 0) + 1
        if len(set(counts.values())) == 1:
            platform.set(key, len(counts) if key == "sockets" else counts.popitem()[1])
        else:
            platform.assumed.append(f"{key} is the default, as GPUs are shared out unevenly.")


def read_nics(platform, node, n_gpus, n_hosts):
    """Take the fastest NICs. A management network is slower."""
    speeds = [whole(net, "speed", f"{node.path}: a NIC") for net in node.nets]
    if not any(speeds):
        platform.assumed.append("each GPU has the NIC of the device's data sheet, as the file lists none.")
        return
    fastest = max(speeds)
    n_nics, rest = speeds.count(fastest) // n_hosts, len(speeds) - speeds.count(fastest)
    if rest > 0:
        platform.left_out.append(f"{rest} NIC{'s' * (rest > 1)} below {fastest / 1e3:g} Gb/s.")
    fitting = max(n for n in range(1, n_nics + 1) if n % n_gpus == 0 or n_gpus % n == 0)
    if fitting != n_nics:
        platform.assumed.append(f"{fitting} of {n_nics} NICs serve the {n_gpus} GPUs, so that all GPUs have as many.")
    platform.set("nic", f"{fastest / 1e3:g}Gbps", "one a GPU" if fitting == n_gpus else "")
    if fitting != n_gpus:
        platform.set("nics_per_node", fitting)


def read_node(platform, path, text):
    """Take NCCL's topology. @return the number of nodes that it lists"""
    node = Node(path, text)
    n_hosts = len(node.hosts)
    if len(node.gpus) % n_hosts != 0:
        raise ValueError(f"{path}: {len(node.gpus)} GPUs are on {n_hosts} hosts; allowed: equal hosts")
    n_gpus = len(node.gpus) // n_hosts
    platform.set("gpus_per_node", n_gpus)
    links_rate = read_nvlink(platform, node, n_gpus)
    read_nics(platform, node, n_gpus, n_hosts)
    read_pcie(platform, node, n_gpus)
    names = device_of(node, links_rate)
    if len(names) == 1:
        platform.taken.append(f"the GPU is {names[0]}; the scenario says `device: {names[0]}`.")
    elif names:
        platform.assumed.append(f"the GPU is {names[0]}; sm {node.sm} and its NVLinks also fit {', '.join(names[1:])}. The scenario's "
                                "`device:` says which.")
    else:
        platform.left_out.append(f"the GPU; no device has sm {node.sm} and its NVLinks (`slimsim list devices`).")
    return n_hosts


def expand(text):
    """List the names of Slurm's hostlist, such as rack[1-2]-n[001-016],login."""
    names = []
    for part in PART.findall(text):
        pieces = []
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", part):
            if not piece.startswith("["):
                pieces.append([piece])
                continue
            numbers = []
            for span in piece[1:-1].split(","):
                match = re.fullmatch(r"(\d+)(?:-(\d+))?", span)
                first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
                if last < first:
                    raise ValueError(f"'{span}' in '{part}' is no range; allowed: such as [001-016,18]")
                numbers += [str(number).zfill(len(match[1])) for number in range(first, min(last, first + MOST_NODES) + 1)]
            pieces.append(numbers)
        if math.prod(map(len, pieces)) > MOST_NODES:
            raise ValueError(f"'{part}' has too many names; allowed: at most {MOST_NODES}")
        names += map("".join, itertools.product(*pieces))
    if PART.sub("", text).strip(","):
        raise ValueError(f"'{text}' has a bracket without its other half")
    return names


def read_lines(path, text):
    """List the lines of topology.conf, or of what `scontrol show topology` prints, as places and {key: value}. A key may
    have any case."""
    known = {key.lower(): key for key in SLURM_KEYS}
    lines = []
    while (joined := re.sub(r"\\\r?\n(.*)", r" \1\n", text)) != text:  # a line goes on behind a backslash
        text = joined
    for number, line in enumerate(text.split("\n"), 1):
        entry = {}
        for word in line.split("#")[0].split():
            key, equals, value = word.partition("=")
            if not equals or key.lower() not in known:
                raise ValueError(f"{path}:{number}: '{word}' is not known; allowed: {', '.join(f'{key}=' for key in SLURM_KEYS[:6])}")
            entry[known[key.lower()]] = value
        if entry:
            lines.append((f"{path}:{number}", entry))
    return lines


def read_yaml(path, text):
    """List the switches or blocks of topology.yaml in the same form. The cluster's default counts where there are several."""
    try:
        listed = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{path}: is no valid YAML: {' '.join(str(error).split())[:120]}") from error
    topologies = [entry for entry in (listed if isinstance(listed, list) else [listed]) if isinstance(entry, dict)]
    default = next((entry for entry in topologies if entry.get("cluster_default")), (topologies or [{}])[0])
    kind = next((kind for kind in YAML_LISTS if isinstance(default.get(kind), dict)), None)
    if kind is None:
        raise ValueError(f"{path}: its topology has neither tree nor block, so it names no switches; allowed: tree, block")
    key, slurm, own = YAML_LISTS[kind]
    listed = default[kind].get(key)
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    names = {own: slurm, "children": "Switches", "nodes": "Nodes"}
    lines = [(f"{path}: {own} {entry.get(own)}", {names[word]: str(value) for word, value in entry.items() if word in names})
             for entry in entries]
    return lines + ([(path, {"BlockSizes": ""})] if "block_sizes" in default[kind] else [])


def read_fabric(platform, path, text):
    """Take Slurm's topology.conf or topology.yaml. @return the number of its nodes"""
    leaves, above, switches, n_above, blocks = {}, set(), set(), 0, False
    for place, entry in read_lines(path, text) if re.search(r"(?i)(switch|block)name=", text) else read_yaml(path, text):
        platform.left_out += [f"{key}." for key in ("LinkSpeed", "BlockSizes") if key in entry and f"{key}." not in platform.left_out]
        n_above += "Switches" in entry
        blocks = blocks or "BlockName" in entry
        try:
            name = entry.get("SwitchName", entry.get("BlockName"))
            if name is None and "BlockSizes" not in entry:
                raise ValueError("it lacks SwitchName= or BlockName=")
            switches.add(name)
            if "Nodes" in entry and "Switches" not in entry:  # with both, they are the nodes below the switches
                leaves.setdefault(name, []).extend(expand(entry["Nodes"]))
            above |= set(expand(entry.get("Switches", "")))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    missing = sorted(above - switches)
    if missing:
        raise ValueError(f"{path}: no line has SwitchName={missing[0]}, which a line with Switches= names")
    nodes = collections.Counter(node for names in leaves.values() for node in names)
    if not nodes:
        raise ValueError(f"{path}: it lists no nodes; allowed: lines such as SwitchName=leaf1 Nodes=n[001-016]")
    node, times = nodes.most_common(1)[0]
    if times > 1:
        raise ValueError(f"{path}: node {node} belongs to {times} leaf switches; allowed: one")
    describe_leaves(platform, [len(names) for names in leaves.values()], n_above, blocks)
    return len(nodes)


def describe_leaves(platform, sizes, n_above, blocks):
    """Write the size of a leaf switch, and what Slurm does not say. sizes: nodes of each."""
    what = "block" if blocks else "leaf switch"
    platform.set("leaf", max(sizes), f"nodes of a {what}; there {'is' if len(sizes) == 1 else 'are'} {len(sizes)}")
    if any(size < max(sizes) for size in sizes[:-1]):
        platform.assumed.append(f"each {what} is full with {max(sizes)} nodes, but some have {min(sizes)}.")
    if blocks:
        platform.assumed.append("a block is a leaf switch. If NVLink joins its nodes, add nvlink_domain.")
    if len(sizes) > 1:
        platform.assumed.append("leaf switches are on one spine without oversubscription, as Slurm does not say their links.")
    if n_above > 1:
        platform.left_out.append(f"the order of the {n_above} switches above, which count as one spine.")


def read(path, text, options):
    """Make the platform of a file, or of several.

    @param options  "nodes": number of nodes, or None; "others": [(path, text)] of further files
    """
    files = [(path, text), *options.get("others", [])]
    nodes = [file for file in files if "<system" in file[1]]
    fabrics = [file for file in files if file not in nodes]
    if len(nodes) > 1 or len(fabrics) > 1:
        raise ValueError(f"{files[1][0]}: it is a second file of the same kind; allowed: NCCL's topology of one node, and one topology.conf or topology.yaml")
    platform = Platform()
    platform.set("nodes", 0)
    n_listed = read_node(platform, *nodes[0]) if nodes else 1
    n_fabric = read_fabric(platform, *fabrics[0]) if fabrics else None
    n_nodes = options.get("nodes") or n_fabric or n_listed
    if n_fabric is not None and n_nodes > n_fabric:
        raise ValueError(f"{fabrics[0][0]}: it lists {n_fabric} nodes; allowed: --nodes of at most so many")
    platform.set("nodes", n_nodes)
    if n_nodes == 1 and not options.get("nodes") and not fabrics:
        platform.assumed.append("the cluster is this node alone; --nodes N or Slurm's file says how many there are.")
    if not nodes:
        platform.set("gpus_per_node", 8)
        platform.assumed.append("a node has 8 GPUs and the links of the device's data sheet. NCCL's topology (NCCL_TOPO_DUMP_FILE) says both.")
    return platform.text(", ".join(pathlib.Path(name).name for name, _ in nodes + fabrics))


def main():
    parser = argparse.ArgumentParser(description="Make a platform of NCCL's topology, of Slurm's topology.conf or topology.yaml, or of both.")
    parser.add_argument("--nodes", type=int, help="nodes of the cluster")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    try:
        files = [(path, pathlib.Path(path).read_text(encoding="utf-8", errors="replace")) for path in arguments.files]
        print(read(*files[0], {"nodes": arguments.nodes, "others": files[1:]}), end="")
    except OSError as error:
        return f"slimsim: {error.filename}: cannot be read: {error.strerror}"
    except ValueError as error:
        return f"slimsim: {error}"
    return None


if __name__ == "__main__":
    said = main()
    if said is not None:
        print("".join(letter if letter.isprintable() else "?" for letter in said), file=sys.stderr)
    sys.exit(2 if said else 0)
