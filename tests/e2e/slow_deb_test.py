"""tools/deb makes Debian packages whose command works where they are unpacked, with the libraries that they name."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import CORPUS, ROOT, TINY, TINY_MODELS


class DebianPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("dpkg-deb", "dpkg-shlibdeps"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"needs {tool}: apt install dpkg-dev")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-deb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.run_command(ROOT / "tools/deb", timeout=3000)
        cls.packages = {path.name.split("_")[0]: path for path in (ROOT / "dist").glob("colossal*.deb")}
        for package in cls.packages.values():
            cls.run_command("dpkg-deb", "--extract", package, cls.folder / "root")

    @classmethod
    def run_command(cls, *command, expect=0, timeout=300):
        environment = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        done = subprocess.run(list(map(str, command)), cwd=cls.folder, env=environment, capture_output=True, text=True,
                              timeout=timeout, check=False)
        if done.returncode != expect:
            raise AssertionError(f"{command} returned {done.returncode}, not {expect}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def colossal(self, *arguments, **options):
        return self.run_command(self.folder / "root/usr/bin/colossal", *arguments, **options)

    def field(self, package, name):
        return self.run_command("dpkg-deb", "--field", self.packages[package], name).strip()

    def test_there_are_three(self):
        self.assertEqual(set(self.packages), {"colossal", "colossal-libtorch", "colossal-arrow"})

    def test_the_command_runs(self):
        (self.folder / "run.toml").write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{CORPUS}"]\n')
        flags = ["run.toml", *TINY, *TINY_MODELS["gpt2-tiny"], "--train.steps=2"]
        self.assertRegex(self.colossal("--version"), r"colossal \d+\.\d+\.\d+ \(build [0-9a-f]{12}\)")
        self.assertIn("rank", self.colossal("plan", *flags, "--ranks=4"))
        self.colossal("train", *flags, "--ranks=2")

    def test_its_libraries_are_its_own_or_debians(self):
        program = self.folder / "root/usr/lib/colossal/colossal"
        for file in (program / "bin/colossal", *program.glob("lib/*.so*")):
            for name, place in re.findall(r"(\S+) => (.*?) \(", self.run_command("ldd", file)):
                self.assertTrue(place.startswith((str(self.folder / "root"), "/lib/", "/usr/lib/")), f"{file}: {name} is {place}")

    def test_it_depends_on_what_it_needs(self):
        depends = self.field("colossal", "Depends")
        for package in ("libc6 (>= ", "libfmt9", "libspdlog1.10", "colossal-libtorch (>= 2.13), colossal-libtorch (<< 2.14)"):
            self.assertIn(package, depends)
        self.assertEqual(self.field("colossal", "Recommends"), "colossal-arrow")
        self.assertRegex(self.field("colossal-libtorch", "Version"), r"^2\.13\.\d+$")

    def test_the_package_manager_would_install_them(self):
        if not shutil.which("apt-get"):
            self.skipTest("needs apt-get")
        wrote = self.run_command("apt-get", "install", "--simulate", "--no-install-recommends", *self.packages.values())
        self.assertIn("Inst colossal ", wrote)

    def test_the_manual_page_lists_the_subcommands(self):
        page = self.folder / "root/usr/share/man/man1/colossal.1.gz"
        self.assertIn("serve", self.run_command("zcat", page))

    def test_licenses_are_there(self):
        for package in self.packages:
            self.assertIn("icense", (self.folder / f"root/usr/share/doc/{package}/copyright").read_text(errors="replace"))


if __name__ == "__main__":
    unittest.main()
