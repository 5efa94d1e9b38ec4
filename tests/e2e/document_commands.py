"""The commands of the documents, as a reader would type them.

A fence with `sh` is a script; of one with `console` the lines that begin with `$ ` are, and the rest is what they
print. A word behind it says when a command runs:

    slow     with ./test --all only
    refused  it must fail
    setup    installs, builds, or takes hours: not run
    hosts, slurm, gpu    needs what a test machine may lack: not run

A `toml` fence whose first line is a comment `# NAME.toml` is a file of that name. The pages are read in a folder that
looks like the repository and has what their commands are about: DIR, a model; LORA_DIR, an adapter of it; RUN.toml ...
"""
import dataclasses
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, COLOSSAL, ROOT

PAGES = ["README.md", "CONTRIBUTING.md", "bench/README.md", "examples/chat/README.md",
         "examples/tuning/README.md",
         *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md"))]
NOT_RUN = {"setup": "installs, builds, or takes hours", "hosts": "needs several hosts", "slurm": "needs Slurm",
           "gpu": "needs a GPU"}
OTHER_FENCES = {"", "cpp", "json", "python", "text", "toml"}
COMMAND = re.compile(r"(\$ |(build/|bench/|tools/|\./)?(colossal|setup|run|test|srun|mpirun|torchrun|ctest|curl) )")
FENCE = re.compile(r"^( *)```(.*)$")
FILE_NAME = re.compile(r"# (\S+\.toml)\b")
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


@dataclasses.dataclass
class Block:
    page: str
    line: int
    kind: str
    words: list
    text: str

    def name(self):
        return re.sub(r"\W", "_", self.page) + f"_line_{self.line}"

    def script(self):
        if self.kind == "sh":
            return self.text
        lines, going_on = [], False
        for line in self.text.split("\n"):
            if going_on or line.startswith("$ "):
                lines.append(line.removeprefix("$ "))
                going_on = line.endswith("\\")
        return "\n".join(lines)


def blocks(page):
    """All fences of a page."""
    found, begun = [], None
    for number, line in enumerate((ROOT / page).read_text().split("\n"), 1):
        fence = FENCE.match(line)
        if begun is None and fence:
            kind, *words = fence[2].split() or [""]
            begun = Block(page, number + 1, kind, words, ""), len(fence[1]), []
        elif fence:
            block, indent, lines = begun
            block.text = "\n".join(line[indent:] for line in lines) + "\n"
            found.append(block)
            begun = None
        elif begun:
            begun[2].append(line)
    return found


class Workspace:
    """A folder in which the commands of all pages can run."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-documents-"))
        for name in ("README.md", "bench", "docs", "examples", "src", "tests", "tools"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build").symlink_to(BUILD)
        self._write_texts()
        self._make_models()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, script, timeout):
        environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)

    def write_files(self, page):
        for block in blocks(page):
            name = FILE_NAME.match(block.text)
            if block.kind == "toml" and name:
                (self.folder / name[1]).write_text(block.text)

    def _write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _write_texts(self):
        text = (ROOT / "docs" / "data.md").read_text()
        self._write("text.txt", text)
        self._write("notes/a.txt", text)
        self._write("RUN.toml", '[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["text.txt"]\nsequence_length = 64\n'
                                '[train]\nsteps = 2\n')
        self._write("prompts.jsonl", "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in ("def ", "class ")))
        pair = {"prompt": "Two and two? ", "chosen": "Four.", "rejected": "Five."}
        (self.folder / "pairs").mkdir()
        with gzip.open(self.folder / "pairs/all.jsonl.gz", "wt") as lines:
            lines.write((json.dumps(pair) + "\n") * 32)
        self._write("held-out.jsonl", json.dumps(pair) + "\n")
        self._write("answers.jsonl", (json.dumps({"prompt": pair["prompt"], "completion": "Four."}) + "\n") * 32)

    def _train(self, *flags):
        done = subprocess.run([str(COLOSSAL), "train", "RUN.toml", *flags], cwd=self.folder, capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def _make_models(self):
        self._train("--model.preset=llama-tiny", "--checkpoint.directory=made/model")
        (self.folder / "made/model/step-000002/chat_template.jinja").write_text(TEMPLATE)
        (self.folder / "DIR").symlink_to("made/model/step-000002")
        self._train("--model.preset=", "--model.path=DIR", "--adapter.kind=lora", "--checkpoint.directory=made/lora")
        (self.folder / "LORA_DIR").symlink_to("made/lora/step-000002")
        (self.folder / "Llama-3.1-8B").symlink_to("DIR")
        for name, model in {"runs/notes/step-000100": "LORA_DIR", "runs/first-run/checkpoints/step-002500": "DIR"}.items():
            path = self.folder / name
            path.parent.mkdir(parents=True)
            path.symlink_to(self.folder / model)


class DocumentCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workspace = Workspace()
        cls.addClassCleanup(cls.workspace.close)

    def check(self, block, timeout):
        for word in block.words:
            if word in NOT_RUN:
                self.skipTest(f"{block.page}:{block.line} {NOT_RUN[word]}")
        self.workspace.write_files(block.page)
        done = self.workspace.run(block.script(), timeout)
        what = f"{block.page}:{block.line}\n{block.script()}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        if "refused" in block.words:
            self.assertNotEqual(done.returncode, 0, what)
        else:
            self.assertEqual(done.returncode, 0, what)


def add_tests(case, wanted, timeout):
    """A test method for each block of commands that `wanted` takes, in the order of the pages."""
    number = 0
    for page in PAGES:
        for block in blocks(page):
            if block.kind in ("sh", "console") and wanted(block):
                number += 1
                setattr(case, f"test_{number:02}_{block.name()}", lambda self, block=block: self.check(block, timeout))
