"""Nothing lost: a random walk of runs in one folder, against a model of what must be there.

Runs start with any settings that a run may change, end by any means, and find their checkpoints
damaged; others try to use their folder. After each step of the walk: no whole checkpoint is gone but
by checkpoint.keep, nothing damaged is gone at all, and each run went on from the newest whole
checkpoint, its losses those of an undisturbed run.

    slow_random_walk_test.py [--seed=N] [--count=RUNS]
"""
import argparse
import collections
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from harness import EndToEndTest

ARGUMENTS = argparse.Namespace(seed=1, count=200)

# A step takes some milliseconds. In fp64, the losses of all layouts agree far within TOLERANCE, where
# those of neighbouring steps do not.
MODEL = ["--model.n_layer=1", "--model.n_embd=16", "--model.n_head=2", "--model.vocab_size=257",
         "--model.n_positions=16", "--data.sequence_length=16", "--train.global_batch=4",
         "--scheduler.name=constant", "--optimizer.learning_rate=1e-3", "--precision.compute=fp64",
         "--train.threads=1", "--log.report=false"]
LAYOUTS = [(1, []), (1, ["--memory.recompute=full"]), (2, []), (2, ["--parallel.zero=3"]),
           (2, ["--parallel.tp=2"]), (2, ["--parallel.sp=2"])]
TOLERANCE = 1e-7
REFERENCE_STEPS = 4000
LONGEST_WALK = 3000  # steps of a run, after which the walk begins another one
ENDLESS = 10**6

CHECKPOINT = re.compile(r"step-(\d{6,})$")
ASIDE = re.compile(r"(step-\d{6,})\.aside(-\d+)?$")


def tree_hash(folder):
    tree = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        tree.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_file():
            tree.update(path.read_bytes())
    return tree.hexdigest()


class Outcome:
    def __init__(self, code, log, steps, orderly):
        self.code, self.log = code, log
        self.steps = steps      # of this run, in order: (step, loss)
        self.orderly = orderly  # it was to end by itself, after a save


class RandomWalk(EndToEndTest):
    def setUp(self):
        super().setUp()
        # What runs in the background of a shell's script ignores SIGINT, and so would what it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.model_flags = MODEL
        self.random = random.Random(ARGUMENTS.seed)
        self.folder = self.directory / "checkpoints"
        self.folder.mkdir()
        self.counts = collections.Counter()
        self.beginnings = 0
        self.forget()

    def forget(self):
        """Begins a run anew, in an empty folder."""
        for path in self.folder.iterdir():
            if path.name.startswith("step-"):
                shutil.rmtree(path)
        self.whole = {}    # step -> hash: this run's
        self.damaged = {}  # name -> hash
        self.aside = {}    # the same
        self.run_id = None

    def flags_of(self, log, *flags):
        return [*self.model_flags, f"--checkpoint.directory={self.folder}",
                f"--log.directory={self.directory / log}", *flags]

    # What is there.

    def listing(self):
        return {path.name: tree_hash(path) for path in self.folder.iterdir()
                if CHECKPOINT.match(path.name) or ASIDE.match(path.name)}

    def newest_whole(self):
        return max(self.whole, default=0)

    def state_of(self, step):
        path = self.folder / f"step-{step:06}" / "training_state" / "state.json"
        return json.loads(path.read_text())

    def wait_until_free(self):
        """Ranks of a launcher that was killed die a moment later."""
        try:
            with open(self.folder / ".colossal.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        except FileNotFoundError:
            pass

    # Runs.

    def run_once(self, settings, ending, meanwhile=None):
        """`ending`: the signals that are sent, to whom and how long after the first step."""
        ranks, layout = self.random.choice(LAYOUTS)
        if not self.whole:  # a run that begins puts the metrics of another one aside
            self.beginnings += 1
        log = self.random.choice([f"log-{self.beginnings}", f"other-log-{self.beginnings}"])
        metrics = self.directory / log / "metrics.jsonl"
        lines_before = metrics.read_text().count("\n") if metrics.exists() else 0
        self.said = f"{ranks} ranks {layout} {settings} {ending}"
        output = self.directory / "output"
        with open(output, "w") as file:
            process = subprocess.Popen(self.command(*self.flags_of(log, *layout, *settings), ranks=ranks),
                                       stdout=file, stderr=file, start_new_session=True)
        try:
            if meanwhile:
                self.wait_for_a_line(process, metrics, lines_before)
                meanwhile(process)
            for wait_for_step, delay, number, whole_group in ending:
                if wait_for_step:
                    self.wait_for_a_line(process, metrics, lines_before)
                time.sleep(delay)
                if process.poll() is None:
                    (os.killpg if whole_group else os.kill)(process.pid, number)
            process.wait(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.wait_until_free()
        lines = metrics.read_text().splitlines()[lines_before:] if metrics.exists() else []
        steps = [(line["step"], line["loss"]) for line in map(json.loads, lines)]
        orderly = len(ending) == 0 or (len(ending) == 1 and ending[0][2] != signal.SIGKILL)
        return Outcome(process.returncode, output.read_text(), steps, orderly)

    def wait_for_a_line(self, process, metrics, lines_before):
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if metrics.exists() and metrics.read_text().count("\n") > lines_before:
                return
            time.sleep(0.005)

    def random_ending(self):
        """How an endless run ends: once or twice asked, or killed."""
        after_a_step = self.random.random() < 0.8
        delay = self.random.uniform(0, 0.3 if after_a_step else 1.0)
        asked = self.random.choice([signal.SIGINT, signal.SIGTERM])
        kind = self.random.choice(["asked", "asked", "twice", "killed", "group killed"])
        self.counts[kind] += 1
        if kind == "asked":
            return [(after_a_step, delay, asked, False)]
        if kind == "twice":
            return [(after_a_step, delay, asked, False), (False, self.random.uniform(0, 1.5), asked, False)]
        return [(after_a_step, delay, signal.SIGKILL, kind == "group killed")]

    # What must be so afterwards.

    def check_refused(self, before, outcome, code, words):
        self.assertEqual(outcome.code, code, outcome.log)
        self.assertIn(words, outcome.log)
        self.assertEqual(outcome.steps, [])
        self.assertEqual(self.listing(), before, outcome.log)

    def check_losses(self, start, outcome):
        numbers = [step for step, _ in outcome.steps]
        self.assertEqual(numbers, list(range(start + 1, start + 1 + len(numbers))), outcome.log)
        for step, loss in outcome.steps:
            if step in self.reference:
                self.assertAlmostEqual(loss / self.reference[step], 1, delta=TOLERANCE,
                                       msg=f"loss of step {step}, from {start}: {outcome.log}")

    def check_damaged(self, listing):
        """None is gone: each has its name, or one beside it. An empty folder may be saved over."""
        empty = hashlib.sha256().hexdigest()
        for name, found in self.aside.items():
            self.assertEqual(listing.get(name), found, name)
        for name, found in list(self.damaged.items()):
            if listing.get(name) == found:
                continue
            del self.damaged[name]
            if found == empty:
                continue
            moved = [other for other, content in listing.items()
                     if content == found and other not in self.aside and other.startswith(name + ".aside")]
            self.assertEqual(len(moved), 1, f"{name} was damaged and is gone: {sorted(listing)}")
            self.aside[moved[0]] = found

    def check_saved(self, start, every, keep, outcome, end=None):
        """end: the last step, where it is known."""
        listing = self.listing()
        self.check_damaged(listing)
        there = {int(CHECKPOINT.match(name)[1]): found for name, found in listing.items()
                 if CHECKPOINT.match(name) and name not in self.damaged}
        new = {step: found for step, found in there.items() if self.whole.get(step) != found}
        self.assertFalse(new.keys() & self.whole.keys(), "a whole checkpoint was replaced")
        if outcome.orderly and outcome.steps:  # else it was asked to stop while it was being set up
            self.assertIn(outcome.code, (0, 75), outcome.log)
            self.assertEqual(max(there), outcome.steps[-1][0], outcome.log)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])
        if end is not None:
            self.assertEqual((outcome.code, max(there)), (0, end), outcome.log)
        if not new:
            self.assertEqual(there, self.whole)
            return
        last = max(new)
        saved = {step for step in range(start + 1, last) if every and step % every == 0} | {last}
        self.assertLessEqual(new.keys(), saved)
        kept = set(sorted(self.whole.keys() | saved)[-keep:])
        self.assertLessEqual(kept, there.keys(), f"of {sorted(self.whole)} and {sorted(saved)}")
        if outcome.orderly:
            self.assertEqual(kept, there.keys())
        for step in new:
            state = self.state_of(step)
            self.assertEqual(state["step"], step)
            self.run_id = self.run_id or state["run"]
            self.assertEqual(state["run"], self.run_id)
        self.whole = there

    # Steps of the walk.

    def go_on(self):
        """Whatever the settings that may change, from the newest whole checkpoint or not at all."""
        start, before = self.newest_whole(), self.listing()
        every, keep = self.random.choice([0, 1, 2, 3, 7, 50]), self.random.choice([1, 1, 2, 3, 5])
        resume = self.random.choice(["auto"] * 8 + ["must", "never"])
        settings = [f"--checkpoint.every={every}", f"--checkpoint.keep={keep}", f"--checkpoint.resume={resume}"]
        held = bool(self.whole or self.damaged)
        if resume == "never" and held:
            self.check_refused(before, self.run_once([*settings, "--train.steps=9"], []), 2, "another run")
        elif held and not self.whole:
            self.check_refused(before, self.run_once([*settings, "--train.steps=9"], []), 1,
                               "no checkpoint is whole")
            self.forget()
        elif resume == "must" and not held:
            self.check_refused(before, self.run_once([*settings, "--train.steps=9"], []), 2,
                               "no whole checkpoint")
        elif start > 0 and self.random.random() < 0.08:
            steps = self.random.randint(1, start)
            outcome = self.run_once([*settings, f"--train.steps={steps}"], [])
            self.assertIn("nothing to do", outcome.log)
            self.assertEqual((outcome.code, outcome.steps, self.listing()), (0, [], before))
        elif self.random.random() < 0.35:
            end = start + self.random.randint(1, 20)
            outcome = self.run_once([*settings, f"--train.steps={end}"], [])
            self.check_losses(start, outcome)
            self.check_saved(start, every, keep, outcome, end)
            self.counts["to its end"] += 1
        else:
            outcome = self.run_once([*settings, f"--train.steps={ENDLESS}"], self.random_ending())
            self.check_losses(start, outcome)
            self.check_saved(start, every, keep, outcome)

    def damage(self):
        """One whole checkpoint, in one of several ways; sooner the newest than an older one."""
        if not self.whole:
            return
        step = self.newest_whole() if self.random.random() < 0.7 else self.random.choice(sorted(self.whole))
        folder = self.folder / f"step-{step:06}"
        path = self.random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        size = path.stat().st_size
        kind = self.random.choice(["flip", "cut", "delete", "no manifest", "emptied"])
        if kind == "flip":
            with open(path, "r+b") as file:
                position = self.random.randrange(size)
                file.seek(position)
                byte = file.read(1)[0]
                file.seek(position)
                file.write(bytes([byte ^ 1 << self.random.randrange(8)]))
        elif kind == "cut":
            os.truncate(path, self.random.randrange(size))
        elif kind == "delete":
            path.unlink()
        elif kind == "no manifest":
            (folder / "manifest.json").unlink()
        else:
            shutil.rmtree(folder)
            folder.mkdir()
        self.said = f"{kind} {path}"
        del self.whole[step]
        self.damaged[folder.name] = tree_hash(folder)
        self.counts[f"damaged: {kind}"] += 1

    def add_empty_folder(self):
        """As a broken copy leaves one, of a step that no run has reached."""
        name = f"step-{self.newest_whole() + self.random.choice([1, 5, 10**6]):06}"
        if not (self.folder / name).exists():
            (self.folder / name).mkdir()
            self.damaged[name] = tree_hash(self.folder / name)

    def another_run_beside(self):
        """While a run is under way, another one in its folder is refused, and the run does not notice."""
        if not self.whole:
            return
        start = self.newest_whole()

        def refused(process):
            if process.poll() is None:
                flags = self.flags_of("third-log", "--train.steps=3", "--train.seed=7",
                                      f"--checkpoint.resume={self.random.choice(['auto', 'never'])}")
                log = self.train(*flags, ranks=self.random.choice([1, 2]), expect=2)
                self.assertIn(f"{self.folder} is in use by process", log)

        outcome = self.run_once(["--checkpoint.every=20", f"--train.steps={ENDLESS}"],
                                [(False, 0, signal.SIGTERM, False)], meanwhile=refused)
        self.check_losses(start, outcome)
        self.check_saved(start, 20, 2, outcome)

    def another_runs_checkpoint(self):
        """Copied into the folder: whatever its step, no run goes on there until it is gone."""
        if not self.whole:
            return
        step = self.random.choice([1, self.newest_whole() + 1, 10**6])
        copy = self.folder / f"step-{step:06}"
        if copy.exists():
            return
        shutil.copytree(self.foreign, copy)
        before = self.listing()
        outcome = self.run_once([f"--train.steps={ENDLESS}"], [])
        self.check_refused(before, outcome, 2, "checkpoints of 2 runs")
        shutil.rmtree(copy)

    def test_a_walk(self):
        self.train(*self.model_flags, f"--train.steps={REFERENCE_STEPS}",
                   f"--log.directory={self.directory / 'reference'}", timeout=600)
        self.reference = self.losses("reference")
        self.train(*self.model_flags, "--train.steps=3", "--train.seed=7",
                   f"--checkpoint.directory={self.directory / 'foreign'}")
        self.foreign = self.directory / "foreign" / "step-000003"
        moves = [self.go_on] * 10 + [self.damage] * 3 + [self.add_empty_folder] + \
            [self.another_run_beside] + [self.another_runs_checkpoint]
        while self.counts["runs"] < ARGUMENTS.count:
            move = self.random.choice(moves)
            self.said = ""
            try:
                move()
            except BaseException:
                print(f"seed {ARGUMENTS.seed}, after {dict(self.counts)}, in {move.__name__}: {self.said}\n"
                      f"whole {sorted(self.whole)}, damaged {sorted(self.damaged)}, aside {sorted(self.aside)}, "
                      f"there {sorted(os.listdir(self.folder))}", file=sys.stderr)
                raise
            self.counts[move.__name__] += 1
            self.counts["runs"] += move not in (self.damage, self.add_empty_folder)
            if self.newest_whole() > LONGEST_WALK:
                self.forget()
        print(", ".join(f"{count} {name}" for name, count in sorted(self.counts.items())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=ARGUMENTS.seed)
    parser.add_argument("--count", type=int, default=ARGUMENTS.count)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
