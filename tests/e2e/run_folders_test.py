"""Nothing lost: a run's folders are its own, are proven before its first step, and keep what it saved."""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import torch
from safetensors.torch import load_file, save_file

from harness import SHIM, EndToEndTest


def heed_permissions():
    """Root may write anywhere but without this capability (CAP_DAC_OVERRIDE, of a program started next)."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


class RunFoldersTest(EndToEndTest):
    def checkpoints(self, name="run"):
        return self.directory / name / "checkpoints"

    def steps(self, name="run"):
        return sorted(int(path.name[5:]) for path in self.checkpoints(name).glob("step-??????"))

    def damage(self, step, name="run"):
        path = self.checkpoints(name) / f"step-{step:06}" / "training_state" / "optimizer.safetensors"
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))

    def run_of(self, step, name="run"):
        path = self.checkpoints(name) / f"step-{step:06}" / "training_state" / "state.json"
        return json.loads(path.read_text())["run"]


class Keeping(RunFoldersTest):
    def test_another_run_is_refused(self):
        self.train(*self.flags(), "--train.steps=4", "--checkpoint.every=2")
        log = self.train(*self.flags(), "--train.steps=1", "--checkpoint.resume=never", ranks=2, expect=2)
        self.assertIn("step-000002, step-000004", log)
        self.assertIn("another checkpoint.directory", log)
        self.assertEqual(self.steps(), [2, 4])

    def test_damaged_ones_do_not_count_and_nothing_whole_goes(self):
        self.train(*self.flags(), "--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=3")
        run = self.run_of(2)
        self.damage(4)
        self.damage(6)
        log = self.train(*self.flags(), "--train.steps=4", "--checkpoint.every=1", ranks=2)
        self.assertIn("step-000006 is damaged and skipped", log)
        self.assertIn("resumed from", log)
        # 4 was saved over its damaged self, which stays beside it; the damaged 6 stays where it is.
        self.assertEqual(self.steps(), [3, 4, 6])
        self.assertTrue((self.checkpoints() / "step-000004.aside").is_dir())
        self.assertEqual(self.run_of(4), run)
        self.train(*self.flags("whole"), "--train.steps=4", "--checkpoint.every=1", ranks=2)
        log = self.train(*self.flags(), "--train.steps=5")
        self.assertIn("step-000004 at step 4", log)
        self.assertEqual(self.steps(), [4, 5, 6])

    def test_where_none_is_whole_it_does_not_begin_anew(self):
        self.train(*self.flags(), "--train.steps=2", "--checkpoint.every=1")
        self.damage(1)
        self.damage(2)
        log = self.train(*self.flags(), "--train.steps=4", ranks=2, expect=1)
        self.assertIn("no checkpoint is whole (step-000001, step-000002", log)
        self.assertEqual(log.count("error:"), 1)
        self.assertEqual(sorted(self.losses()), [1, 2])

    def test_checkpoints_with_other_names_are_told(self):
        self.train(*self.flags(), "--train.steps=3")
        folder = self.checkpoints()
        (folder / "step-000003").rename(folder / "best")
        for resume in ("auto", "must"):
            log = self.train(*self.flags(), "--train.steps=5", f"--checkpoint.resume={resume}", expect=2)
            self.assertIn(f"{folder} holds the checkpoint best", log)
            self.assertIn("step-000003", log)
        self.train(*self.flags(), "--train.steps=1", "--checkpoint.resume=never")
        log = self.train(*self.flags(), "--train.steps=2")
        self.assertIn("runs neither use nor remove it", log)
        self.assertEqual(self.steps(), [1, 2])
        # Two runs in one folder are refused for that; a checkpoint of this run for its other step.
        shutil.copytree(folder / "step-000002", folder / "step-000500")
        log = self.train(*self.flags(), "--train.steps=5", expect=2)
        self.assertIn("step-000500 is the checkpoint of step 2, not of step 500", log)
        self.assertEqual(self.steps(), [1, 2, 500])
        shutil.rmtree(folder / "best")
        shutil.move(folder / "step-000500", folder.parent / "step-000500")
        self.train(*self.flags(), "--train.steps=3")
        self.assertEqual(self.steps(), [2, 3])

    def test_steps_that_are_done_already(self):
        self.train(*self.flags(), "--train.steps=3")
        log = self.train(*self.flags(), "--train.steps=2", ranks=2)
        self.assertRegex(log, "nothing to do: .*step-000003 has 3 steps already, and train.steps = 2")
        self.assertNotIn("%  ", log)
        self.assertEqual(self.steps(), [3])

    def test_a_run_that_keeps_nothing_says_so(self):
        log = self.train(*self.flags(checkpoints=False), "--train.steps=1", ranks=2)
        self.assertEqual(log.count("warning: checkpoint.directory is empty"), 1)

    def test_a_failed_save_is_told_once(self):
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000001",
                       "COLOSSAL_FAULTS": "fsync:1+=EIO"}
        log = self.train(*self.flags(), "--train.steps=2", "--checkpoint.every=1", ranks=2,
                         env=environment)
        self.assertEqual(log.count("checkpoint of step 1 failed"), 1)

    def test_numbers_that_are_not_finite_are_not_trained_on(self):
        self.train(*self.flags("base"), "--train.steps=1", "--precision.compute=fp32")
        model = self.directory / "model"
        shutil.copytree(self.newest("base"), model)
        shutil.rmtree(model / "training_state")
        file = model / "model-00001-of-00001.safetensors"
        weights = load_file(file)
        weights["transformer.h.1.mlp.c_fc.bias"][3] = torch.nan
        save_file(weights, file, {"format": "pt"})
        self.use_folder(model)
        log = self.train(*self.flags(), "--train.steps=3", ranks=2, expect=1)
        self.assertIn("transformer.h.1.mlp.c_fc.bias", log)
        self.assertIn("not finite", log)
        self.assertEqual(self.steps(), [])

    def test_a_state_that_is_not_finite_is_not_saved(self):
        """The first update makes weights infinite, in a run that saves each step."""
        log = self.train(*self.flags(), "--train.steps=5", "--checkpoint.every=1", "--train.gradient_clip=0",
                         "--optimizer.learning_rate=1e300", "--optimizer.weight_decay=0", ranks=2, expect=1)
        self.assertRegex(log, "checkpoint of step 1 failed.* holds numbers that are not finite")
        self.assertRegex(log, r"step 2: .*not finite")
        self.assertEqual(self.steps(), [])


class Locks(RunFoldersTest):
    def start(self, name, *flags):
        running = subprocess.Popen(self.command(*self.flags(name), "--train.steps=1000000", *flags),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        deadline = time.monotonic() + 60
        while not (self.directory / name / "metrics.jsonl").exists():
            self.assertIsNone(running.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        return running

    def test_a_second_run_in_a_folder_is_refused(self):
        running = self.start("run")
        log = self.train(*self.flags(), "--train.steps=1", ranks=2, expect=2)
        self.assertIn("checkpoint.directory", log)
        self.assertIn(f"in use by process {running.pid} on host {socket.gethostname()}", log)
        self.assertEqual(log.count("error:"), 1)
        log = self.train(*self.flags(checkpoints=False), "--train.steps=1", expect=2)
        self.assertIn("log.directory", log)
        # What was killed holds nothing.
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.train(*self.flags(), "--train.steps=1")
        self.assertEqual([path.name for path in self.checkpoints().iterdir()], ["step-000001"])

    def test_one_folder_for_both(self):
        self.train(*self.flags(checkpoints=False), f"--checkpoint.directory={self.directory}/run/.",
                   "--train.steps=1", ranks=2)
        self.assertTrue((self.directory / "run" / "step-000001").is_dir())
        self.assertFalse(list((self.directory / "run").glob(".*")))


class Proofs(RunFoldersTest):
    def refuse(self, *flags, **kwargs):
        """It ends before its first step, and says why once."""
        log = self.train(*self.flags(checkpoints=False), "--train.steps=3", *flags, ranks=2, expect=1,
                         **kwargs)
        self.assertEqual(log.count("error:"), 1, log)
        self.assertNotIn("/3 steps", log)
        return log

    def test_folders_that_cannot_be_written(self):
        (self.directory / "run").mkdir()
        os.chmod(self.directory, 0o555)
        self.addCleanup(os.chmod, self.directory, 0o755)
        for key, more in (("checkpoint.directory", []), ("data.cache", []), ("log.directory", []),
                          ("memory.nvme_path", ["--memory.offload_optimizer=nvme"])):
            with self.subTest(key):
                log = self.refuse(f"--{key}={self.directory}/closed", *more, preexec_fn=heed_permissions)
                self.assertIn(f'{key} = "{self.directory}/closed" cannot be written', log)
                self.assertIn("Permission denied", log)
                self.assertFalse((self.directory / "closed").exists())

    def test_a_folder_that_hosts_do_not_share(self):
        """Rank 1 has a file system of its own in that place."""
        self.need_root("mounts a file system")
        folder = self.directory / "apart"
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        flags = [*self.flags(checkpoints=False), f"--checkpoint.directory={folder}", "--train.steps=2"]
        command = [flag for flag in self.command(*flags) if not flag.startswith("--ranks")]
        ranks = []
        for rank in range(2):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            apart = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs tmpfs "{folder}" && exec "$@"', "sh"]
            ranks.append(subprocess.Popen([*(apart if rank == 1 else []), *command], env=environment,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for rank in ranks:
            log = rank.communicate(timeout=60)[0]
            self.assertEqual(rank.returncode, 1, log)
            self.assertIn("all hosts must share", log)
            self.assertIn("rank 1: checkpoint.directory", log)
        self.assertEqual(list(folder.iterdir()), [])


class Logs(RunFoldersTest):
    def test_a_torn_line_of_the_metrics(self):
        self.train(*self.flags(), "--train.steps=2")
        path = self.directory / "run" / "metrics.jsonl"
        with open(path, "a") as file:
            file.write('{"step": 3, "lo')
        self.train(*self.flags(), "--train.steps=4")
        self.assertEqual([json.loads(line)["step"] for line in path.read_text().splitlines()], [1, 2, 3, 4])
        path.write_text(path.read_text().removesuffix("\n"))
        self.train(*self.flags(), "--train.steps=5")
        self.assertEqual([json.loads(line)["step"] for line in path.read_text().splitlines()], [1, 2, 3, 4, 5])

    def test_a_profile_that_finds_no_space(self):
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "trace-rank",
                       "COLOSSAL_FAULTS": "write:1+=ENOSPC"}
        log = self.train(*self.flags(checkpoints=False), "--train.steps=6", "--log.profile=2", ranks=2,
                         env=environment)
        self.assertIn("training continues, but its profile is lost", log)
        self.assertIn("No space left", log)
        self.assertEqual(len(self.losses()), 6)


if __name__ == "__main__":
    unittest.main()
