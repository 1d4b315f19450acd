#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters in: NCCL's topology and Slurm's topology.conf become platforms, and other simulators' files get a sentence."""
import sys
import unittest

import yaml

import program
from cli_case import SOURCE
from program import SCRATCH, fresh, run, write

CLUSTERS = SOURCE / "tests/clusters"
sys.path.insert(0, str(SOURCE / "importing"))
import cluster  # noqa: E402


class Import(unittest.TestCase):
    def platform(self, *arguments):
        """Return the keys without their source, and the remarks above them."""
        done = run("import", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        keys = yaml.safe_load(done.stdout)
        self.assertEqual(run("platform", write("cluster.yaml", done.stdout)).returncode, 0)
        del keys["source"]
        return keys, [line[2:] for line in done.stdout.splitlines() if line.startswith("# ")]

    def refused(self, *arguments):
        done = run("import", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr[len("slimsim: "):-1]

    def test_import__reads_a_node_of_nccl(self):
        """18 links of 25 GB/s, 400,000 Mb/s a NIC, and 32 GT/s on 16 lanes, as DGX H200's data sheet."""
        keys, remarks = self.platform(CLUSTERS / "h200.xml")
        self.assertEqual(keys, {"nodes": 1, "gpus_per_node": 8, "nvlink": "450GBps", "nic": "400Gbps", "pcie": "64GBps"})
        self.assertEqual(remarks, ["Taken: the GPU is h200; the scenario says `device: h200`.",
                                   "Assumed: the cluster is this node alone; --nodes N or Slurm's file says how many there are.",
                                   "Left out: 1 NIC below 400 Gb/s."])
        keys, remarks = self.platform("--nodes", "4", CLUSTERS / "h200.xml")
        self.assertEqual((keys["nodes"], len(remarks)), (4, 2))

    def test_import__reads_a_node_without_nvlink(self):
        keys, remarks = self.platform(CLUSTERS / "a100-pcie.xml")
        self.assertEqual(keys, {"nodes": 1, "gpus_per_node": 4, "nvlink": "none", "nic": "100Gbps", "nics_per_node": 1,
                                "pcie": "32GBps", "gpus_per_pcie_switch": 2, "sockets": 2})
        self.assertIn("Assumed: the GPU is a100-40g; sm 80 and its NVLinks also fit a100-80g. The scenario's `device:` says which.", remarks)

    def test_import__finds_which_gpus_nvlink_joins(self):
        """Bridges join pairs of boards. With hosts of their own, NVSwitches join the GPUs of both hosts."""
        keys, _ = self.platform(CLUSTERS / "a100-bridges.xml")
        self.assertEqual((keys["nvlink"], keys["nvlink_domain"]), ("300GBps", 2))
        text = (CLUSTERS / "h200.xml").read_text()
        keys, _ = self.platform(write("two.xml", text.replace('"0x5f3a" numaid="1"', '"0x5f3b" numaid="1"')))
        self.assertEqual((keys["nodes"], keys["gpus_per_node"], keys["nvlink_domain"]), (2, 4, 8))

    def test_import__says_that_a_file_of_one_gpu_is_no_node(self):
        keys, remarks = self.platform(CLUSTERS / "c46-nccl-topo.xml")
        self.assertEqual(keys, {"nodes": 1, "gpus_per_node": 1, "nvlink": "450GBps", "pcie": "64GBps"})
        self.assertTrue(remarks[0].startswith("Assumed: a node has 1 GPU, though its links lead to NVSwitches."))
        self.assertIn("Assumed: each GPU has the NIC of the device's data sheet, as the file lists none.", remarks)
        self.assertIn("Assumed: the GPU is h100-sxm; sm 90 and its NVLinks also fit h100-96g, h20, h200. The scenario's `device:` "
                      "says which.", remarks)

    def test_import__counts_nics_that_gpus_share(self):
        text = (CLUSTERS / "h200.xml").read_text()
        for removed, nics, assumed in ((range(1, 8, 2), 4, 0), ((7,), 4, 1)):
            for number in removed:
                text = text.replace(f'name="mlx5_{number}" dev="{number}" speed="400000"', f'name="mlx5_{number}" dev="{number}" speed="100"')
            keys, remarks = self.platform(write("nics.xml", text))
            self.assertEqual((keys["nics_per_node"], sum("serve the 8 GPUs" in line for line in remarks)), (nics, assumed))
            text = (CLUSTERS / "h200.xml").read_text()

    def test_import__reads_the_leaf_switches_of_slurm(self):
        """Two leaf switches have 16 nodes, the last one 8. A line goes on behind a backslash."""
        keys, remarks = self.platform(CLUSTERS / "topology.conf")
        self.assertEqual(keys, {"nodes": 40, "leaf": 16, "gpus_per_node": 8})
        self.assertIn("Left out: LinkSpeed.", remarks)
        keys, remarks = self.platform(write("topology.conf", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=m[1-4]\n"
                                            "SwitchName=c Switches=a\nSwitchName=d Switches=b,c\n"))
        self.assertEqual((keys["nodes"], keys["leaf"]), (6, 4))
        self.assertIn("Assumed: each leaf switch is full with 4 nodes, but some have 2.", remarks)
        self.assertIn("Left out: the order of the 2 switches above, which count as one spine.", remarks)
        keys, remarks = self.platform(write("topology.conf", "BlockName=b1 Nodes=t[01-18]\nBlockName=b2 Nodes=t[19-36]\nBlockSizes=18\n"))
        self.assertEqual((keys["nodes"], keys["leaf"]), (36, 18))
        self.assertIn("Assumed: a block is a leaf switch. If NVLink joins its nodes, add nvlink_domain.", remarks)

    def test_import__reads_what_scontrol_shows(self):
        """A switch above lists the nodes below it, too. They count once."""
        keys, _ = self.platform(write("show.conf", "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[1-4]\nSwitchName=b Level=0 LinkSpeed=1 Nodes=n[5-8]\n"
                                      "SwitchName=c Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=a,b\n"))
        self.assertEqual((keys["nodes"], keys["leaf"]), (8, 4))
        keys, _ = self.platform(write("show.conf", "BlockName=a BlockIndex=0 Nodes=n[1-4] BlockSize=4\n"))
        self.assertEqual((keys["nodes"], keys["leaf"]), (4, 4))

    def test_import__reads_topology_yaml(self):
        """The default topology counts. The same switches in topology.conf give the same platform."""
        tree = ("  tree:\n    switches:\n    - switch: root\n      children: s[1-2]\n    - switch: s1\n      nodes: n[01-04]\n"
                "    - switch: s2\n      nodes: n[05-08]\n")
        block = "- topology: b\n  cluster_default: DEFAULT\n  block:\n    block_sizes: [2]\n    blocks:\n    - block: b1\n      nodes: n[01-02]\n"
        platform = self.platform(write("topology.yaml", "---\n- topology: a\n  cluster_default: true\n" + tree + block.replace("DEFAULT", "false")))
        lines = "SwitchName=root Switches=s[1-2]\nSwitchName=s1 Nodes=n[01-04]\nSwitchName=s2 Nodes=n[05-08]\n"
        self.assertEqual(platform, self.platform(write("topology.conf", lines)))
        self.assertEqual((platform[0]["nodes"], platform[0]["leaf"]), (8, 4))
        platform = self.platform(write("topology.yaml", "- topology: a\n" + tree + block.replace("DEFAULT", "true")))
        self.assertEqual(platform, self.platform(write("topology.conf", "BlockName=b1 Nodes=n[01-02]\nBlockSizes=2\n")))
        for text, said in (("  flat: true\n", "its topology has neither tree nor block"), (tree.replace("n[05", "n[5-"), ": switch s2: '5--08' in"),
                           (tree.replace("s[1-2]", "s3"), "no line has SwitchName=s3"), ("  tree: [\n", "is no valid YAML"),
                           ("  tree: {switches: 3}\n", "it lists no nodes")):
            self.assertIn(said, self.refused(write("topology.yaml", "- topology: a\n" + text)))

    def test_import__joins_both_files_in_any_order(self):
        files = CLUSTERS / "h200.xml", CLUSTERS / "topology.conf"
        keys, _ = self.platform(*files)
        self.assertEqual(keys, {"nodes": 40, "gpus_per_node": 8, "nvlink": "450GBps", "nic": "400Gbps", "pcie": "64GBps", "leaf": 16})
        self.assertEqual(self.platform(*reversed(files))[0], keys)

    def test_import__a_scenario_takes_the_platform(self):
        write("own.yaml", run("import", "--nodes", "2", CLUSTERS / "h200.xml").stdout)
        path = write("own-run.yaml", program.SMALL.replace("hopper-2x8", "own.yaml").replace("device: h800", "device: h200"))
        done = run("run", path, "--output", fresh("own"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("small: llama-7b on 16 x h200 (own-2x8)", done.stdout)

    def test_import__expands_hostlists_as_slurm(self):
        for text, names in (("n1", ["n1"]), ("n[1-3]", ["n1", "n2", "n3"]), ("n[08-10,3]", ["n08", "n09", "n10", "n3"]),
                            ("a,b[1-2]-ib", ["a", "b1-ib", "b2-ib"]), ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"])):
            self.assertEqual(cluster.expand(text), names)

    def test_import__refuses_what_it_cannot_read(self):
        text = (CLUSTERS / "h200.xml").read_text()
        for change, said in ((("<system", "<!-- <system --><graphs"), "not well-formed XML"),
                             (("</system>", ""), "not well-formed XML"),
                             (('sm="90" rank="3"', 'sm="80" rank="3"'), "its GPUs differ (sm 80, sm 90); allowed: equal GPUs"),
                             (('sm="90"', 'gcn="942" sm="90"'), "its GPUs are AMD's"),
                             (('speed="25000"', 'speed="fast"'), 'a NIC has speed="fast"; allowed: a whole number'),
                             (('target="0000:08:00.0" count="4"', 'target="0000:08:00.0" count="4x"'), 'an NVLink has count="4x"')):
            self.assertIn(said, self.refused(write("wrong.xml", text.replace(*change))))
        self.assertIn("GPUs have 14 to 18 NVLinks", self.refused(write("wrong.xml", text.replace(
            '          <nvlink target="0000:08:00.0" count="4" tclass="0x068000"/>\n', "", 1))))
        for text, said in (("SwitchName=a Nodes=n[2-1]\n", ":1: '2-1' in 'n[2-1]' is no range"),
                           ("\nSwitchName=a Nodes=n[1-2\n", ":2: 'n[1-2' has a bracket without its other half"),
                           ("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n", "node n2 belongs to 2 leaf switches"),
                           ("SwitchName=a Switches=b\n", "no line has SwitchName=b"), ("SwitchName=a\n", "it lists no nodes"),
                           ("SwitchName=a Node=n1\n", ":1: 'Node=n1' is not known; allowed: SwitchName=, "),
                           ("SwitchName=a Nodes=n[1-9999999]\n", ":1: 'n[1-9999999]' has too many names"),
                           ("SwitchName=a Nodes=n[1-9999]m[1-9999]\n", "has too many names"),
                           ("Nodes=n1\nSwitchName=a\n", ":1: it lacks SwitchName= or BlockName=")):
            self.assertIn(said, self.refused(write("topology.conf", text)))
        self.assertIn("it lists 40 nodes", self.refused("--nodes", "41", CLUSTERS / "topology.conf"))
        self.assertIn("a second file of the same kind", self.refused(CLUSTERS / "h200.xml", CLUSTERS / "a100-pcie.xml"))
        self.assertIn("is neither NCCL's topology of a node nor Slurm's topology.conf or topology.yaml", self.refused("--nodes", "2", write("config.json", "{}")))
        self.assertEqual(run("import", "--nodes", "0", "x.xml").returncode, 64)


class Foreign(unittest.TestCase):
    def test_foreign__a_file_of_another_simulator_says_what_to_write(self):
        """The verbs that may get the file say the same sentence, and the platform that they name is read."""
        for name, platform in (("c46-astra.yml", "{nodes: 4, gpus_per_node: 8, nvlink: 450GBps, nic: 50GBps}"),
                               ("c46-elastisim-crossbar.xml", "{nodes: 128, gpus_per_node: 8, nic: 100Gbps}")):
            path = CLUSTERS / name
            scenario = program.SMALL.replace("platform: hopper-2x8", f"platform: {path}")
            said = run("platform", path)
            self.assertEqual((said.returncode, said.stdout), (2, ""))
            self.assertIn(f"write in its place `platform: {platform}`", said.stderr)
            self.assertEqual((run("import", path).stderr, run("run", path).stderr), (said.stderr, said.stderr))
            done = run("run", write("foreign.yaml", scenario), "--output", SCRATCH)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said.stderr.removeprefix("slimsim: "), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            taken = run("run", write("taken.yaml", scenario.replace(str(path), platform)), "--quiet", "--output", fresh("taken"))
            self.assertEqual(taken.returncode, 0, taken.stderr)

    def test_foreign__a_platform_in_place_of_a_scenario_is_named_by_one(self):
        path = write("own.xml", run("platform", "hopper-1x2").stdout)
        done = run("run", path)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, f"slimsim: {path}: it is a platform of SimGrid; a scenario names it: `platform: {path}`\n")

    def test_foreign__the_matrix_of_nvidia_smi_names_what_to_write(self):
        matrix = write("topo.txt", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-47\nGPU1\tNV18\t X \t0-47\n")
        for arguments in (("import", matrix), ("import", CLUSTERS / "topology.conf", matrix), ("platform", matrix), ("run", matrix)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn("it is the matrix of `nvidia-smi topo`, which gives no rates; write NCCL's topology", done.stderr)

    def test_foreign__a_topology_in_place_of_a_platform_or_scenario_names_import(self):
        for name in ("c46-nccl-topo.xml", "topology.conf"):
            path = CLUSTERS / name
            scenario = write("foreign.yaml", program.SMALL.replace("platform: hopper-2x8", f"platform: {path}"))
            for arguments in (("platform", path), ("run", path, "--output", SCRATCH), ("run", scenario, "--output", SCRATCH)):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertIn(f"`slimsim import {path} > cluster.yaml` makes a platform of it", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
