"""What `colossal plan` says before a run is what the run then does; what it refuses, it refuses alike."""
import json
import subprocess
import unittest

from harness import COLOSSAL, EndToEndTest


class Plan(EndToEndTest):
    def plan(self, *flags, ranks=1, expect=0):
        done = subprocess.run([COLOSSAL, "plan", self.toml, f"--ranks={ranks}", *flags],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def test_bytes_of_a_run(self):
        for preset, ranks, layout in (
                ("gpt2-tiny", 4, ["--parallel.tp=2"]),
                ("llama-tiny", 4, ["--parallel.sp=2", "--train.micro_batch=2"]),
                ("llama-tiny", 2, ["--parallel.tp=2", "--parallel.tp_sequence=false"]),
                ("t5-tiny", 4, ["--parallel.sp=2", "--train.micro_batch=2"]),
                ("t5-tiny", 2, ["--parallel.tp=2", "--parallel.tp_sequence=true", "--parallel.zero=0"])):
            self.use(preset)
            flags = [*self.flags(f"{preset}-{ranks}-{len(layout)}", checkpoints=False), *layout,
                     "--precision.compute=fp32"]
            self.train(*flags, "--train.steps=3", ranks=ranks)
            plan = json.loads(self.plan(*flags, "--json", ranks=ranks).stdout)
            metrics = self.metrics(f"{preset}-{ranks}-{len(layout)}")
            # A step's line counts what was told of the step before: from the second on.
            for step in (2, 3):
                self.assertEqual(plan["bytes_sent"], metrics[step]["bytes_sent"], layout)
                self.assertEqual(plan["tokens"], metrics[step]["tokens"])
            # The same keys for the same things: of tensors, not of the process.
            self.assertEqual(plan["memory_by_kind"].keys(), metrics[3]["memory_by_kind"].keys())
            self.assertEqual(plan["memory_at_peak"], sum(plan["memory_by_kind"].values()))
            self.assertLess(abs(plan["memory_at_peak"] / metrics[3]["memory_at_peak"] - 1), 0.1, layout)
            self.assertNotIn("memory_peak_bytes", plan)

    def test_of_a_pipeline(self):
        flags = [*self.flags(checkpoints=False), "--parallel.pp=2", "--parallel.pp_schedule=zb-h1",
                 "--train.micro_batch=2", "--precision.compute=fp32"]
        self.train(*flags, "--train.steps=3", ranks=2)
        page = self.directory / "plan.html"
        plan = json.loads(self.plan(*flags, "--json", f"--page={page}", ranks=2).stdout)
        for step in (2, 3):
            self.assertEqual(plan["bytes_sent"], self.metrics()[step]["bytes_sent"])
        self.assertEqual(plan["memory_at_peak"], max(stage["memory_at_peak"] for stage in plan["stages"]))
        self.assertEqual([stage["pipeline_rank"] for stage in plan["stages"]], [0, 1])
        text = self.plan(*flags, ranks=2).stdout
        for words in ("pp 2 (zb-h1, layers ", "in flight", f"{100 * plan['bubble_share']:.1f} % of the ranks' time", "W weight gradient"):
            self.assertIn(words, text + page.read_text())
        self.assertIn("zb-h1: 2 ranks", text)
        for words in ("<svg", "zb-h1: 2 ranks", "is bubble", "memory of tensors at the peak"):
            self.assertIn(words, page.read_text())
        self.assertNotIn("http", page.read_text().replace("http-equiv", ""))
        self.plan(*flags, f"--page={self.directory}/none/plan.html", ranks=2, expect=1)
        self.assertIn("--page", subprocess.run([COLOSSAL, "plan", "--help"], capture_output=True, text=True).stdout)
        # An encoder-decoder passes on two streams and the biases of its positions.
        self.use("t5-tiny")
        flags = [*self.flags("t5", checkpoints=False), "--parallel.pp=2", "--train.micro_batch=2", "--precision.compute=fp32"]
        self.train(*flags, "--train.steps=2", ranks=2)
        plan = json.loads(self.plan(*flags, "--json", ranks=2).stdout)
        self.assertEqual(plan["bytes_sent"], self.metrics("t5")[2]["bytes_sent"])
        self.assertLess(abs(plan["memory_at_peak"] / self.metrics("t5")[2]["memory_at_peak"] - 1), 0.1)

    def test_bytes_between_tiers(self):
        flags = [*self.flags(checkpoints=False), "--train.micro_batch=2", "--precision.compute=bf16",
                 "--memory.offload_optimizer={host = 0.5, nvme = 0.5}", "--memory.offload_gradients=nvme",
                 "--memory.offload_activations=host", f"--memory.nvme_path={self.directory}"]
        self.train(*flags, "--train.steps=3")
        plan = json.loads(self.plan(*flags, "--json").stdout)
        for line in self.metrics().values():
            for key in ("host_bytes", "nvme_bytes", "tier_bytes"):
                self.assertEqual(plan[key], line[key], key)
        self.assertEqual(plan["tier_bytes"]["host"]["activations"]["to"],
                         plan["tier_bytes"]["host"]["activations"]["from"])
        text = self.plan(*flags).stdout
        for words in ("on host", "on nvme", "to it a step"):
            self.assertIn(words, text)
        self.assertIn("Memory off the device", (self.directory / "run/report.html").read_text())

    def test_needs_no_corpus(self):
        self.toml.write_text('[model]\npreset = "llama3.1-8b"\n[data]\ntrain = ["none/*.txt"]\n')
        done = self.plan("--parallel.tp=4", "--train.global_batch=128", ranks=512)
        for word in ("activations", "partners", "dp+tp", "512"):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stderr, "")

    def test_holds_no_job_against_this_hosts_memory(self):
        """A thousand ranks here would have some MiB each; where they will run is another machine."""
        self.toml.write_text('[model]\npreset = "gpt2-124m"\n[data]\ntrain = ["none/*.txt"]\n')
        flags = ["--train.global_batch=1024", "--parallel.zero=0", "--precision.compute=bf16"]
        done = self.plan(*flags, "--memory.recompute=auto", "--memory.device_budget=4GiB", ranks=1024)
        self.assertIn('memory.recompute = "auto" is none', done.stdout)
        offload = ["--memory.offload_optimizer=auto", "--memory.device_budget=1GiB"]
        done = self.plan(*flags, *offload, ranks=1024)
        self.assertIn("memory.host_budget is not given: no limit is set", done.stdout)
        done = self.plan(*flags, *offload, "--memory.host_budget=2GiB", ranks=1024)
        self.assertNotIn("no limit is set", done.stdout)
        done = self.plan(*flags, *offload, "--memory.host_budget=100MiB", ranks=1024, expect=2)
        self.assertIn("memory.host_budget = 100MiB", done.stderr)
        done = self.plan(*flags, "--memory.recompute=auto", ranks=1024, expect=2)
        self.assertIn("memory.device_budget", done.stderr)

    def test_as_many_ranks_as_there_are(self):
        """Where every rank would tell every other the order in which it uses its weights."""
        self.toml.write_text('[model]\npreset = "gpt2-124m"\n[data]\ntrain = ["none/*.txt"]\n')
        done = self.plan("--parallel.tp=4", "--parallel.zero=3", "--parallel.zero_group=64", "--json",
                         "--train.global_batch=32768", ranks=131072)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["all_partners"], 131071)
        self.assertEqual(plan["partners"]["dp.shard"], 63)

    def test_refuses_what_train_refuses(self):
        for flags in (["--parallel.tp=3"], ["--parallel.dp=3"], ["--parallel.zero=7"],
                      ["--train.global_batch=13"], ["--data.sequence_length=65"],
                      ["--train.no_such_key=1"], ["--precision.compute=fp7"], ["--model.vocab_size=200"]):
            by_plan = self.plan(*self.model_flags, *flags, ranks=4, expect=2)
            by_train = self.train(*self.model_flags, *flags, ranks=4, expect=2)
            self.assertEqual(by_plan.stdout, "")
            message = by_plan.stderr.split("] ", 1)[-1]
            self.assertIn(message.strip(), by_train)


if __name__ == "__main__":
    unittest.main()
