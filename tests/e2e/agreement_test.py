"""Ranks of one job that were started differently, and a run that goes on with other data."""
import subprocess
import unittest

from harness import COLOSSAL, EndToEndTest

STEPS = "--train.steps=2"


class RanksThatDiffer(EndToEndTest):
    def start(self, *of_rank_1):
        """mpirun starts two ranks, the second with more flags."""
        command = [COLOSSAL, "train", self.toml, *self.flags(), STEPS, "--parallel.timeout=60s"]
        return subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "1", *command,
                               ":", "-n", "1", *command, *of_rank_1],
                              capture_output=True, text=True, timeout=50)

    def test_settings(self):
        for key, here, there in (("optimizer.learning_rate", "0.01", "0.0003"), ("train.steps", "5", "2"),
                                 ("parallel.backend", '"gloo"', '"auto"'), ("model.n_layer", "1", "2")):
            done = self.start(f"--{key}={here.strip(chr(34))}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"rank 1 has {key} = {here}, rank 0 has {there}", done.stderr)
            self.assertIn("all ranks must be started with the same", done.stderr)

    def test_the_corpus(self):
        """Of as many tokens, at another place: it is the contents that count."""
        text = self.directory / "text.txt"
        text.write_text("the one and the other " * 50)
        copy = self.directory / "copy.txt"
        copy.write_text(text.read_text())
        self.toml.write_text(self.toml.read_text().replace("[data]\n", f'[data]\nvalidation = ["{text}"]\n'))
        done = self.start(f"--data.validation={copy}", "--log.directory=")
        self.assertEqual(done.returncode, 0, done.stderr)
        copy.write_text(text.read_text().replace("other", "otter"))
        done = self.start(f"--data.validation={copy}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"rank 1 has data.validation = 1,100 tokens \(contents \w+\), "
                                      r"rank 0 has 1,100 tokens")


class ChangedData(EndToEndTest):
    def test_other_contents_are_told_and_trained_on(self):
        text = self.directory / "text.txt"
        text.write_text("the one and the other " * 50)
        flags = [*self.flags(), f"--data.train={text}", f"--data.cache={self.directory / 'cache'}"]
        self.train(*flags, "--train.steps=1")
        self.assertNotIn("warning", self.train(*flags, STEPS))
        text.write_text(text.read_text().replace("other", "otter"))
        log = self.train(*flags, "--train.steps=3", ranks=2)
        told = "the corpus has changed since this checkpoint (1,100 tokens then, 1,100 now with other contents)"
        self.assertEqual(log.count(told), 1, log)
        self.assertIn(3, self.losses())


if __name__ == "__main__":
    unittest.main()
