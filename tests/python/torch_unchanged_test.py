"""What torch documents of saved tensors and checkpoints holds beside colossal: before it is imported, after, and after
boost(), also for a boosted model. The cases are those of torch's pages on saved_tensors_hooks and torch.utils.checkpoint."""
import unittest

import torch
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def make_net(width=6):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, width), torch.nn.Tanh())


def gradients_of(function, *inputs):
    return torch.autograd.grad(function(*inputs).sum(), inputs)


class CountedHooks:
    """Pack and unpack hooks that hold tensors in a dictionary, as a program does that saves them on a disk."""

    def __init__(self):
        self.kept, self.unpacked = {}, 0

    def pack(self, tensor):
        self.kept[len(self.kept)] = tensor.clone()
        return len(self.kept) - 1

    def unpack(self, key):
        self.unpacked += 1
        return self.kept[key]

    def scope(self):
        return saved_tensors_hooks(self.pack, self.unpack)


class SavedTensors(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.a = torch.randn(5, requires_grad=True)
        self.b = torch.randn(5, requires_grad=True)

    def test_hooks_see_what_a_product_saves(self):
        hooks = CountedHooks()
        with hooks.scope():
            product = self.a * self.b
        self.assertEqual(len(hooks.kept), 2)
        product.sum().backward()
        self.assertEqual(hooks.unpacked, 2)
        self.assertTrue(torch.equal(self.a.grad, self.b) and torch.equal(self.b.grad, self.a))

    def test_what_the_hooks_return_is_used(self):
        with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: 2 * tensor):
            power = self.a ** 2
        power.sum().backward()
        self.assertTrue(torch.allclose(self.a.grad, 4 * self.a))

    def test_the_innermost_hooks_win_and_end(self):
        outer, inner = CountedHooks(), CountedHooks()
        with outer.scope():
            with inner.scope():
                first = self.a.exp()
            second = self.a.exp()
        third = self.a.exp()
        (first + second + third).sum().backward()
        self.assertEqual([len(outer.kept), len(inner.kept), outer.unpacked, inner.unpacked], [1, 1, 1, 1])

    def test_save_on_cpu(self):
        def function(a, b):
            with save_on_cpu():
                return (a * b).exp() * a
        for found, wanted in zip(gradients_of(function, self.a, self.b), gradients_of(lambda a, b: (a * b).exp() * a, self.a, self.b)):
            self.assertTrue(torch.equal(found, wanted))

    def test_hooks_can_be_disabled(self):
        with disable_saved_tensors_hooks("not here"):
            with self.assertRaisesRegex(RuntimeError, "not here"):
                with CountedHooks().scope():
                    pass

    def test_an_error_of_a_hook_arrives_as_it_was(self):
        def unpack(_tensor):
            raise KeyError("lost")
        with saved_tensors_hooks(lambda tensor: tensor, unpack):
            power = self.a ** 2
        with self.assertRaisesRegex(KeyError, "lost"):
            power.sum().backward()

    def test_a_tensor_changed_in_place_is_noticed(self):
        middle = self.a * 1
        result = middle ** 2
        middle.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            result.sum().backward()

    def test_a_graph_is_freed_once(self):
        result = (self.a ** 2).sum()
        result.backward(retain_graph=True)
        result.backward()
        with self.assertRaisesRegex(RuntimeError, "second time"):
            result.backward()

    def test_a_second_derivative(self):
        hooks = CountedHooks()
        with hooks.scope():
            [first] = torch.autograd.grad((self.a ** 3).sum(), self.a, create_graph=True)
        [second] = torch.autograd.grad(first.sum(), self.a)
        self.assertTrue(torch.allclose(second, 6 * self.a))
        self.assertGreater(hooks.unpacked, 1)


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.net = make_net()
        torch.manual_seed(2)
        self.inputs = torch.randn(4, 6, requires_grad=True)
        self.runs = 0

    def counted(self, inputs):
        self.runs += 1
        return self.net(inputs)

    def check(self, checkpointed, runs):
        [wanted] = gradients_of(self.net, self.inputs)
        [found] = gradients_of(checkpointed, self.inputs)
        self.assertTrue(torch.equal(found, wanted))
        self.assertEqual(self.runs, runs)

    def test_non_reentrant(self):
        self.check(lambda inputs: checkpoint(self.counted, inputs, use_reentrant=False), 2)

    def test_reentrant(self):
        checkpoint(self.counted, self.inputs, use_reentrant=True).sum().backward()
        self.assertEqual(self.runs, 2)
        [wanted] = gradients_of(self.net, self.inputs)
        self.assertTrue(torch.equal(self.inputs.grad, wanted))

    def test_nested(self):
        def outer(inputs):
            return checkpoint(self.counted, inputs, use_reentrant=False) * 2
        [found] = gradients_of(lambda inputs: checkpoint(outer, inputs, use_reentrant=False), self.inputs)
        [wanted] = gradients_of(lambda inputs: self.net(inputs) * 2, self.inputs)
        self.assertTrue(torch.equal(found, wanted))
        self.assertGreaterEqual(self.runs, 2)

    def test_sequential(self):
        self.check(lambda inputs: checkpoint_sequential(self.net, 2, inputs, use_reentrant=False), 0)

    def test_random_numbers_are_drawn_again(self):
        dropout = torch.nn.Dropout(0.5)
        masks = []

        def drop(inputs):
            dropped = dropout(inputs)
            masks.append(dropped.detach() != 0)
            return dropped * dropped
        checkpoint(drop, self.inputs, use_reentrant=False).sum().backward()
        self.assertEqual(len(masks), 2)
        self.assertTrue(torch.equal(*masks))

    def test_inside_saved_tensors_hooks(self):
        hooks = CountedHooks()
        with hooks.scope():
            self.check(lambda inputs: checkpoint(self.counted, inputs, use_reentrant=False), 2)
        self.assertGreater(hooks.unpacked, 0)


class Boosted(unittest.TestCase):
    """The same of a boosted model."""

    @classmethod
    def setUpClass(cls):
        import colossal
        cls.plain = make_net()
        model = make_net()
        cls.model, cls.optimizer = colossal.boost(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def input_gradient(self, model, scope):
        torch.manual_seed(2)
        inputs = torch.randn(4, 6, requires_grad=True)
        with scope:
            loss = model(inputs).square().sum()
        loss.backward()
        return inputs.grad

    def compare(self, make_scope):
        found, wanted = self.input_gradient(self.model, make_scope()), self.input_gradient(self.plain, make_scope())
        self.optimizer.zero_grad()
        self.assertTrue(torch.allclose(found, wanted, rtol=1e-5, atol=1e-7))

    def test_save_on_cpu(self):
        self.compare(save_on_cpu)

    def test_hooks_see_the_activations(self):
        hooks = CountedHooks()
        self.compare(hooks.scope)
        self.assertGreater(hooks.unpacked, 4)


def suite_of(*cases):
    return unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases)


def main():
    runner = unittest.TextTestRunner(verbosity=2)
    results = [runner.run(suite_of(SavedTensors, Checkpoints))]
    import colossal  # noqa: F401  (what this test is about)
    from colossal import _core  # noqa: F401
    results.append(runner.run(suite_of(SavedTensors, Checkpoints)))
    results.append(runner.run(suite_of(Boosted)))  # it boosts a model and trains it
    results.append(runner.run(suite_of(SavedTensors, Checkpoints)))
    raise SystemExit(not all(result.wasSuccessful() for result in results))


if __name__ == "__main__":
    main()
