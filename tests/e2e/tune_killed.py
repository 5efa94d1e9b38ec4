"""Kills runs that sample their own completions, and compares what is left with an undisturbed run."""
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import time

from harness import COLOSSAL, EndToEndTest

PROMPTS, BATCH, ENDLESS = 12, 8, 10**6
SAME = ("loss", "grad_norm", "reward", "reward_std", "tokens", "completions/mean_length")


class KilledTuning(EndToEndTest):
    def setUp(self):
        super().setUp()
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"{'p' * (1 + i % 5)}{i}"}) + "\n" for i in range(PROMPTS)))
        self.toml.write_text(f'[model]\npreset = "gpt2-tiny"\n[data]\ntrain = ["{prompts}"]\n')

    def tune(self, name, method, steps, *flags, ranks=2):
        run = self.directory / name
        return subprocess.Popen(
            [COLOSSAL, "tune", method, self.toml, f"--ranks={ranks}", *self.model_flags, "--data.sequence_length=48",
             f"--train.steps={steps}", f"--train.global_batch={BATCH}", "--train.threads=1", "--tune.reward=length,repetition",
             "--tune.max_completion_length=12", "--optimizer.learning_rate=1e-3", "--scheduler.name=constant",
             "--tune.log_completions=true", "--checkpoint.every=1", f"--checkpoint.directory={run / 'checkpoints'}",
             f"--log.directory={run}", "--log.report=false", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, process):
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, errors)

    def ranks_of(self, process):
        """Not the launcher's other child, which ends ranks that are left."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [int(pid) for pid in children
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/proc/self/exe")]

    def kill(self, process, one_rank, draw):
        """A rank, of which the launcher lets the others end, or the launcher, with which they die."""
        ranks = self.ranks_of(process) if one_rank else []
        os.kill(draw.choice(ranks) if ranks else process.pid, signal.SIGKILL)
        process.communicate(timeout=60)

    def newest_step(self, name):
        found = (self.directory / name / "checkpoints").glob("step-*")
        return max((int(step.name.removeprefix("step-")) for step in found), default=0)

    def wait_for_a_step(self, process, name, before):
        while self.newest_step(name) == before:
            self.assertIsNone(process.poll(), "the job has ended")
            time.sleep(0.01)

    def kill_and_compare(self, method, kills, *flags, generations=2):
        """The metrics of a run that was killed `kills` times are those of one that was not, bit for bit."""
        if generations > 1:
            flags = (*flags, f"--tune.num_generations={generations}")
        draw = random.Random(kills)
        for killed in range(kills):
            before = self.newest_step("killed")
            process = self.tune("killed", method, ENDLESS, *flags)
            if killed % 4 < 3:  # else it may not have begun
                self.wait_for_a_step(process, "killed", before)
            time.sleep(draw.uniform(0, 0.3))
            self.kill(process, killed % 3 == 1, draw)
        steps = self.newest_step("killed") + 5
        self.assertGreater(steps, kills // 2)
        for name in "killed", "whole":
            self.finish(self.tune(name, method, steps, *flags))
        whole, found = self.metrics("whole"), self.metrics("killed")
        self.assertEqual(sorted(found), list(range(1, steps + 1)))
        for step, line in whole.items():
            self.assertEqual({name: found[step].get(name) for name in SAME}, {name: line.get(name) for name in SAME})
        self.assert_each_prompt_once("killed", generations)
        print(f"{kills} kills of {method} in {steps} steps")

    def assert_each_prompt_once(self, name, generations):
        """A generation of a step that is repeated is written again: its last lines count."""
        of_step = collections.defaultdict(list)
        with open(self.directory / name / "completions.jsonl") as lines:
            for line in map(json.loads, lines):
                of_step[line["step"]].append(line["position"])
        positions = [position for step in sorted(of_step) for position in of_step[step][-BATCH:]]
        self.assertEqual(positions, [i // generations for i in range(len(positions))])
