#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is handed out: the version, the tarball of the sources, the Debian package and the container's file."""
import email.utils
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tomllib
import unittest

import yaml

from program import PROGRAM, fresh, run

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PAGE = SOURCE / "docs/packages.md"
(NUMBER,) = re.findall(r"^project\(slimsim VERSION ([0-9.]+) ", (SOURCE / "CMakeLists.txt").read_text(), re.MULTILINE)
IN_GIT = (SOURCE / ".git").exists() and shutil.which("git") is not None


def call(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def without_git(folder):
    """Make a folder of all programs in PATH but git."""
    folder.mkdir(parents=True)
    for name in os.environ["PATH"].split(":"):
        for path in pathlib.Path(name).glob("*") if pathlib.Path(name).is_dir() else ():
            if not path.name.startswith("git") and not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path)
    return {**os.environ, "PATH": str(folder)}


class Version(unittest.TestCase):
    def test_version__has_number_and_commit(self):
        self.assertRegex(run("--version").stdout, rf"^slimsim {re.escape(NUMBER)} \(commit ([0-9a-f]{{12}}(-dirty)?|unknown)\)\n$")

    def test_version__is_that_of_cmake_everywhere(self):
        """CMakeLists.txt has the version. Files that other tools read, and pages that show it, repeat it."""
        citation = yaml.safe_load((SOURCE / "CITATION.cff").read_text())
        self.assertEqual((citation["title"].split(":")[0], citation["version"], citation["license"]), ("slimsim", NUMBER, "GPL-3.0-or-later"))
        project = tomllib.loads((SOURCE / "python/pyproject.toml").read_text())
        self.assertEqual((project["project"]["name"], project["tool"]["setuptools"]["dynamic"]["version"]),
                         ("slimsim", {"attr": "slimsim.__version__"}))
        self.assertIn(f'__version__ = "{NUMBER}"', (SOURCE / "python/slimsim/__init__.py").read_text())
        released = re.findall(r"^## (\d.*), (.*)$", (SOURCE / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertEqual(released[0], (NUMBER, citation["date-released"]))
        (day,) = re.findall(r"^ -- .*>  (.*)$", (SOURCE / "packaging/changelog").read_text(), re.MULTILINE)
        self.assertEqual(str(email.utils.parsedate_to_datetime(day).date()), citation["date-released"])
        shown = [re.findall(r"slimsim[-_ ](\d+\.\d+\.\d+)", page.read_text()) for page in (SOURCE / "README.md", PAGE)]
        self.assertEqual([set(numbers) for numbers in shown], [{NUMBER}, {NUMBER}])

    @unittest.skipUnless(IN_GIT, "this is no checkout of git")
    def test_version__has_the_commit_of_the_checkout_or_unknown(self):
        """CMake finds the commit when it configures, and a copy without .git has none, even inside a checkout."""
        head = call("git", "rev-parse", "--short=12", "HEAD", cwd=SOURCE).strip()
        folder = fresh("version")
        (folder / "copy").mkdir(parents=True)
        shutil.copytree(SOURCE / "packaging", folder / "copy/packaging")
        script = "set(PROJECT_SOURCE_DIR {})\ninclude({}/packaging/version.cmake)\nmessage(STATUS ${{SLIMSIM_COMMIT}})\n"
        for source, expected in ((SOURCE, {head, head + "-dirty"}), (folder / "copy", {"unknown"})):
            (folder / "print.cmake").write_text(script.format(source, source))
            self.assertIn(call("cmake", "-P", folder / "print.cmake").strip().removeprefix("-- "), expected)


@unittest.skipUnless(IN_GIT, "this is no checkout of git, which makes the tarball")
class Tarball(unittest.TestCase):
    def test_tarball__knows_its_commit_without_git(self):
        """Its tree is that of the commit. The program's main file is compiled without git and names the commit."""
        folder = fresh("tarball")
        environment = without_git(folder / "bin")
        call("cmake", "--build", PROGRAM.parent, "--target", "tarball")
        call("tar", "-xzf", PROGRAM.parent / f"slimsim-{NUMBER}.tar.gz", "-C", folder)
        tree = folder / f"slimsim-{NUMBER}"
        listed = call("git", "ls-tree", "-r", "--name-only", "HEAD", cwd=SOURCE).split()
        self.assertEqual(sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()), sorted(listed))
        head = call("git", "rev-parse", "HEAD", cwd=SOURCE).strip()
        self.assertEqual((tree / "packaging/commit.txt").read_text(), head + "\n")
        call("cmake", "-S", tree, "-B", folder / "build", "-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Debug", env=environment)
        call("make", "-C", folder / "build", "src/cli/main.o", env=environment)
        (built,) = (folder / "build").rglob("slimsim.dir/src/cli/main.c.o")
        self.assertEqual(re.findall(rb"slimsim ([0-9.]+) \(commit ([^)]*)\)", built.read_bytes()), [(NUMBER.encode(), head[:12].encode())])


class Page(unittest.TestCase):
    def test_page__shows_commands_that_work(self):
        """The page's commands run in a folder with the build of the tests under the name that the page uses."""
        folder = fresh("page")
        (folder / "build").mkdir(parents=True)
        (folder / "build/release").symlink_to(PROGRAM.parent)
        blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
        commands = [line for block in blocks for line in block.splitlines()]
        self.assertEqual(len(commands), 9)
        for line in commands[:2]:
            self.assertRegex(line, "^cmake (--preset|--build --preset) release$")
        rest = [line.replace("cpack ", "cpack -D CPACK_CMAKE_GENERATOR=Ninja ").replace("/usr/share/slimsim", str(SOURCE)) for line in commands[2:]
                if IN_GIT or "tar" not in line]
        call("bash", "-euc", "\n".join(rest), cwd=folder, env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"})


class ContainerFile(unittest.TestCase):
    def test_containerfile__has_instructions_that_exist(self):
        """No image is built. Instructions are known, copied files exist, and stages that are named come before."""
        text = (SOURCE / "Containerfile").read_text()
        lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
        stages = []
        for line in lines:
            instruction, rest = line.split(None, 1)
            self.assertIn(instruction, ("FROM", "RUN", "COPY", "WORKDIR", "ENTRYPOINT"))
            if instruction == "FROM":
                self.assertEqual(rest.split()[0], "debian:12")
                stages.append(rest.split()[-1])
            if instruction == "COPY" and rest.startswith("--from="):
                self.assertIn(rest.split()[0].removeprefix("--from="), stages[:-1])
            elif instruction == "COPY":
                self.assertTrue(all((SOURCE / name).exists() for name in rest.split()[:-1]), line)
            if instruction == "RUN":
                call("bash", "-nc", rest)
        self.assertEqual(len(stages), 2)


class Workflow(unittest.TestCase):
    def test_workflow__runs_the_tests_on_debian(self):
        workflow = yaml.safe_load((SOURCE / ".github/workflows/ci.yml").read_text())
        (job,) = workflow["jobs"].values()
        self.assertEqual(job["container"]["image"], "debian:12")
        script = SOURCE / job["steps"][-1]["run"]
        self.assertTrue(os.access(script, os.X_OK), script)
        for step in job["steps"]:
            call("bash", "-nc", step.get("run", ""))

    def test_templates__have_what_the_chooser_shows(self):
        names = {}
        for path in (SOURCE / ".github/ISSUE_TEMPLATE").glob("*.md"):
            _, head, text = path.read_text().split("---\n", 2)
            names[path.stem] = yaml.safe_load(head)
            self.assertEqual(sorted(names[path.stem]), ["about", "labels", "name"])
            self.assertTrue(text.strip())
        self.assertEqual(sorted(names), ["bug", "question", "wrong-number"])


class DebianPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in ("cpack", "dpkg-deb", "dpkg-shlibdeps") if shutil.which(name) is None]
        if missing:
            raise unittest.SkipTest(f"no {missing[0]}: packages.sh run installs it on Debian")
        if b"__asan_init" in PROGRAM.read_bytes():
            raise unittest.SkipTest("a program with sanitizers is not handed out")
        folder = fresh("deb")
        # With this generator cpack takes what is built. Otherwise it would build all tests first.
        call("cpack", "--config", PROGRAM.parent / "CPackConfig.cmake", "-D", "CPACK_CMAKE_GENERATOR=Ninja", "-B", folder)
        (cls.package,) = folder.glob(f"slimsim_{NUMBER}_*.deb")
        cls.root = folder / "root"
        call("dpkg-deb", "-R", cls.package, cls.root)

    def test_package__names_what_it_needs(self):
        fields = dict(re.findall(r"^ ?(\w[\w-]*): (.*)$", call("dpkg-deb", "-f", self.package), re.MULTILINE))
        self.assertEqual((fields["Package"], fields["Version"], fields["Section"]), ("slimsim", NUMBER, "science"))
        self.assertEqual(fields["Depends"].count("python3:any"), 1)
        needed = re.findall(r"[a-z0-9.+-]+(?= \(|,|$)", fields["Depends"])
        for library in ("libc6", "libcsv", "libexpat", "libglpk", "libgsl", "libhdf5", "libigraph", "libjansson", "libsimgrid", "libyaml", "zlib1g"):
            self.assertTrue(any(name.startswith(library) for name in needed), (library, needed))
        self.assertIn("python3-yaml", needed)  # of `slimsim import`
        imported = {name for path in self.root.rglob("*.py") for name in re.findall(r"^ *(?:import|from) (\w+)", path.read_text(), re.MULTILINE)}
        recommended = [name.removeprefix("python3-") for name in fields["Recommends"].split(", ")]
        self.assertEqual(sorted(recommended), sorted(imported & {"h5py", "matplotlib", "numpy", "pandas", "tables"}))
        self.assertEqual(fields["Suggests"], "python3-tables, slurm-client")

    def test_package__follows_debians_policy(self):
        """Files lie below /usr, belong to root and have right modes. The sums are those of the files."""
        for line in call("dpkg-deb", "-c", self.package).splitlines():
            mode, owner, *_, path = line.split()
            self.assertTrue(path.startswith("./usr/") and owner == "root/root", line)
            self.assertIn(mode, ("drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"), line)
            self.assertNotIn("__pycache__", path)
        files = {str(path.relative_to(self.root)): path for path in (self.root / "usr").rglob("*") if path.is_file()}
        sums = dict(reversed(line.split(None, 1)) for line in (self.root / "DEBIAN/md5sums").read_text().splitlines())
        self.assertEqual(sums, {name: hashlib.md5(path.read_bytes()).hexdigest() for name, path in files.items()})
        documents = self.root / "usr/share/doc/slimsim"
        self.assertIn("GPL-3", (documents / "copyright").read_text())
        self.assertTrue(gzip.decompress((documents / "changelog.gz").read_bytes()).startswith(f"slimsim ({NUMBER}) ".encode()))
        self.assertEqual(gzip.decompress((documents / "CHANGELOG.md.gz").read_bytes()), (SOURCE / "CHANGELOG.md").read_bytes())
        page = gzip.decompress(files["usr/share/man/man1/slimsim.1.gz"].read_bytes()).decode()
        self.assertTrue(page.startswith(".TH SLIMSIM 1"))
        for shell, path in (("bash", "bash-completion/completions/slimsim"), ("zsh", "zsh/vendor-completions/_slimsim")):
            self.assertEqual(files[f"usr/share/{path}"].read_bytes(), (SOURCE / f"src/cli/completion.{shell}").read_bytes())
        self.assertNotIn(b".debug_info", files["usr/bin/slimsim"].read_bytes())

    def test_package__runs_where_it_is_unpacked(self):
        """The program takes its own data, and not those of the sources."""
        program = self.root / "usr/bin/slimsim"
        for environment in ({}, {"SLIMSIM_DATA": str(self.root / "usr/share/slimsim")}):
            clean = {name: value for name, value in os.environ.items() if not name.startswith("SLIMSIM")}
            done = subprocess.run([program, "run", self.root / "usr/share/slimsim/scenarios/llama2-70b.yaml", "--set", "engine=critical-path",
                                   "--set", "trace=none"], capture_output=True, text=True, env={**clean, **environment})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("best-fit", done.stdout)
        shutil.move(self.root / "usr/share/slimsim/model/llm/llama2-70b.yaml", self.root / "usr/share/slimsim/model/llm/moved.yaml")
        models = call(program, "list", "models", env=clean)
        self.assertIn("moved ", models)
        self.assertNotIn("llama2-70b ", models)


if __name__ == "__main__":
    unittest.main(verbosity=2)
