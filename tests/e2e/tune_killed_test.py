"""A run that samples its own completions, killed three times, gives the numbers of an undisturbed one."""
import unittest

from tune_killed import KilledTuning


class KilledThreeTimes(KilledTuning):
    def test_grpo(self):
        self.kill_and_compare("grpo", 3)

    def test_completions_that_have_been_begun(self):
        self.kill_and_compare("grpo", 3, "--tune.max_staleness=2")


if __name__ == "__main__":
    unittest.main()
