"""What a run's folders say about it: logs of one run only, the settings used, what a resumption changes."""
import json
import os
import re
import signal
import subprocess
import tomllib
import unittest

from harness import COLOSSAL, EndToEndTest


class Records(EndToEndTest):
    def report(self, name="run"):
        return (self.directory / name / "report.html").read_text()

    def test_each_run_has_logs_of_its_own(self):
        self.train(*self.flags(), "--train.steps=4", "--checkpoint.every=2")
        other = [*self.flags(checkpoints=False), f"--checkpoint.directory={self.directory / 'other'}", "--train.seed=4"]
        log = self.train(*other, "--train.steps=2", ranks=2)
        self.assertIn(f'log.directory = "{self.directory / "run"}" has the logs of another run', log)
        self.assertEqual(sorted(self.losses()), [1, 2, 3, 4])
        self.assertEqual(sorted(self.losses("run/run-2")), [1, 2])
        self.assertNotEqual(self.losses()[1], self.losses("run/run-2")[1])
        self.assertIn("4 steps,", self.report())
        self.assertIn("2 steps,", self.report("run/run-2"))
        # Both go on in their own.
        self.train(*other, "--train.steps=3")
        self.train(*self.flags(), "--train.steps=5")
        self.assertEqual(sorted(self.losses("run/run-2")), [1, 2, 3])
        self.assertEqual(sorted(self.losses()), [1, 2, 3, 4, 5])
        self.assertFalse((self.directory / "run/run-3").exists())
        # A run that leaves no checkpoint and begins again is the same run.
        flags = [*self.flags("again", checkpoints=False), "--train.steps=2"]
        self.train(*flags)
        first = self.losses("again")
        self.train(*flags, ranks=2)
        self.assertEqual(sorted(path.name for path in (self.directory / "again").iterdir()),
                         ["metrics.before.jsonl", "metrics.jsonl", "report.html", "run.toml"])
        self.assertEqual(sorted(self.losses("again")), sorted(first))

    def test_a_finished_run_keeps_its_logs(self):
        self.train(*self.flags(), "--train.steps=3")
        files = {path: path.read_bytes() for path in (self.directory / "run").iterdir() if path.is_file()}
        for ranks in (1, 2):
            log = self.train(*self.flags(), "--train.steps=2", "--optimizer.learning_rate=0.5", ranks=ranks)
            self.assertIn("nothing to do", log)
            self.assertEqual({path: path.read_bytes() for path in files}, files)

    def test_run_toml_has_all_settings_and_starts_the_run_again(self):
        self.train(*self.flags(), "--train.steps=3", "--optimizer.learning_rate=1e-3", ranks=2)
        written = self.directory / "run" / "run.toml"
        text = written.read_text()
        self.assertIn("learning_rate = 0.001  # flag", text)
        self.assertIn('preset = "gpt2-tiny"  # file', text)
        self.assertIn("betas = [0.9, 0.95]  # chosen", text)
        self.assertIn("# weight_decay = 0.1  # default", text)
        self.assertIn("# dp = 2  # chosen", text)
        settings = tomllib.loads(text)
        self.assertEqual(settings["data"]["sequence_length"], 32)
        in_checkpoint = (self.newest() / "training_state" / "run.toml").read_text()
        self.assertEqual(in_checkpoint, text)
        again = [COLOSSAL, "train", written, f"--checkpoint.directory={self.directory / 'c2'}",
                 f"--log.directory={self.directory / 'again'}"]
        done = subprocess.run(list(map(str, again)), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("warning", done.stderr)
        for step, loss in self.losses().items():
            self.assertAlmostEqual(self.losses("again")[step], loss, delta=1e-2 * loss)

    def test_the_report_has_the_values_used(self):
        self.train(*self.flags(checkpoints=False), "--train.steps=2")
        report = self.report()
        self.assertIn("[0.9, 0.95]", report)
        self.assertNotIn("for adamw", report)
        self.assertRegex(report, r'momentum</th><td>not used')

    def test_what_a_resumption_changes_is_told(self):
        self.train(*self.flags(), "--train.steps=2", "--checkpoint.every=1", "--checkpoint.keep=0")
        changed = {"optimizer.learning_rate": ("0.0003", "0.5"), "optimizer.betas": ("[0.9, 0.95]", "[0.8, 0.9]"),
                   "scheduler.name": ('"constant"', '"linear"'), "train.steps": ("2", "3"),
                   "train.dropout": ("the model's", "0.1"), "optimizer.weight_decay": ("0.1", "0.2"),
                   "train.seed": ("0", "7"), "data.seed": ("0", "8"), "train.global_batch": ("12", "6")}
        flags = [f"--{key}={now}".replace('"', "") for key, (_, now) in changed.items()]
        log = self.train(*self.flags(), *flags, ranks=2)
        for key, (then, now) in changed.items():
            self.assertEqual(log.count(f"warning: {key} was {then} until this checkpoint, and is {now} now"), 1, log)
        self.assertEqual(log.count("until this checkpoint"), len(changed))
        # How a run computes and saves is not one of its numbers.
        log = self.train(*self.flags(), *flags, "--train.steps=4", "--train.micro_batch=3", "--checkpoint.keep=1",
                         "--log.every=1", "--parallel.tp=2", ranks=2)
        self.assertEqual(log.count("until this checkpoint"), 1)

    def test_another_tokenizer_is_refused(self):
        from tokenizers import ByteLevelBPETokenizer
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(["some text"], vocab_size=257, special_tokens=["<|endoftext|>"],
                                    show_progress=False)
        trained.save(str(self.directory / "tokenizer.json"))
        self.train(*self.flags(), "--train.steps=1")
        log = self.train(*self.flags(), "--train.steps=2", f"--data.tokenizer={self.directory / 'tokenizer.json'}",
                         ranks=2, expect=2)
        self.assertIn("the run was begun with another tokenizer", log)
        self.assertEqual(log.count("error:"), 1)

    def test_lost_logs_do_not_end_a_run(self):
        command = self.command(*self.flags(), "--train.steps=1000000", "--log.every=2")
        log_folder = self.directory / "run"
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
            told = ""
            for line in run.stderr:
                told += line
                if line.startswith("training  2/"):
                    os.rename(log_folder / "metrics.jsonl", log_folder / "metrics.jsonl.1")
                if line.startswith("training  10/"):
                    run.send_signal(signal.SIGTERM)
        self.assertEqual(run.returncode, 75, told)
        self.assertIn("metrics.jsonl was moved or removed", told)
        before = [json.loads(line)["step"] for line in open(log_folder / "metrics.jsonl.1")]
        after = sorted(self.metrics())
        self.assertEqual(before + after, list(range(1, after[-1] + 1)))
        self.assertIn("<html", self.report())

    def test_a_full_disk_of_logs_does_not_fail_the_run(self):
        logs = self.mount_small("logs", "16k")
        flags = [flag for flag in self.flags() if not flag.startswith("--log.directory")]
        log = self.train(*flags, "--train.steps=40", f"--log.directory={logs}")
        self.assertRegex(log, "warning: (training continues|the run goes on)")
        self.assertIn("saved", log)

    def test_the_steps_before_numbers_that_are_not_finite_are_logged(self):
        log = self.train(*self.flags(checkpoints=False), "--train.steps=60", "--optimizer.name=sgd",
                         "--optimizer.learning_rate=300", "--train.gradient_clip=0", ranks=2, expect=1)
        failed = int(re.search(r"step (\d+): the (loss|gradient)", log)[1])
        self.assertEqual(sorted(self.metrics()), list(range(1, failed)))
        self.assertIn(f"{failed - 1} step", self.report())


class Evaluations(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.evaluating = [f"--data.validation={self.toml}", "--train.evaluate_every=1"]

    def steps(self, name="run"):
        return sorted(int(path.name[5:]) for path in (self.directory / name / "checkpoints").glob("step-*"))

    def test_its_seconds_are_not_those_of_the_step(self):
        validation = self.directory / "validation.txt"
        validation.write_text("many words to evaluate on " * 20_000)
        self.train(*self.flags(checkpoints=False), "--train.steps=4", f"--data.validation={validation}",
                   "--train.evaluate_every=3")
        metrics = self.metrics()
        self.assertGreater(metrics[3]["evaluation_seconds"], 5 * metrics[3]["step_seconds"])
        self.assertNotIn("evaluation_seconds", metrics[2])
        self.train(*self.flags("some", checkpoints=False), "--train.steps=4", f"--data.validation={validation}",
                   "--train.evaluate_sequences=24")
        self.assertLess(self.metrics("some")[4]["evaluation_seconds"], metrics[4]["evaluation_seconds"])
        self.assertNotEqual(self.metrics("some")[4]["validation_loss"], metrics[4]["validation_loss"])

    def test_the_best_checkpoints_are_kept(self):
        """A rate that is too high from the start: the loss on other text rises after some steps."""
        rising = ["--optimizer.learning_rate=0.1", "--precision.compute=fp64"]
        log = self.train(*self.flags(), *self.evaluating, *rising, "--train.steps=8", "--checkpoint.keep=1",
                         "--checkpoint.keep_best=2", ranks=2)
        losses = {step: line["validation_loss"] for step, line in self.metrics().items()}
        best = sorted(losses, key=losses.get)[:2]
        self.assertEqual(self.steps(), sorted({*best, 8}))
        self.assertIn(f"best checkpoint: step {best[0]}, validation_loss", log)
        # Resumed in the middle, it keeps the same.
        self.train(*self.flags("parts"), *self.evaluating, *rising, "--train.steps=4", "--checkpoint.keep=1",
                   "--checkpoint.keep_best=2", ranks=2)
        self.train(*self.flags("parts"), *self.evaluating, *rising, "--train.steps=8", "--checkpoint.keep=1",
                   "--checkpoint.keep_best=2", ranks=2)
        self.assertEqual(self.steps("parts"), self.steps())

    def test_a_run_ends_early(self):
        flags = [*self.flags(), *self.evaluating, "--optimizer.learning_rate=10", "--train.steps=50",
                 "--train.early_stopping=2", "--precision.compute=fp64"]
        log = self.train(*flags, ranks=2)
        losses = {step: line["validation_loss"] for step, line in self.metrics().items()}
        last = max(losses)
        self.assertLess(last, 50)
        self.assertEqual(min(losses, key=losses.get), last - 2)
        self.assertEqual(log.count("train.early_stopping = 2: the run ends"), 1)
        self.assertEqual(self.steps()[-1], last)
        log = self.train(*flags, ranks=2)  # it is over
        self.assertIn("train.early_stopping = 2: the run ends", log)
        self.assertEqual(max(self.metrics()), last)
        self.train(*flags, "--train.early_stopping=3", ranks=2)
        self.assertGreater(max(self.metrics()), last)

    def test_a_metric_of_training_and_what_is_missing(self):
        log = self.train(*self.flags(), "--train.steps=6", "--checkpoint.every=1", "--checkpoint.keep=1",
                         "--checkpoint.keep_best=1", "--checkpoint.best_metric=loss", "--checkpoint.best_is=highest")
        losses = self.losses()
        self.assertEqual(self.steps(), sorted({max(losses, key=losses.get), 6}))
        self.assertRegex(log, r"deleted .*step-000003 \(checkpoint.keep = 1\)")
        for flags, told in ((["--checkpoint.keep_best=1"], "set data.validation and train.evaluate_every"),
                            (["--checkpoint.keep_best=1", "--checkpoint.best_metric=loss"], "set checkpoint.every"),
                            (["--train.early_stopping=1"], "set data.validation and train.evaluate_every"),
                            (["--checkpoint.keep_best=1", "--checkpoint.best_metric=rewards",
                              "--checkpoint.every=1"], "have no such metric; they have validation_loss, loss")):
            self.assertIn(told, self.train(*self.flags("other"), "--train.steps=2", *flags, expect=2))

    def test_samples_show_what_the_model_writes(self):
        flags = ["--train.steps=2", "--train.evaluate_every=1", '--train.sample_prompts=["import ", "def <b>"]',
                 "--train.sample_tokens=5", "--precision.compute=fp64"]
        log = self.train(*self.flags("one"), *flags)
        self.assertIn("step 2: import ", log)
        samples = [json.loads(line) for line in open(self.directory / "one" / "samples.jsonl")]
        self.assertEqual([(line["step"], line["prompt"]) for line in samples],
                         [(step, prompt) for step in (1, 2) for prompt in ("import ", "def <b>")])
        report = (self.directory / "one" / "report.html").read_text()
        self.assertIn("Samples after step 2", report)
        self.assertIn("def &lt;b&gt;", report)
        # The same at other layouts, and as `generate` writes.
        for number, layout in enumerate((["--parallel.tp=2"], ["--parallel.pp=2"], ["--parallel.zero=3"])):
            self.train(*self.flags(f"two{number}"), *flags, *layout, ranks=2)
            self.assertEqual([json.loads(line) for line in open(self.directory / f"two{number}" / "samples.jsonl")],
                             samples)
        done = subprocess.run([COLOSSAL, "generate", self.newest("one"), "--prompt=import ", "--temperature=0",
                               "--max-new-tokens=5", "--precision.compute=fp64"], capture_output=True, text=True)
        self.assertIn(samples[2]["completion"], done.stdout)


if __name__ == "__main__":
    unittest.main()
