"""Runs that sample their own completions, killed twenty times, give the numbers of undisturbed ones."""
import unittest

from tune_killed import KilledTuning


class KilledTwentyTimes(KilledTuning):
    def test_grpo(self):
        self.kill_and_compare("grpo", 20)

    def test_grpo_that_learns_twice_from_a_generation(self):
        self.kill_and_compare("grpo", 20, "--tune.num_iterations=2", "--tune.beta=0.1")

    def test_ppo(self):
        self.kill_and_compare("ppo", 20, generations=1)

    def test_ranks_that_hold_the_model_together(self):
        self.kill_and_compare("rloo", 20, "--parallel.tp=2")

    def test_completions_that_have_been_begun(self):
        self.kill_and_compare("grpo", 20, "--tune.max_staleness=2")


if __name__ == "__main__":
    unittest.main()
