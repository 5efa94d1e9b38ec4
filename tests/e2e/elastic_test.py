"""Elastic runs: ranks and hosts that die, join and leave, and the same numbers all the while."""
import os
import re
import signal
import time
import unittest

from elastic import ElasticTest
from harness import COLOSSAL

MANY = 60  # steps, so that a run does not end before a change


class Elastic(ElasticTest):
    def test_a_killed_rank_is_started_again_with_the_same_bits(self):
        self.train(*self.flags_of("whole", 8), ranks=2)
        run = self.start_elastic("run", 8)
        self.wait_for_step(run, "run", 3)
        self.kill_rank(run, 1)
        log = self.finish(run)
        self.assertRegex(log, "rank 1 .* was killed by signal 9")
        self.assertIn("starting again on 2 ranks: restart 1 of at most 3 without progress", log)
        self.assertEqual(self.losses("whole"), self.losses("run"))
        self.assert_same_weights(self.newest("whole"), self.newest("run"))

    def test_other_numbers_of_ranks_while_it_trains(self):
        """checkpoint.resume = "never" is about the start of the command, not about its restarts."""
        self.train(*self.flags_of("whole", MANY), ranks=1)
        run = self.start_elastic("run", MANY, "--checkpoint.resume=never", ranks=2)
        for step, ranks in (2, 3), (10, 1), (20, 2):
            self.wait_for_step(run, "run", step)
            self.assertIn(f"the run continues on {ranks} rank", self.resize("run", ranks))
        log = self.finish(run)
        self.assertIn("the job continues on 1 rank", log)
        self.assertNotIn("use the same command", log)
        self.assert_same_training("whole", "run")
        self.assertFalse((self.directory / "run/checkpoints/elastic").exists())

    def test_a_rank_that_keeps_dying_costs_ranks_not_the_run(self):
        self.train(*self.flags_of("whole", 6), ranks=1)
        run = self.start_elastic("run", 6, "--checkpoint.every=4", ranks=3, min_ranks=2)
        self.wait_for_step(run, "run", 1)
        self.kill_rank(run, 2)
        self.wait_until(lambda: "restart 1 of at most 3" in run.log.read_text(), run)
        self.wait_until(lambda: 2 in self.ranks_of(run), run)
        self.kill_rank(run, 2)
        log = self.finish(run)
        self.assertIn("starting again on 2 ranks: restart 2 of at most 3", log)
        self.assert_same_training("whole", "run")

    def test_checkpoints_in_memory_save_steps_and_leave_nothing(self):
        self.train(*self.flags_of("whole", 8), ranks=2)
        run = self.start_elastic("run", 8, "--checkpoint.every=0", "--checkpoint.memory_every=1")
        self.wait_for_step(run, "run", 4)
        self.kill_rank(run, 0)
        log = self.finish(run)
        resumed = re.search(r"resumed from (/dev/shm/colossal-elastic-\w+)/step-(\d+) at step", log)
        self.assertTrue(resumed, log)
        self.assertGreaterEqual(int(resumed[2]), 2)
        self.assertFalse(os.path.exists(resumed[1]))
        self.assertEqual(self.losses("whole"), self.losses("run"))
        self.assert_same_weights(self.newest("whole"), self.newest("run"))

    def test_what_is_in_memory_only_is_saved_at_a_stop(self):
        run = self.start_elastic("run", 1000, "--checkpoint.every=0", "--checkpoint.memory_every=1")
        self.wait_for_step(run, "run", 4)
        self.kill_rank(run, 0)
        self.wait_until(lambda: "starting again" in run.log.read_text(), run)
        run.send_signal(signal.SIGTERM)
        log = self.finish(run, expect=75)
        self.assertGreaterEqual(int(self.newest().name[5:]), 2, log)
        self.train(*self.flags_of("run", 6), ranks=2)  # goes on from there
        self.assertEqual(sorted(self.losses("run")), list(range(1, max(6, self.step("run")) + 1)))

    def test_a_killed_launcher_leaves_nothing_in_memory(self):
        run = self.start_elastic("run", 100, "--checkpoint.memory_every=1")
        self.wait_for_step(run, "run", 2)
        folder = self.memory_folder_of(run)
        self.assertTrue(folder.exists())
        run.kill()
        run.wait()
        deadline = time.monotonic() + 10
        while folder.exists() or self.ranks_of(run):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_a_layout_that_does_not_fit_is_refused_and_the_run_goes_on(self):
        run = self.start_elastic("run", 100, "--parallel.tp=2", ranks=2)
        self.wait_for_step(run, "run", 1)
        error = self.resize("run", 3, expect=2)
        self.assertIn("3 ranks", error)
        self.assertIn("parallel.tp", error)
        before = self.step("run")
        self.wait_for_step(run, "run", before + 2)
        run.send_signal(signal.SIGTERM)
        log = self.finish(run, expect=75)
        self.assertIn("the job stays on 2 ranks", log)
        self.assertIn("to continue the job, use the same command", log)
        self.assertEqual(self.step("run"), int(self.newest().name[5:]))

    def test_what_is_asked_wrongly_is_named(self):
        log = self.train("--min-ranks=1", *[f for f in self.flags() if "checkpoint" not in f], ranks=2, expect=2)
        self.assertIn("--min-ranks needs checkpoint.directory", log)
        log = self.train("--min-ranks=3", *self.flags(), ranks=2, expect=2)
        self.assertIn("--min-ranks is 3; expected 1 to 2", log)
        self.train(*self.flags(), "--train.steps=1")
        self.assertIn("no elastic run saves into", self.resize("run", 2, expect=2))
        for ranks in 1, 2:
            log = self.train("--checkpoint.memory_every=1", *self.flags("other"), ranks=ranks, expect=2)
            self.assertIn("checkpoints in memory are for elastic runs on one host", log)

    def test_a_wrong_configuration_is_not_tried_again(self):
        log = self.train("--min-ranks=1", *self.flags_of("run", 2), "--data.train=/nowhere/*.txt", ranks=2, expect=2)
        self.assertNotIn("starting again", log)


class ElasticHosts(ElasticTest):
    """Two loopback addresses serve as hosts, with a rank each."""

    def start_host(self, index, name, steps):
        return self.start([COLOSSAL, "run", "-n", "1", "--hosts=127.0.0.1,127.0.0.2", f"--host-index={index}",
                           f"--port={self.port}", "--min-hosts=1", "--", COLOSSAL, "train", self.toml,
                           *self.flags_of(name, steps)])

    def test_a_lost_host_comes_back(self):
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.train(*self.flags_of("whole", MANY), ranks=1)
        first, second = self.start_host(0, "run", MANY), self.start_host(1, "run", MANY)
        self.wait_for_step(first, "run", 3)
        second.kill()
        self.wait_until(lambda: "continues on 1 of 2 hosts" in first.log.read_text(), first)
        lost_at = self.step("run")
        self.wait_for_step(first, "run", lost_at + 2)
        back = self.start_host(1, "run", MANY)
        log = self.finish(first)
        self.finish(back)
        self.assertIn("host 127.0.0.2 (rank 1) was lost", log)
        self.assertIn("the job continues on 2 of 2 hosts", log)
        self.assert_same_training("whole", "run")


if __name__ == "__main__":
    unittest.main()
