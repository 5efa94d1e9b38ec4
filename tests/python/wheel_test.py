"""A wheel, installed in a virtual environment of its own and used away from the sources. COLOSSAL_WHEEL names it; torch and
what it needs are those of the Python that runs the test."""
import email
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import urllib.request
import zipfile

WHEEL = pathlib.Path(os.environ["COLOSSAL_WHEEL"]).resolve()
MEGABYTE = 1_000_000
SITE = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
TOML = """[model]
preset = "gpt2-tiny"
[data]
train = ["corpus.txt"]
"""
TINY = ["run.toml", "--model.n_layer=2", "--model.n_embd=32", "--model.n_head=2", "--model.vocab_size=257",
        "--model.n_positions=64", "--data.sequence_length=32", "--train.global_batch=4", "--train.steps=3", "--train.threads=1"]
BOOST = """
import torch, colossal
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
model, optimizer = colossal.boost(model, torch.optim.AdamW(model.parameters(), lr=1e-2), zero=3)
inputs = torch.randn(32, 8)
targets = inputs.sum(1, keepdim=True)
losses = []
for step in range(30):
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
with colossal.gather(model):
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
print(f"rank {colossal.rank()} of {colossal.__version__}\\n", end="")  # in one write: the ranks share the output
"""


class Environment:
    """A virtual environment with the wheel, and no torch."""

    def __init__(self, folder):
        self.folder = folder
        self.run([sys.executable, "-m", "venv", folder])
        self.run([self.bin / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", WHEEL])
        [self.site] = folder.glob("lib/python3*/site-packages")

    @property
    def bin(self):
        return self.folder / "bin"

    @staticmethod
    def variables(path):
        inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        return inherited | {"PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, command, *, expect=0, path="", timeout=300):
        """Runs a command away from the sources; path: where Python finds more packages. Returns all that it wrote."""
        done = subprocess.run(list(map(str, command)), cwd=self.folder.parent, env=self.variables(path), capture_output=True,
                              text=True, timeout=timeout, check=False)
        if done.returncode != expect:
            raise AssertionError(f"{command} returned {done.returncode}, not {expect}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def python(self, program, **options):
        return self.run([self.bin / "python", "-c", textwrap.dedent(program)], **options)

    def colossal(self, *arguments, **options):
        return self.run([self.bin / "colossal", *arguments], **options)

    def start_server(self, model, path):
        """Starts `colossal serve`; returns (process, its address)."""
        server = subprocess.Popen([self.bin / "colossal", "serve", model, "--port=0", "--served-name=tiny"],
                                  env=self.variables(path), cwd=self.folder.parent, stderr=subprocess.PIPE, text=True)
        for line in server.stderr:
            found = re.search(r"on (http://127\.0\.0\.1:\d+) ", line)
            if found:
                return server, found[1]
        raise AssertionError(f"the server ended with {server.wait()}")


class Contents(unittest.TestCase):
    """What the file holds."""

    def setUp(self):
        self.wheel = zipfile.ZipFile(WHEEL)
        self.addCleanup(self.wheel.close)
        self.names = self.wheel.namelist()

    def metadata(self):
        [name] = [name for name in self.names if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(self.wheel.read(name))

    def needed(self, name):
        """What readelf says of the libraries that a file of the wheel needs, and where it looks for them."""
        with tempfile.TemporaryDirectory() as folder:
            file = self.wheel.extract(name, folder)
            return subprocess.run(["readelf", "--dynamic", file], capture_output=True, text=True, check=True).stdout

    def test_it_is_small(self):
        self.assertLess(WHEEL.stat().st_size, 12 * MEGABYTE)

    def test_it_is_for_many_systems(self):
        self.assertRegex(WHEEL.name, r"-manylinux_2_\d\d_\w+\.whl$")

    def test_types_are_in_it(self):
        self.assertIn("colossal/py.typed", self.names)
        self.assertIn("class ModuleEngine", self.wheel.read("colossal/_core.pyi").decode())

    def test_torch_and_arrow_bring_their_own_libraries(self):
        for name in self.names:
            self.assertNotRegex(pathlib.Path(name).name, r"^lib(torch|c10|gomp|arrow|parquet)[-.]")

    def test_every_library_in_it_has_its_license(self):
        added = [name for name in self.names if name.startswith("colossal.libs/lib")]
        licenses = {pathlib.Path(name).name for name in self.names if "/licenses/" in name}
        self.assertLessEqual({"LICENSE", "NOTICE", "libfmt9.txt", "libspdlog1.10.txt"}, licenses)
        self.assertGreaterEqual(len(licenses) - 2, len({re.match(r"colossal.libs/lib[a-z]+", name)[0] for name in added}) - 1)

    def test_it_asks_for_the_torch_that_it_checks(self):
        [required] = re.findall(r'^REQUIRED = "(.*)"', self.wheel.read("colossal/_torch_version.py").decode(), re.MULTILINE)
        self.assertIn(f"torch=={required}.*", self.metadata().get_all("Requires-Dist"))

    def test_it_asks_for_the_arrow_that_it_links(self):
        [soname] = re.findall(r"libarrow\.so\.(\d+)", self.needed("colossal/lib/libcolossal_arrow.so"))
        self.assertIn(f"pyarrow=={int(soname) // 100}.{int(soname) % 100}.*; extra == 'arrow'",
                      [required.replace('"', "'") for required in self.metadata().get_all("Requires-Dist")])

    def test_no_file_knows_where_it_was_built(self):
        for name in ["colossal/bin/colossal", *(name for name in self.names if ".so" in name)]:
            for path in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", self.needed(name)):
                for place in path.split(":"):
                    self.assertTrue(place.startswith("$ORIGIN"), f"{name} looks for libraries in {place!r}")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = Environment(cls.folder / "environment")
        (cls.folder / "corpus.txt").write_text("The quick brown fox jumps over the lazy dog. " * 100)
        (cls.folder / "run.toml").write_text(TOML)
        (cls.folder / "boost.py").write_text(BOOST)

    def colossal(self, *arguments, path=SITE, **options):
        return self.environment.colossal(*arguments, path=path, **options)

    def put_beside(self, *packages):
        """Lets packages of the test's Python lie in the environment, as pip puts them, until the test ends."""
        for package in packages:
            link = self.environment.site / package
            link.symlink_to(SITE / package)
            self.addCleanup(link.unlink)

    def fake_torch(self, version):
        """A folder with a package torch that says it is of a version."""
        package = self.folder / f"torch-{version}" / "torch"
        package.mkdir(parents=True, exist_ok=True)
        for name in ("__init__.py", "version.py"):
            (package / name).write_text(f"__version__ = '{version}'\n")
        return package.parent

    def test_importing_it_does_not_import_torch(self):
        wrote = self.environment.python("""
            import sys, colossal
            assert "torch" not in sys.modules
            assert "boost" in dir(colossal)
            print(colossal.__file__)""")
        self.assertIn(str(self.environment.site), wrote)

    def test_the_command_finds_torch_elsewhere_on_the_path_of_python(self):
        self.assertRegex(self.colossal("--version"), r"colossal \d+\.\d+\.\d+ \(build [0-9a-f]{12}\)")

    def test_the_command_finds_torch_beside_it(self):
        self.put_beside("torch")
        self.assertRegex(self.colossal("--version", path=""), r"colossal \d+\.\d+\.\d+ \(build [0-9a-f]{12}\)")
        program = self.environment.site / "colossal/bin/colossal"
        self.assertIn("colossal", self.environment.run([program, "--version"]), "also without Python")

    def test_check_runs(self):
        self.assertIn("LibTorch", self.colossal("check"))

    def test_plan_train_generate_and_serve_run(self):
        flags = [*TINY, "--checkpoint.directory=run"]
        self.assertIn("rank", self.colossal("plan", *flags, "--ranks=4"))
        self.colossal("train", *flags, "--ranks=2")
        [model] = (self.folder / "run").glob("step-*3")
        self.assertTrue(self.colossal("generate", model, "--prompt=The", "--max-new-tokens=4"))
        server, address = self.environment.start_server(model, SITE)
        with server:
            body = json.dumps({"model": "tiny", "prompt": "The", "max_tokens": 4}).encode()
            request = urllib.request.Request(f"{address}/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                self.assertEqual(json.load(answer)["usage"]["completion_tokens"], 4)
            server.terminate()  # the process that the shell started is the server
        self.assertEqual(server.returncode, 0)

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "needs pyarrow, which tools/setup installs")
    def test_parquet_is_read_with_pyarrow(self):
        import pyarrow.parquet
        table = pyarrow.table({"text": ["The quick brown fox jumps over the lazy dog."] * 50})
        pyarrow.parquet.write_table(table, self.folder / "corpus.parquet")
        flags = ["train", *TINY, "--data.train=corpus.parquet"]
        self.put_beside("torch")
        self.assertIn("pip install 'colossal[arrow]'", self.colossal(*flags, path="", expect=2))
        self.put_beside("pyarrow")
        self.colossal(*flags, path="")

    def test_the_engine_trains_a_module(self):
        launcher = [self.environment.bin / "python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        wrote = self.environment.run([*launcher, "boost.py"], path=SITE)
        self.assertLessEqual({"0", "1"}, set(re.findall(r"rank (\d) of", wrote)))

    def test_the_command_starts_the_ranks_of_a_python_program(self):
        wrote = self.colossal("run", "-n", "2", "--", self.environment.bin / "python", "boost.py")
        self.assertLessEqual({"0", "1"}, set(re.findall(r"rank (\d) of", wrote)))

    def test_another_torch_is_refused_by_name(self):
        for version in ("2.12.1", "2.14.0+cu130"):
            torch = self.fake_torch(version)
            what = f"needs torch 2.13.*, and torch {version} is installed; install torch==2.13.*"
            self.assertIn(what, self.environment.python("import colossal; colossal.boost", path=torch, expect=1))
            self.assertIn(what, self.colossal("--version", path=torch, expect=2))

    def test_no_torch_is_refused_by_the_command(self):
        self.assertIn("no torch is installed", self.colossal("--version", path="", expect=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
