"""Nothing lost, however a run is stopped: each way to stop it, in each phase, under each launcher.

After each the same command goes on (under torchrun and mpirun: at the same two ranks) and must have the
losses of an undisturbed run; nothing may be left running, and the exit code must be the documented one,
but under torchrun and mpirun, which have their own. Prints what came out of it.

    slow_stop_matrix_test.py [PHASE ...]     only these phases
"""
import sys
import unittest

from stopping import GO_ON, LAUNCHERS, OURS, PHASES, STOPPED, STOPS, StoppingTest, num_ranks


class StopMatrix(StoppingTest):
    phases = PHASES

    def setUp(self):
        super().setUp()
        self.references = {}

    def test_all(self):
        cells = {}
        for phase in self.phases:
            for how in STOPS:
                for launcher in LAUNCHERS:
                    with self.subTest(f"{how}, {phase}, {launcher}"):
                        cells[phase, how, launcher] = "failed"
                        cells[phase, how, launcher] = self.check(phase, how, launcher)
        self.print_table(cells)

    def check(self, phase, how, launcher):
        name = f"{phase}, {how}, {launcher}".replace(" ", "-")
        # mpirun tells the ranks a second later, and kills them after one more.
        steps = 8 if launcher == "mpirun" and phase != "evaluation" else 3
        flags = self.flags_for(phase, name, steps)
        expected = self.reference(phase, num_ranks(launcher))
        run = self.start(launcher, flags, terminal=how == "closed terminal", timed=how == "GNU timeout")
        self.wait_for_phase(run, phase, name, self.step_seconds(num_ranks(launcher)))
        run.stop(how)
        code = run.wait()
        self.assert_nothing_runs(run)
        kept = self.newest_step(name)
        if launcher in OURS:
            self.assert_as_documented(phase, how, code, kept, run.text)
        if phase == "tokenization" and code == STOPPED:
            self.assertEqual(self.list_folder(self.directory / name / "cache"), [])
        again = self.start(f"{num_ranks(launcher)} rank{'s' if num_ranks(launcher) > 1 else ''}", flags)
        self.assertEqual(again.wait(), 0, again.text)
        self.assertEqual(self.losses(name), {step: expected[step] for step in range(1, steps + 1)},
                         run.text + again.text)
        broken_off = ", broken off" if "broken off" in run.text else ""
        return f"{code}, " + (f"step {kept}" if kept else "no step") + broken_off

    def assert_as_documented(self, phase, how, code, kept, text):
        if how in GO_ON:
            self.assertEqual((code, kept), (0, 3), text)
        elif phase in ("set-up", "tokenization"):
            self.assertEqual((code, kept), (STOPPED, 0), text)
        else:
            # On a machine that others keep busy a request may come steps later than it was meant to,
            # or after the last one.
            self.assertEqual(code, STOPPED if kept < 3 else 0, text)
            self.assertGreaterEqual(kept, 2 if phase == "later step" else 1)

    def reference(self, phase, ranks):
        kind = "tokenization" if phase == "tokenization" else "first step"
        if (kind, ranks) not in self.references:
            name = f"reference-{kind}-{ranks}"
            self.train(*self.flags_for(kind, name, steps=8), ranks=ranks)
            self.references[kind, ranks] = self.losses(name)
        return self.references[kind, ranks]

    def step_seconds(self, ranks):
        self.reference("first step", ranks)
        return max(line["step_seconds"] for line in self.metrics(f"reference-first step-{ranks}").values())

    def print_table(self, cells):
        print("| stopped in | by | " + " | ".join(LAUNCHERS) + " |")
        print("|---" * (2 + len(LAUNCHERS)) + "|")
        for phase in self.phases:
            for how in STOPS:
                row = [cells[phase, how, launcher] for launcher in LAUNCHERS]
                print(f"| {phase} | {how} | " + " | ".join(row) + " |")
        failed = list(cells.values()).count("failed")
        print(f"(exit code, newest checkpoint) of {len(cells)} runs; {len(cells) - failed} of them went on to "
              "the same losses", flush=True)


if __name__ == "__main__":
    StopMatrix.phases = [phase for phase in PHASES if phase in sys.argv] or PHASES
    unittest.main(argv=sys.argv[:1])
