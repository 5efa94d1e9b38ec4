"""parallel.strategy = "auto" chooses a layout by predicted times, and runs it as if it had been given."""
import json
import re
import subprocess
import tomllib
import unittest

from harness import COLOSSAL, EndToEndTest

# Rates of a machine that does not exist, so that the choice is the same everywhere.
CLUSTER = """[hosts]
cores = 2
[bf16]
products = 1e11
elements = 1e10
[fp32]
products = 5e10
elements = 1e10
[device]
operator_seconds = 1e-6
half_rate_size = 16
[links]
latency = 1e-5
bandwidth = 1e9
"""


class Strategy(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.cluster = self.directory / "cluster.toml"
        self.cluster.write_text(CLUSTER)

    def plan(self, *flags, ranks=2, expect=0):
        done = subprocess.run([COLOSSAL, "plan", self.toml, f"--ranks={ranks}", *flags], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def test_measured_machine_gives_times(self):
        measured = self.directory / "measured.toml"
        done = subprocess.run([COLOSSAL, "check", f"--cluster={measured}", f"--nvme={self.directory}"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"--cluster={measured}", done.stdout)
        # The file has the rates that were shown.
        file = tomllib.loads(measured.read_text())
        bandwidth = float(re.search(r"shared memory +\d+ us +([\d.]+) GB/s", done.stdout)[1])
        self.assertAlmostEqual(file["links"]["bandwidth"] / 1e9 / bandwidth, 1, delta=0.02)
        products = float(re.search(r"fp32 +\d+ +(\d+)\n", done.stdout)[1])
        self.assertAlmostEqual(file["fp32"]["products"] * file["hosts"]["cores"] / 1e9 / products, 1, delta=0.02)
        writes, reads = (float(re.search(rf"  {word} +([\d.]+) GB/s", done.stdout)[1]) for word in ("writes", "reads"))
        self.assertAlmostEqual(file["links"]["nvme_bandwidth"] / 1e9 / min(writes, reads), 1, delta=0.02)
        offloads = [*self.flags(checkpoints=False), f"--memory.nvme_path={self.directory}",
                    "--memory.offload_optimizer=nvme", f"--cluster={measured}", "--json"]
        self.assertGreater(json.loads(self.plan(*offloads).stdout)["predicted_seconds_by_kind"]["tiers"], 0)
        flags = [*self.flags(checkpoints=False), "--parallel.pp=2"]
        plan = json.loads(self.plan(*flags, f"--cluster={measured}", "--json").stdout)
        self.assertGreater(plan["predicted_step_seconds"], 1e-5)
        self.assertAlmostEqual(sum(plan["predicted_seconds_by_kind"].values()), plan["predicted_step_seconds"])
        self.assertLess({"matrix products", "waits for stages", "update"}, plan["predicted_seconds_by_kind"].keys())
        page = self.directory / "plan.html"
        text = self.plan(*flags, f"--cluster={measured}", f"--page={page}").stdout
        for words in ("A step takes", "Seconds by kind", "Memory by kind", "Bytes by axis", "<svg", "All figures"):
            self.assertIn(words, page.read_text())
        self.assertRegex(text, r"predicted time of a step\s+matrix products +\S+ m?s +\d+ %")
        self.assertNotIn("predicted time", self.plan(*flags).stdout)

    def test_missing_rate_is_named(self):
        self.cluster.write_text(CLUSTER.replace("bandwidth = 1e9\n", ""))
        done = self.plan(*self.flags(checkpoints=False), f"--cluster={self.cluster}", expect=2)
        self.assertIn("links.bandwidth", done.stderr)
        self.assertIn("colossal check", done.stderr)

    def settings_of_plan(self, *flags, ranks):
        plan = json.loads(self.plan(*flags, "--json", ranks=ranks).stdout)
        first = plan["search"]["choices"][0]
        # The search records fewer ranks than the plan.
        self.assertAlmostEqual(plan["predicted_step_seconds"] / first["predicted_step_seconds"], 1, delta=0.02)
        return [f"--{key}={value}" for key, value in first["settings"].items()]

    def test_run_has_the_layout_of_the_plan(self):
        auto = ["--parallel.strategy=auto", f"--parallel.cluster={self.cluster}", "--precision.compute=fp32"]
        flags = [*self.flags(checkpoints=False), *auto, "--train.steps=3"]
        settings = self.settings_of_plan(*flags, ranks=3)
        self.assertTrue(any(setting.startswith("--parallel.dp=") for setting in settings))
        said = self.train(*flags, ranks=3)
        page = self.directory / "auto.html"
        self.plan(*flags, f"--page={page}", ranks=3)
        self.assertIn("Layouts compared", page.read_text())
        self.assertIn("the first is chosen", said)
        self.assertRegex(said, r"layouts: [\d,]+ looked at in ")
        given = [*self.flags("given", checkpoints=False), "--precision.compute=fp32", "--train.steps=3"]
        self.train(*given, *settings, ranks=3)
        self.assertEqual(self.losses(), self.losses("given"))
        for step in (2, 3):
            self.assertEqual(self.metrics()[step]["bytes_sent"], self.metrics("given")[step]["bytes_sent"])

    def test_keys_of_the_user_stay(self):
        flags = [*self.flags(checkpoints=False), "--parallel.strategy=auto", f"--parallel.cluster={self.cluster}",
                 "--parallel.tp=2", "--train.micro_batch=3", "--train.steps=1"]
        settings = self.settings_of_plan(*flags, ranks=4)
        self.assertFalse([s for s in settings if "parallel.tp=" in s or "micro_batch" in s])
        said = self.train(*flags, ranks=4)
        self.assertIn("tp 2", said)

    def test_first_rank_chooses_for_a_launcher(self):
        flags = [*self.flags(checkpoints=False), "--parallel.strategy=auto", f"--parallel.cluster={self.cluster}",
                 "--train.steps=2"]
        done = subprocess.run([COLOSSAL, "run", "-n", "2", "--", COLOSSAL, "train", self.toml, *flags],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.metrics()), [1, 2])
        self.assertEqual(done.stderr.count("the first is chosen"), 1)

    def test_tuning_chooses_too(self):
        text = self.directory / "texts.jsonl"
        text.write_text("".join(json.dumps({"text": f"line {i} of some text"}) + "\n" for i in range(64)))
        self.toml.write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{text}"]\n')
        flags = [*self.model_flags, "--data.sequence_length=32", "--train.global_batch=4", "--train.steps=2",
                 f"--log.directory={self.directory / 'tuned'}", "--parallel.strategy=auto",
                 f"--parallel.cluster={self.cluster}"]
        done = subprocess.run([COLOSSAL, "tune", "sft", self.toml, "--ranks=2", *flags], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the first is chosen", done.stderr)

    def test_too_little_memory_is_told_with_the_nearest(self):
        done = self.plan(*self.flags(checkpoints=False), "--parallel.strategy=auto", f"--cluster={self.cluster}",
                         "--memory.device_budget=100KiB", expect=2)
        self.assertRegex(done.stderr, r"none of \d+ layouts of 2 ranks fits the memory budgets")
        self.assertTrue(re.search(r"exceeds them by \d", done.stderr), done.stderr)

    def test_help_tells_what_is_chosen(self):
        text = subprocess.run([COLOSSAL, "train", "--help"], capture_output=True, text=True).stdout
        self.assertIn('strategy = "manual" (one of: manual, auto)', text)


if __name__ == "__main__":
    unittest.main()
