"""docs/experts.md: the table of bytes, the limits of tokens and the law of copies follow from the laws of each call."""
import pathlib
import re
import unittest

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/experts.md").read_text(encoding="utf-8")
TOKENS = 4096  # of a rank, in a micro-batch
PARTS = 8  # of an expert, with expert_tp
WIDTH = 2  # bytes of bf16
ROW = re.compile(r"^\|([^|]*)\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", re.M)
MODEL = re.compile(r"\((\d+), (\d+), (\d+), (\d+)\)")


def all_gather(ranks, whole):
    return (ranks - 1) * whole / ranks


def reduce_scatter(ranks, whole):
    return whole - whole / ranks


def zero_1(ranks, weights):
    """Gradients reduce-scattered, updated weights gathered."""
    return reduce_scatter(ranks, weights) + all_gather(ranks, weights)


def zero_3(ranks, weights):
    """Weights gathered forward and backward, gradients reduce-scattered."""
    return 2 * all_gather(ranks, weights) + reduce_scatter(ranks, weights)


class Layer:
    def __init__(self, hidden, inner, experts, chosen):
        self.inner, self.experts, self.chosen = inner, experts, chosen
        self.weights = 3 * experts * hidden * inner * WIDTH
        self.row = hidden * WIDTH

    def expert_parallel(self, ranks, tokens=TOKENS):
        size = min(ranks, self.experts)
        away = tokens * self.chosen * (size - 1) / size  # and as many come: routing is even
        rows = 2 * (away + away) * self.row
        counts = 8 * self.experts * (size - 1) / size
        return rows + counts + zero_1(ranks // size, self.weights / size)

    def in_parts(self, ranks):
        here = TOKENS * self.chosen
        others = (PARTS - 1) * here
        rows = 2 * ((PARTS - 1) * here + others) * self.row
        counts = (PARTS - 1) * 8 * self.experts
        return rows + counts + zero_1(ranks // PARTS, self.weights / PARTS)


class ExpertLaws(unittest.TestCase):
    def test_the_table_is_what_the_laws_give(self):
        layer, seen = None, 0
        for model, ranks, *stated in ROW.findall(PAGE):
            sizes = MODEL.search(model)
            layer = Layer(*map(int, sizes.groups())) if sizes else layer
            ranks = int(ranks.replace(",", ""))
            made = [zero_1(ranks, layer.weights), zero_3(ranks, layer.weights), layer.expert_parallel(ranks),
                    layer.in_parts(ranks)]
            self.assertEqual(stated, [f"{each / 1e9:.2f}" for each in made], (model, ranks))
            seen += 1
        self.assertEqual(seen, 9)

    def test_beyond_the_limit_of_tokens_zero_3_sends_less(self):
        for model in MODEL.findall(PAGE):
            layer = Layer(*map(int, model))
            limit = 9 * layer.inner * layer.experts // (4 * layer.chosen)
            self.assertIn(f"{limit:,}", PAGE)
            ranks = min(64, layer.experts)  # each expert once: no gradients to sum
            self.assertLess(layer.expert_parallel(ranks, limit - 8), zero_3(ranks, layer.weights))
            self.assertGreater(layer.expert_parallel(ranks, limit + 8), zero_3(ranks, layer.weights))

    def test_a_copy_pays_from_the_rows_that_the_page_names(self):
        """Counted in seconds, by bisection, rather than by the law in its short form."""
        hidden, inner = 7168, 2048
        weights = 3 * hidden * inner
        for ranks, rate, bandwidth in ((8, 4e14, 5e10), (8, 4e14, 3e11), (2, 2e11, 5e9)):
            cost = ((ranks - 1) + 1) * WIDTH * weights / bandwidth
            row = 6 * weights / rate + 2 * hidden * WIDTH / bandwidth
            few, many = 0, 10**6
            while few + 1 < many:
                rows = (few + many) // 2
                few, many = (few, rows) if rows * row > cost else (rows, many)
            self.assertRegex(PAGE, rf"\b{many:,}\b", (ranks, bandwidth))


if __name__ == "__main__":
    unittest.main()
