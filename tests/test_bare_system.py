#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test installs the Debian package into a bare Debian 12, which apt fetches from a mirror."""
import os
import re
import shutil
import subprocess
import unittest

from program import PROGRAM, fresh, run

HERE = "no root" if os.geteuid() != 0 else "no mmdebstrap" if shutil.which("mmdebstrap") is None else None


class BareSystem(unittest.TestCase):
    @unittest.skipIf(HERE, HERE)
    def test_package__installs_into_a_bare_system(self):
        """apt installs it into a minimal Debian 12 with what it depends on, and it runs there."""
        folder = fresh("deb")
        # With this generator cpack takes what is built. Otherwise it would build all tests first.
        subprocess.run(["cpack", "--config", PROGRAM.parent / "CPackConfig.cmake", "-D", "CPACK_CMAKE_GENERATOR=Ninja", "-B", folder],
                       check=True, capture_output=True)
        (package,) = folder.glob("slimsim_*.deb")
        hooks = [f"copy-in {package} /tmp", f'chroot "$1" apt-get -y install --no-install-recommends /tmp/{package.name}',
                 'chroot "$1" slimsim --version',
                 'chroot "$1" slimsim run /usr/share/slimsim/scenarios/llama2-70b.yaml --set engine=critical-path --set trace=none']
        done = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--format=null",
                               *(f"--customize-hook={hook}" for hook in hooks), "bookworm", "-"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if re.search("Could not resolve|Could not connect|Temporary failure", done.stdout):
            self.skipTest("no mirror of Debian answers here")
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        self.assertIn(run("--version").stdout, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^best-fit +\d+ ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
