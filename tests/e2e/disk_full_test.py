"""A full disk, or one that fails, costs a message: training goes on, older checkpoints are intact."""
import json
import os
import subprocess
import unittest

from harness import COLOSSAL, SHIM, TINY, EndToEndTest


class FailingDisks(EndToEndTest):
    def plan(self, *flags):
        done = subprocess.run([str(COLOSSAL), "plan", str(self.toml), *TINY, *self.model_flags, *flags],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout) if flags else done.stdout

    def check(self, fault, ranks, words):
        self.train(*self.flags("whole"), "--train.steps=6", ranks=ranks)
        self.train(*self.flags("run"), "--train.steps=2", ranks=ranks)
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000004",
                       "COLOSSAL_FAULTS": fault}
        log = self.train(*self.flags("run"), "--train.steps=6", "--checkpoint.every=2", ranks=ranks,
                         env=environment)
        self.assertIn("checkpoint of step 4 failed, older ones are intact", log)
        self.assertIn(words, log)
        self.assertEqual(self.losses("run"), self.losses("whole"))
        self.assert_same_weights(self.newest("run"), self.newest("whole"))
        names = sorted(os.listdir(self.directory / "run" / "checkpoints"))
        self.assertEqual(names, ["step-000002", "step-000006"])

    def test_no_space_for_the_files(self):
        self.check("resize:1+=ENOSPC", 2, "No space left")

    def test_no_space_while_writing(self):
        self.check("write:3+=ENOSPC", 1, "No space left")

    def test_input_output_error_of_a_sync(self):
        self.check("fsync:2=EIO", 2, "Input/output error")

    def test_a_rename_that_fails(self):
        self.check("rename:1+=EIO", 1, "Input/output error")

    def test_a_really_full_file_system(self):
        """A file system of 1 MiB in memory, which a few checkpoints fill."""
        full = self.mount_small("full", "1m")
        log = self.train(*self.flags("run", checkpoints=False), "--train.steps=6",
                         "--checkpoint.every=1", f"--checkpoint.directory={full}",
                         "--checkpoint.keep=100", ranks=2, expect=1)
        self.assertRegex(log, r"but the run will need [^;]*: a checkpoint takes .*checkpoint.keep = 100")
        self.assertRegex(log, r"checkpoint of step \d+ failed, older ones are intact")
        self.assertEqual(len(self.losses("run")), 6)
        log = self.train(*self.flags("again", checkpoints=False), "--train.steps=6",
                         f"--checkpoint.directory={full}", "--checkpoint.resume=must", ranks=2, expect=1)
        self.assertRegex(log, r"has .* of free space on host .*, and a checkpoint takes")

    def test_a_disk_without_room_for_a_checkpoint_is_refused_before_the_first_step(self):
        small = self.mount_small("small", "64k")
        log = self.train(*self.flags("run", checkpoints=False), "--train.steps=6",
                         f"--checkpoint.directory={small}", ranks=2, expect=1)
        self.assertRegex(log, r'checkpoint.directory = ".*small" has 6.*KiB of free space')
        self.assertFalse((self.directory / "run" / "metrics.jsonl").exists() and self.losses("run"))
        # What is predicted is what a checkpoint takes.
        self.train(*self.flags("saved"), "--train.steps=1")
        plan = self.plan("--json")
        files = sum(path.stat().st_size for path in self.newest("saved").glob("**/*.safetensors"))
        self.assertEqual(plan["checkpoint_bytes"], files)
        self.assertIn("a checkpoint takes", self.plan())


if __name__ == "__main__":
    unittest.main()
