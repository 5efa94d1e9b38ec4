"""colossal.train, tune, plan and serve beside the commands: the same losses, figures and answers."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import torch

import colossal
from tiny_models import TEXT, make_model

COLOSSAL = os.environ["COLOSSAL"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = {"preset": "gpt2-124m", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 257, "n_positions": 64}
TEXTS = [f"{i} {TEXT}" for i in range(20)]


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.corpus = self.folder / "corpus.jsonl"
        self.corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))

    def sections(self, name="run", steps=4, **train):
        return {"model": MODEL, "data": {"train": self.corpus, "sequence_length": 32, "tokenizer": "bytes"},
                "train": {"steps": steps, "global_batch": 4, "threads": 1, **train}, "scheduler": {"name": "constant"},
                "log": {"directory": self.folder / name}}

    def train(self, **sections):
        losses = []
        done = colossal.train(**sections, on_step=lambda report: losses.append(report.loss) and None)
        return done, losses

    def losses(self, name):
        return [json.loads(line)["loss"] for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]


class Train(RunTest):
    def flags(self, sections):
        return [f"--{section}.{key}={value}" for section, keys in sections.items() for key, value in keys.items()]

    def test_losses_are_those_of_the_command(self):
        done, losses = self.train(**self.sections("here"))
        (self.folder / "run.toml").write_text("")
        subprocess.run([COLOSSAL, "train", str(self.folder / "run.toml"), *self.flags(self.sections("there"))], check=True,
                       capture_output=True)
        self.assertEqual(losses, self.losses("there"))
        self.assertEqual((done.steps, done.loss, done.stopped, done.checkpoint), (4, losses[-1], False, ""))
        self.assertEqual(pathlib.Path(done.log_directory), self.folder / "here")

    def test_config_may_be_a_file_or_a_dict(self):
        file = self.folder / "run.toml"
        file.write_text(f'[data]\ntrain = ["{self.corpus}"]\n[train]\nsteps = 9\n')
        _, expected = self.train(**self.sections("a"))
        sections = self.sections("b")
        del sections["data"]["train"]
        self.assertEqual(self.train(config=file, **sections)[1], expected)
        self.assertEqual(self.train(config=self.sections("c", steps=9), **{"train.steps": 4})[1], expected)

    def test_texts_are_those_of_a_file(self):
        _, expected = self.train(**self.sections("a"))
        sections = self.sections("b")
        del sections["data"]["train"]
        self.assertEqual(self.train(texts=iter(TEXTS), **sections)[1], expected)
        with self.assertRaisesRegex(colossal.ConfigError, "texts are strings, and not 5"):
            self.train(texts=[5], **sections)

    def test_a_true_value_stops_and_the_run_resumes(self):
        _, expected = self.train(**self.sections("whole", steps=6))
        sections = {**self.sections("parts", steps=6), "checkpoint": {"directory": self.folder / "checkpoints", "resume": "auto"}}
        losses = []

        def stop(report):
            losses.append(report.loss)
            return report.step == 2

        done = colossal.train(**sections, on_step=stop)
        self.assertTrue(done.stopped)
        self.assertEqual(done.steps, 3)
        self.assertTrue(done.checkpoint.endswith("step-000003"))
        done = colossal.train(**sections, on_step=lambda report: losses.append(report.loss) and None)
        self.assertEqual((done.steps, losses), (6, expected))
        with colossal.LLM(done.checkpoint) as llm:  # what it has trained
            self.assertEqual(len(llm.generate("The", max_tokens=5, ignore_eos=True).token_ids), 5)

    def test_interrupt_keeps_a_checkpoint(self):
        sections = {**self.sections(steps=100000), "checkpoint": {"directory": self.folder / "checkpoints"}}
        with self.assertRaises(KeyboardInterrupt):
            colossal.train(**sections, on_step=lambda report: report.step == 3 and os.kill(os.getpid(), signal.SIGINT))
        self.assertEqual(len(list((self.folder / "checkpoints").glob("step-*"))), 1)

    def test_errors(self):
        def fail(report):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            colossal.train(**self.sections(), on_step=fail)
        for words, sections in (("nearest: --train.steps", {"train": {"stepz": 1}}), ("train.steps", {"train": {"steps": -1}}),
                                ("a section is a dict of its keys", {"train": 5}), ("gpt2-124m", {"model": {"preset": "gpt2-125m"}}),
                                ("only the command searches", {**self.sections(), "parallel": {"strategy": "auto"}})):
            with self.assertRaisesRegex(colossal.ConfigError, words):
                colossal.train(**sections)
        self.assertEqual(torch.get_num_threads(), 1)

    def test_two_ranks(self):
        _, expected = self.train(**self.sections("one"))
        sections = json.dumps({**self.sections("two"), "parallel": {"zero": 3}}, default=str)
        (self.folder / "two.py").write_text(f"import colossal, json\nfor _ in range(2):\n    colossal.train(json.loads({sections!r}))\n")
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(self.folder / "two.py")],
                       check=True, capture_output=True, timeout=300)
        for loss, wanted in zip(self.losses("two"), expected, strict=True):
            self.assertAlmostEqual(loss, wanted, delta=1e-4)


class Tune(RunTest):
    def test_sft_is_that_of_the_command(self):
        make_model(self.folder / "model")
        pairs = self.folder / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": f"The {i}", "completion": " quick fox"}) + "\n" for i in range(8)))
        sections = {"model": {"path": self.folder / "model"}, "data": {"train": pairs},
                    "train": {"steps": 3, "global_batch": 4, "threads": 1}, "log": {"directory": self.folder / "here"}}
        losses = []
        colossal.tune("sft", on_step=lambda report: losses.append(report.loss) and None, **sections)
        (self.folder / "run.toml").write_text("")
        flags = [f"--{section}.{key}={value}" for section, keys in sections.items() for key, value in keys.items()]
        subprocess.run([COLOSSAL, "tune", "sft", str(self.folder / "run.toml"), *flags, f"--log.directory={self.folder / 'there'}"],
                       check=True, capture_output=True)
        self.assertEqual(losses, self.losses("there"))
        with self.assertRaisesRegex(colossal.ConfigError, "sftt is no tuning method; there are .*sft"):
            colossal.tune("sftt")


    def grpo(self, name, reward):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"The {i}", "number": i}) + "\n" for i in range(8)))
        make_model(self.folder / "model")
        losses = []
        colossal.tune("grpo", model={"path": self.folder / "model"}, data={"train": prompts}, log={"directory": self.folder / name},
                      train={"steps": 3, "global_batch": 8, "threads": 1}, precision={"compute": "fp32"},
                      tune={"reward": reward, "num_generations": 4, "max_completion_length": 8},
                      on_step=lambda report: losses.append((report.loss, report.grad_norm)) and None)
        return losses

    def test_a_reward_may_be_a_function(self):
        seen = []

        def varied(prompts, completions, number):
            seen.extend(zip(prompts, number, strict=True))
            return [len(set(text)) for text in completions]

        program = self.folder / "varied.py"
        program.write_text("import json, sys\nfor line in sys.stdin:\n    print(len(set(json.loads(line)['completion'])))\n")
        expected = self.grpo("command", f"command:{sys.executable} {program}")
        self.assertGreater(max(norm for _, norm in expected), 0)
        self.assertEqual(self.grpo("function", varied), expected)
        self.assertTrue(all(prompt == f"The {number}" for prompt, number in seen))
        self.assertEqual(self.grpo("listed", [lambda completions: [len(set(text)) for text in completions]]), expected)

        def fail(**fields):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.grpo("fails", fail)
        with self.assertRaisesRegex(colossal.ConfigError, "has returned 1 numbers for"):
            self.grpo("few", lambda completions: [1])


class Plan(RunTest):
    def test_figures_are_those_of_the_command(self):
        sections = {**self.sections(), "parallel": {"tp": 2}}
        plan = colossal.plan(**sections, ranks=4)
        (self.folder / "run.toml").write_text("")
        flags = [f"--{section}.{key}={value}" for section, keys in sections.items() for key, value in keys.items()]
        command = [COLOSSAL, "plan", str(self.folder / "run.toml"), "--ranks=4", *flags]
        figures = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
        self.assertEqual({**plan.figures, "plan_seconds": 0}, {**figures, "plan_seconds": 0})
        self.assertGreater(plan.peak_bytes, 0)
        self.assertGreater(plan.bytes_sent, 0)
        self.assertIsNone(plan.seconds)
        self.assertIn("tp", plan.text)
        with self.assertRaisesRegex(colossal.ConfigError, "ranks"):
            colossal.plan(**sections, ranks=3)

    def test_beside_a_model_that_generates(self):
        make_model(self.folder / "model")
        with colossal.LLM(self.folder / "model") as llm:
            expected = llm.generate("The quick", temperature=0).text
            found = []
            thread = threading.Thread(target=lambda: found.append(colossal.plan(**self.sections()).peak_bytes))
            thread.start()
            while thread.is_alive():
                self.assertEqual(llm.generate("The quick", temperature=0).text, expected)
            thread.join()
            self.assertEqual(found, [colossal.plan(**self.sections()).peak_bytes])


class Serve(RunTest):
    def test_answers_until_interrupted(self):
        make_model(self.folder / "model")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = f"import colossal\ncolossal.serve({str(self.folder / 'model')!r}, port={port}, dtype='fp32', served_name='tiny')\nprint('over')"
        server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True)
        self.addCleanup(server.kill)
        body = json.dumps({"model": "tiny", "prompt": "The quick", "temperature": 0, "max_tokens": 8}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
        deadline = time.monotonic() + 120
        while True:
            try:
                answer = json.load(urllib.request.urlopen(request))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        with colossal.LLM(self.folder / "model", dtype="fp32") as llm:
            self.assertEqual(answer["choices"][0]["text"], llm.generate("The quick", temperature=0, max_tokens=8).text)
        server.send_signal(signal.SIGINT)  # not to the group: only this process gets it
        self.assertEqual(server.communicate(timeout=60)[0], "over\n")

    def test_errors(self):
        with self.assertRaisesRegex(colossal.ConfigError, "no-such-folder"):
            colossal.serve("./no-such-folder", port=0)
        with self.assertRaisesRegex(colossal.ConfigError, "int5: must be auto"):
            colossal.serve(self.folder, quantization="int5")


class Types(unittest.TestCase):
    def test_are_current(self):
        made = subprocess.run([sys.executable, str(ROOT / "tools/write_configuration_types.py")], capture_output=True, text=True, check=True)
        self.assertEqual((ROOT / "python/colossal/configuration.py").read_text(), made.stdout,
                         "PYTHONPATH=build/python tools/write_configuration_types.py > python/colossal/configuration.py")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
