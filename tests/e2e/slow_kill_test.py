"""Nothing lost: whenever the job is killed, a whole checkpoint is there, and the run goes on to the
losses of an undisturbed one."""
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import SHIM, EndToEndTest

KILLS = 50
ENDLESS = 10**6


class KilledJobs(EndToEndTest):
    def start(self, *flags, ranks):
        return subprocess.Popen(self.command(*flags, ranks=ranks), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def wait_for_a_save(self, checkpoints, process):
        """Until a temporary directory stands beside the checkpoints; False when the job ended."""
        while process.poll() is None:
            if any(name.startswith(".step-") for name in os.listdir(checkpoints)):
                return True
        return False

    def kill(self, process):
        """The whole job at once: the ranks die with their launcher."""
        process.send_signal(signal.SIGKILL)
        process.wait()

    def test_kill_9_of_the_whole_job(self):
        generator = random.Random(1)
        self.model_flags = [*self.model_flags, "--scheduler.name=constant"]  # whatever the steps
        flags = [*self.flags("killed"), "--checkpoint.every=1"]
        checkpoints = self.directory / "killed" / "checkpoints"
        checkpoints.mkdir(parents=True)
        inside = kills = 0
        while kills < KILLS or inside < KILLS // 2:
            process = self.start(*flags, f"--train.steps={ENDLESS}", ranks=2)
            in_save = kills % 2 == 0 or inside < kills // 2
            if in_save and self.wait_for_a_save(checkpoints, process):
                time.sleep(generator.uniform(0, 0.005))  # a save takes some 15 ms
                inside += any(name.startswith(".step-") for name in os.listdir(checkpoints))
            else:
                time.sleep(generator.uniform(0.3, 1.5))
            self.assertIsNone(process.poll(), f"the job ended before kill {kills}")
            self.kill(process)
            kills += 1
        steps = int(self.newest("killed").name.removeprefix("step-")) + 5
        self.train(*flags, f"--train.steps={steps}", ranks=2)
        self.train(*self.flags("whole", checkpoints=False), f"--train.steps={steps}", ranks=2, timeout=300)
        self.assertEqual(self.losses("killed"), self.losses("whole"))
        self.assertFalse([name for name in os.listdir(checkpoints) if name.startswith(".")])
        print(f"{kills} kills, {inside} of them inside a save")

    def test_kill_at_every_named_point_of_a_save(self):
        """Before, within and after each open, write, sync, rename and removal of a save."""
        self.train(*self.flags("whole"), "--train.steps=3", "--checkpoint.every=1", "--checkpoint.keep=1")
        self.train(*self.flags("start"), "--train.steps=1", "--checkpoint.keep=1")
        points = self.run_with_fault("count", "any:1000000=kill", log=True)
        self.assertGreater(len(points), 20)
        for point, call in enumerate(points, 1):
            for when in ("before", "half", "after") if call.startswith("write") else ("before", "after"):
                name = f"point-{point}-{when}"
                self.run_with_fault(name, f"any:{point}:{when}=kill")
                self.train(*self.flags(name), "--train.steps=3", "--checkpoint.every=1",
                           "--checkpoint.keep=1")
                self.assertEqual(self.losses(name), self.losses("whole"), name)
                self.assert_same_weights(self.newest(name), self.newest("whole"))
                shutil.rmtree(self.directory / name)
        print(f"killed at {len(points)} points, before, within and after each")

    def run_with_fault(self, name, fault, log=False):
        """Goes on from step 1 to 3, saving each step, under the fault; returns the calls on step 2's save."""
        shutil.copytree(self.directory / "start", self.directory / name)
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000002",
                       "COLOSSAL_FAULTS": fault}
        log_file = self.directory / f"{name}.log"
        if log:
            environment["COLOSSAL_FAULT_LOG"] = str(log_file)
        done = subprocess.run(self.command(*self.flags(name), "--train.steps=3", "--checkpoint.every=1",
                                           "--checkpoint.keep=1"), env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, 0 if log else -signal.SIGKILL)
        return log_file.read_text().splitlines() if log else []


if __name__ == "__main__":
    unittest.main()
