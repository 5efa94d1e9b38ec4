"""Elastic runs at every kind of layout: the number of ranks changes while they train."""
import unittest

from elastic import ElasticTest

STEPS = 60  # so that a run does not end before its last change


class ElasticLayouts(ElasticTest):
    def check(self, name, ranks, numbers, *layout, preset="gpt2-tiny", steps=STEPS):
        """Runs on `ranks` ranks, then on each of `numbers`."""
        self.use(preset)
        whole = f"whole-{preset}-{steps}"
        if not (self.directory / whole).exists():
            self.train(*self.flags_of(whole, steps), ranks=1)
        run = self.start_elastic(name, steps, *layout, ranks=ranks)
        for i, number in enumerate(numbers):
            self.wait_for_step(run, name, 10 * i + 2)
            self.resize(name, number)
        self.finish(run)
        self.assert_same_training(whole, name)

    def test_zero(self):
        for stage in 0, 1, 2, 3:
            with self.subTest(stage):
                self.check(f"zero-{stage}", 2, [4, 3, 1], f"--parallel.zero={stage}")

    def test_tensor_parallel(self):
        self.check("tp", 2, [4, 2, 6], "--parallel.tp=2")

    def test_pipeline(self):
        self.check("pp", 2, [4, 2], "--parallel.pp=2")

    def test_sequence_parallel(self):
        self.check("sp", 4, [2, 4], "--parallel.sp=2", preset="llama-tiny")

    def test_the_fastest_layout_of_each_number(self):
        # The search takes seconds, in which the run goes on.
        self.check("auto", 1, [2, 4], "--parallel.strategy=auto", steps=400)

    def test_many_failures(self):
        """A rank is killed every few steps; nothing is lost, and all steps are the same bits."""
        self.train(*self.flags_of("whole", 30), ranks=2)
        run = self.start_elastic("run", 30)
        for i in range(9):
            self.wait_for_step(run, "run", 3 * i + 2)
            self.wait_until(lambda: i % 2 in self.ranks_of(run), run)
            self.kill_rank(run, i % 2)
        self.finish(run)
        self.assertEqual(self.losses("whole"), self.losses("run"))
        self.assert_same_weights(self.newest("whole"), self.newest("run"))


if __name__ == "__main__":
    unittest.main()
