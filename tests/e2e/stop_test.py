"""A few of the ways to stop a run, and what stays; slow_stop_matrix_test.py has all of them."""
import os
import re
import signal
import subprocess
import time
import unittest

from harness import COLOSSAL
from stopping import STOPPED, StoppingTest


class Stop(StoppingTest):
    def stop_in(self, launcher, phase, how, steps=1000, **kwargs):
        """Returns the run, ended, and its exit code."""
        run = self.start(launcher, self.flags_for(phase, "run", steps), **kwargs)
        self.wait_for_phase(run, phase, "run")
        run.stop(how)
        code = run.wait()
        self.assert_nothing_runs(run)
        return run, code

    def test_a_step_is_finished_and_saved(self):
        run, code = self.stop_in("1 rank", "first step", "SIGTERM")
        self.assertEqual(code, STOPPED, run.text)
        self.assertIn("SIGTERM: finishing the current step, then saving a checkpoint", run.text)
        self.assertRegex(run.text, "stopped after step [0-9]+ of 1,000; to continue the run, use the same command")
        self.assertEqual(max(self.metrics()), self.newest_step("run"))

    def test_what_timeout_sends_is_one_request(self):
        run, code = self.stop_in("2 ranks", "first step", "GNU timeout", timed=True)
        self.assertEqual(code, STOPPED, run.text)
        self.assertEqual(max(self.metrics()), self.newest_step("run"))

    def test_control_c_with_the_output_in_a_pipe(self):
        """tee gets the signal too, and is gone when the ranks write again."""
        command = [str(COLOSSAL), "train", str(self.toml), "--ranks=2",
                   *self.flags_for("later step", "run", 1000)]
        script = 'echo $$ > "$0"; "$@" 2>&1 | tee "$0.log"; exit ${PIPESTATUS[0]}'
        shell = subprocess.Popen(["bash", "-c", "trap : INT; " + script, self.directory / "pid", *command],
                                 stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(shell.kill)
        log = self.directory / "pid.log"
        deadline = time.monotonic() + 60
        while not log.exists() or "training  1/" not in log.read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        os.killpg(shell.pid, signal.SIGINT)
        self.assertEqual(shell.wait(timeout=60), STOPPED)
        self.assertEqual(max(self.metrics()), self.newest_step("run"))

    def test_mpirun_passes_sigusr1_on(self):
        run = self.start("mpirun", self.flags_for("later step", "run", 1000))
        self.wait_for_phase(run, "later step", "run")
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(), STOPPED, run.text)
        self.assertEqual(max(self.metrics()), self.newest_step("run"))

    def test_ranks_that_mpirun_leaves_behind_save_and_end(self):
        run = self.start("mpirun", self.flags_for("later step", "run", 100000))
        self.wait_for_phase(run, "later step", "run")
        run.process.kill()
        run.wait()
        self.assert_nothing_runs(run)
        self.assertEqual(max(self.metrics()), self.newest_step("run"))

    def test_a_lost_pipe_and_a_closed_terminal_end_nothing(self):
        for launcher, how in ("1 rank", "lost pipe"), ("2 ranks", "closed terminal"):
            with self.subTest(how):
                run = self.start(launcher, self.flags_for("first step", launcher),
                                 terminal=how == "closed terminal")
                self.wait_for_phase(run, "first step", launcher)
                run.stop(how)
                self.assertEqual(run.wait(), 0, run.text)
                self.assertEqual(self.newest_step(launcher), 3)

    def test_set_up_ends_at_once(self):
        for launcher in "1 rank", "2 ranks":
            run, code = self.stop_in(launcher, "set-up", "Ctrl-C")
            self.assertEqual(code, STOPPED, run.text)
            self.assertEqual(self.newest_step("run"), 0)

    def test_set_up_of_tuning_ends_at_once(self):
        lines = self.directory / "lines.jsonl"
        lines.write_text('{"prompt": "Two and two? ", "completion": "Four."}\n' * 32)
        run = self.start("1 rank", [*self.flags_for("set-up", "run"), f"--data.train={lines}"], command=("tune", "sft"))
        self.wait_for_phase(run, "set-up", "run")
        run.stop("Ctrl-C")
        self.assertEqual(run.wait(), STOPPED, run.text)

    def test_tokenization_ends_at_once_and_leaves_nothing(self):
        run, code = self.stop_in("1 rank", "tokenization", "SIGTERM")
        self.assertEqual(code, STOPPED, run.text)
        self.assertIn("nothing is lost", run.text)
        self.assertEqual(self.list_folder(self.directory / "run" / "cache"), [])

    def test_a_stop_that_keeps_nothing_is_a_failure(self):
        for launcher in "1 rank", "2 ranks":
            flags = [flag for flag in self.flags_for("first step", "run", 1000) if "checkpoint" not in flag]
            run = self.start(launcher, flags)
            self.wait_for_phase(run, "first step", "run")
            run.stop("SIGTERM")
            self.assertEqual(run.wait(), 1, run.text)
            self.assertIn("nothing will be saved, as checkpoint.directory is empty", run.text)
            self.assertEqual(len(re.findall("error: stopped after step .* nothing was saved", run.text)), 1)

    def test_a_later_second_request_forces(self):
        run = self.start("2 ranks", self.flags_for("first step", "run", 1000) + ["--train.global_batch=3200"])
        self.wait_for_phase(run, "first step", "run")
        run.stop("SIGTERM")
        self.assertEqual(run.process.poll(), None)
        end = time.monotonic() + 2  # more than the second within which requests are one, also on a busy machine
        run.wait_for(lambda: time.monotonic() > end)
        run.stop("Ctrl-C")
        self.assertEqual(run.wait(), 128 + signal.SIGINT, run.text)
        self.assert_nothing_runs(run)

    def test_the_last_evaluation_is_finished(self):
        flags = [*self.flags_for("evaluation", "run", 1)]
        run = self.start("1 rank", flags)
        self.wait_for_phase(run, "evaluation", "run", step_seconds=0.2)
        run.stop("SIGTERM")
        self.assertEqual(run.wait(), 0, run.text)
        self.assertIn("validation_loss", self.metrics()[1])

    def test_an_evaluation_is_broken_off(self):
        run, code = self.stop_in("1 rank", "evaluation", "SIGTERM")
        self.assertEqual(code, STOPPED, run.text)
        self.assertEqual(max(self.metrics()), self.newest_step("run"))


if __name__ == "__main__":
    unittest.main()
