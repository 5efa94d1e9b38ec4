"""What people see of a run: metrics, TensorBoard events, the report, the checks and the helps."""
import json
import re
import subprocess
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from harness import BUILD, COLOSSAL, EndToEndTest

KEYS = {"step", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_second", "step_seconds",
        "model_flops_utilization", "memory_peak_bytes", "memory_at_peak", "memory_base_bytes",
        "memory_by_kind", "bytes_sent", "skipped"}
KINDS = {"parameters", "gradients", "optimizer", "activations", "gathered", "communication", "other"}


class Seeing(EndToEndTest):
    def test_metrics_events_and_report(self):
        log = self.train(*self.flags(), "--train.steps=6", "--train.evaluate_every=2",
                         f"--data.validation={self.toml}", "--log.tensorboard=true", ranks=2)
        self.assertIn("loss", log)
        metrics = self.metrics()
        self.assertEqual(sorted(metrics), [1, 2, 3, 4, 5, 6])
        for step, line in metrics.items():
            self.assertEqual(KEYS | ({"validation_loss", "evaluation_seconds"} if step % 2 == 0 else set()), set(line))
            self.assertEqual(line["tokens"], 12 * 32)
            self.assertGreater(line["memory_peak_bytes"], 2**20)
            self.assertEqual(list(line["bytes_sent"]), ["dp"])
            kinds = line["memory_by_kind"]
            self.assertEqual(set(kinds), KINDS)
            self.assertEqual(sum(kinds.values()), line["memory_at_peak"])
            self.assertGreater(kinds["activations"], kinds["parameters"])
            self.assertLess(line["memory_at_peak"], line["memory_peak_bytes"] - line["memory_base_bytes"])
        events = EventAccumulator(str(self.directory / "run"))
        events.Reload()
        scalars = events.Scalars("train/loss")
        self.assertEqual([scalar.step for scalar in scalars], [1, 2, 3, 4, 5, 6])
        for scalar in scalars:
            self.assertAlmostEqual(scalar.value, metrics[scalar.step]["loss"], places=5)
        report = (self.directory / "run/report.html").read_text()
        for word in ("global_batch", "Memory over a step", "Memory at the peak"):
            self.assertIn(word, report)
        self.assertNotIn("src=\"http", report)

    def test_recomputation_as_the_budget_asks(self):
        """Found by rank 0, said in the log and in the report; what is planned is what is then taken."""
        flags = [*self.flags(checkpoints=False), "--precision.compute=fp32", "--train.steps=2"]
        budget = 1_100_000
        log = self.train(*flags, f"--memory.device_budget={budget}", "--memory.recompute=auto", ranks=2)
        said = re.search(r'memory.recompute = "auto" is ([^:]*): .* less than without, .* FLOPs', log)
        self.assertEqual(said[1], "selective and 1 of 2 layers")
        self.assertIn(said[0].replace('"', "&quot;"), (self.directory / "run/report.html").read_text())
        for line in self.metrics().values():
            self.assertLess(line["memory_at_peak"], 1.02 * budget)

    def test_offloading_as_the_budgets_ask(self):
        """The same numbers, wherever things rest; no more on the device and the host than planned."""
        flags = [*self.flags("plain", checkpoints=False), "--precision.compute=fp32", "--train.steps=2"]
        self.train(*flags, ranks=2)
        device, host = 900_000, 200_000
        log = self.train(*self.flags(checkpoints=False), *flags[-2:], f"--memory.device_budget={device}B",
                         f"--memory.host_budget={host}B", "--memory.offload_optimizer=auto",
                         "--memory.offload_activations=auto", f"--memory.nvme_path={self.directory}", ranks=2)
        said = re.search(r'memory.offload_optimizer = "auto" is .* to and from NVMe a step', log)
        self.assertIn(said[0].replace('"', "&quot;"), (self.directory / "run/report.html").read_text())
        for line in self.metrics().values():
            self.assertLess(line["memory_at_peak"], 1.02 * device)
            self.assertLessEqual(line["host_bytes"], host)
            self.assertGreater(line["nvme_bytes"], 0)
        self.assertEqual(self.losses(), self.losses("plain"))

    def test_two_lines_are_enough(self):
        """A model and data; everything else has a default."""
        done = subprocess.run([COLOSSAL, "train", self.toml, "--train.steps=1"], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_helps(self):
        for command in ([], ["train"], ["plan"], ["generate"], ["check"], ["run"]):
            done = subprocess.run([COLOSSAL, *command, "--help"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0)
            self.assertIn("--help", done.stdout)
        done = subprocess.run([COLOSSAL, "train", "--help"], capture_output=True, text=True)
        for key in ("learning_rate", "zero", "global_batch", "resume"):
            self.assertIn(key, done.stdout)

    def test_check(self):
        def check(*flags):
            done = subprocess.run([COLOSSAL, "check", *flags], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        said = check(f"--nvme={self.directory}")
        for word in ("CPU", "bf16", "LibTorch", "gloo", "GFLOP/s"):
            self.assertIn(word, said)
        self.assertRegex(said, r"transfers +(io_uring|threads), (direct|buffered)")
        self.assertIn(f"directory              {self.directory}\n", said)
        self.assertRegex(check("--nvme=/proc"), "transfers +none: .*/proc")

    def test_a_killed_run_leaves_its_last_report(self):
        """Also its progress lines: every second step, as told, with rates that agree."""
        command = self.command(*self.flags(checkpoints=False), "--train.steps=1000000", "--log.every=2")
        report = self.directory / "run" / "report.html"
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
            lines = []
            for line in run.stderr:
                if not line.startswith("training  "):
                    continue
                lines.append(line)
                if report.exists() and len(lines) >= 3:
                    break
            run.kill()
        self.assertIn("Memory at the peak", report.read_text())
        self.assertEqual([re.match(r"training  (\d+)/", line)[1] for line in lines[:3]], ["2", "4", "6"])
        for line in lines:
            steps, tokens = (float(re.search(rf"([\d.,]+) {unit}/s", line)[1].replace(",", ""))
                             for unit in ("steps", "tokens"))
            self.assertLess(abs(tokens / (12 * 32 * steps) - 1), 0.02, line)
            self.assertGreater(int(re.search(r"(\d+) % of GEMM", line)[1]), 0, line)

    def test_the_version(self):
        done = subprocess.run([COLOSSAL, "--version"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^colossal \d+\.\d+\.\d+ \(build [0-9a-f]{12}\)\n$")

    def test_an_example_without_files_says_how_to_use_it(self):
        done = subprocess.run([BUILD / "example_train_gpt"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("usage: ", done.stderr)

    def test_a_profile_by_layer_and_operator(self):
        self.train(*self.flags(checkpoints=False), "--train.steps=6", "--log.profile=2", ranks=2)
        products = {"aten::addmm", "colossal::rounded_product"}  # by the CPU's instructions
        for rank in (0, 1):
            events = json.loads((self.directory / "run" / f"trace-rank-{rank}.json").read_text())
            names = {event["name"] for event in events}
            self.assertLessEqual({"blocks.1.mlp_up", "colossal::attention"}, names)
            self.assertTrue(products & names)
            self.assertTrue(any(name.startswith("reduce_scatter of") for name in names))
        layers, operators = (self.directory / "run" / "profile.txt").read_text().split("\n\n")[1:3]
        self.assertIn("blocks.*.mlp_up", layers)
        self.assertRegex(operators, "|".join(products))
        shares = [float(line.split()[-1][:-1]) for line in layers.splitlines()[1:]]
        self.assertAlmostEqual(sum(shares), 100, delta=1.5)

    def test_a_timeline_of_all_ranks_beside_the_simulated_one(self):
        log = self.train(*self.flags(checkpoints=False), "--model.n_layer=3", "--parallel.pp=3",
                         "--parallel.pp_schedule=zb-h1", "--train.steps=5", "--log.profile=2", ranks=3)
        self.assertRegex(log, r"timeline.json: .* ms from the first forward .*; simulated from .* ms")
        rows, ends = {}, {}
        for event in json.loads((self.directory / "run" / "timeline.json").read_text()):
            if event["ph"] != "X" or event["cat"] != "computation":
                continue
            row = "simulated" if event["tid"] % 2 == 0 else "measured"
            what = event["args"]["step"], event["args"]["action"]
            rows.setdefault((event["pid"], row), []).append((event["ts"], what))
            ends[row, *what] = event["ts"] + event["dur"]
        order = {row: [what for _, what in sorted(times)] for row, times in rows.items()}
        for rank in range(3):
            self.assertEqual(order[rank, "measured"], order[rank, "simulated"])
            self.assertEqual(len(order[rank, "measured"]), 2 * 3 * 12)  # steps, kinds, micro-batches
        # One clock: nothing begins before what it needs of another rank has ended.
        for (rank, row), times in rows.items():
            for start, (step, action) in times:
                kind, stage, micro_batch = action[0], int(action[1]), action[3:]
                before = stage - 1 if kind == "F" else stage + 1
                if kind in "FI" and 0 <= before < 3:
                    self.assertGreaterEqual(start, ends[row, step, f"{kind}{before}.{micro_batch}"] - 1)


class Sampling(EndToEndTest):
    def test_the_same_seed_draws_the_same_text(self):
        self.train(*self.flags(), "--train.steps=2")
        def draw(*flags):
            done = subprocess.run([COLOSSAL, "generate", self.newest(), "--prompt=x", "--max-new-tokens=30",
                                   *flags], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        self.assertEqual(draw("--seed=1"), draw("--seed=1"))
        self.assertNotEqual(draw("--seed=1"), draw("--seed=2"))
        self.assertEqual(draw("--top-k=1", "--seed=3"), draw("--temperature=0"))
        self.assertEqual(draw("--top-p=0.000001", "--seed=3"), draw("--temperature=0"))


if __name__ == "__main__":
    unittest.main()
