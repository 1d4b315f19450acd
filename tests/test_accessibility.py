#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test looks for faults of accessibility in the reports with axe-core, which npm gets. It is skipped (77) if npm is
missing or has no network."""
import hashlib
import shutil
import subprocess
import sys
import tarfile
import unittest

from program import fresh
from test_report_browser import SCREENS, SKIPPED, Browser, pages

AXE, SHA256 = "axe-core@4.14.1", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


def axe():
    """The script of axe-core, or the reason why it is not there."""
    folder = fresh("axe")
    folder.mkdir(parents=True)
    if shutil.which("npm") is None:
        return None, "there is no npm (./packages.sh test)"
    done = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        return None, f"npm cannot get {AXE}: {done.stderr.strip()[:200]}"
    with tarfile.open(folder / done.stdout.strip()) as package:
        return package.extractfile("package/axe.min.js").read(), None


class Accessibility(Browser):
    def violations(self):
        return self.driver.execute_async_script("axe.run().then((found) => arguments[0](found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)])))")

    def test_axe__finds_no_violation(self):
        self.assertEqual(hashlib.sha256(SCRIPT).hexdigest(), SHA256)
        for name, page in pages():
            for colours in ("light", "dark"):
                for width, height in SCREENS:
                    with self.subTest(name, colours=colours, width=width):
                        self.open(page, width, height, colours)
                        self.driver.execute_script(SCRIPT.decode())
                        self.assertEqual(self.violations(), [])
        self.driver.execute_script("document.documentElement.removeAttribute('lang'); document.querySelector('.unit').style.color = '#444'")
        self.assertEqual({name for name, _ in self.violations()}, {"html-has-lang", "color-contrast"})


if __name__ == "__main__":
    SCRIPT, WHY = axe()
    if SCRIPT is None:
        print(WHY)
        sys.exit(SKIPPED)
    unittest.main()
