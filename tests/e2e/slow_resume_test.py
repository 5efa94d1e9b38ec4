"""Any checkpoint loads at any layout: pairs of layouts, within fp32's tolerance of the undisturbed run."""
import unittest

from resumption import ResumptionTest


class ResumeAtOtherLayouts(ResumptionTest):
    def test_axes(self):
        one, two, three = dict(ranks=1), dict(ranks=2, zero=0), dict(ranks=3, zero=1)
        tensor, both = dict(ranks=2, tp=2), dict(ranks=4, tp=2, dp=2)
        ring, ulysses = dict(ranks=2, sp=2), dict(ranks=2, sp=2, sp_mode="ulysses")
        groups = dict(ranks=4, zero=2, zero_group=2)
        self.check_layouts([(one, three), (three, two), (two, one), (one, tensor), (tensor, three),
                            (both, ring), (ring, ulysses), (ulysses, tensor), (three, groups),
                            (groups, one)])

    def test_squares_and_cubes(self):
        square, cube = dict(ranks=4, tp=4, tp_mode="2d"), dict(ranks=8, tp=8, tp_mode="3d")
        deep = dict(ranks=8, tp=8, tp_mode="2.5d")
        self.check_layouts([(square, cube), (cube, deep), (deep, dict(ranks=2, tp=2))])

    def test_a_llama_at_other_layouts(self):
        """Its two heads of keys and values are held twice at tp 4, by all at tp 3."""
        self.use("llama-tiny")
        four, three = dict(ranks=4, tp=4), dict(ranks=3, tp=3)
        sequence = dict(ranks=3, sp=3)
        square = dict(ranks=4, tp=4, tp_mode="2d")
        self.check_layouts([(four, three), (three, sequence), (square, four)])


if __name__ == "__main__":
    unittest.main()
