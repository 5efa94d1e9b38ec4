"""init_process_group("colossal") beside gloo, on the ranks that torchrun starts: every collective gives what gloo gives,
DistributedDataParallel and FSDP2 train alike, and what cannot end is an error that names the rank.

  [HOSTS=2] python -m torch.distributed.run --standalone --nproc-per-node=3 process_group_cases.py

HOSTS=2: the last rank takes itself to be on a host of its own
"""
import unittest

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from process_group_failures import Groups, Processes, Refusals  # noqa: F401  (run with the others)
from process_group_ranks import RANK, SIZE, become_a_host, make_groups

GLOO = None  # the process group beside the default one
NUMBERS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8)
LENGTHS = (1, 7, 1000, 70_001, 600_000)  # through one slot and several; none is even for all ranks


def values(length, dtype=torch.float64, seed=0):
    """Small whole numbers, whose sums and products are exact in any type and any order"""
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    return torch.randint(0, 4, (length,), generator=generator).to(dtype)


def length_of(rank):
    return 5 + 3 * rank


class Collectives(unittest.TestCase):
    def assert_as_gloo(self, call):
        """call(group) -> the tensors that all ranks have after it"""
        found, expected = call(None), call(GLOO)
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertEqual(one.dtype, other.dtype)
            self.assertTrue(torch.equal(one, other), f"{one} {other}")

    def test_all_reduce(self):
        for operation in (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
            for dtype in NUMBERS:
                for length in LENGTHS[:3] + LENGTHS[-1:]:
                    def call(group):
                        tensor = values(length, dtype)
                        dist.all_reduce(tensor, operation, group=group)
                        return [tensor]
                    with self.subTest(operation=operation, dtype=dtype, length=length):
                        self.assert_as_gloo(call)

    def test_bitwise(self):
        for operation in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            for dtype in (torch.int64, torch.int32, torch.uint8):
                def call(group):
                    tensor = values(1000, dtype)
                    dist.all_reduce(tensor, operation, group=group)
                    return [tensor]
                with self.subTest(operation=operation, dtype=dtype):
                    self.assert_as_gloo(call)

    def test_types_without_gloo(self):
        terms = [torch.tensor([rank, 2, 0]) for rank in range(SIZE)]
        for dtype, operation, expected in ((torch.int16, ReduceOp.SUM, sum(terms)),
                                           (torch.bool, ReduceOp.SUM, torch.tensor([SIZE > 1, True, False])),
                                           (torch.bool, ReduceOp.MIN, torch.tensor([False, True, False]))):
            tensor = terms[RANK].to(dtype)
            dist.all_reduce(tensor, operation)
            self.assertTrue(torch.equal(tensor, expected.to(dtype)), f"{dtype} {operation} {tensor}")

    def test_mean(self):
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64):
            sums = values(SIZE * 7, torch.float64)
            dist.all_reduce(sums, group=GLOO)
            expected = (sums / SIZE).to(dtype)  # towards zero for integers
            tensor = values(SIZE * 7, dtype)
            dist.all_reduce(tensor, ReduceOp.AVG)
            self.assertTrue(torch.equal(tensor, expected), f"{tensor} {expected}")
            part = torch.empty(7, dtype=dtype)
            dist.reduce_scatter_single(part, values(SIZE * 7, dtype), ReduceOp.AVG)
            self.assertTrue(torch.equal(part, expected.chunk(SIZE)[RANK]))

    def test_mean_of_half_precision_does_not_overflow(self):
        tensor = torch.full((3,), 60000.0, dtype=torch.float16)
        dist.all_reduce(tensor, ReduceOp.AVG)
        self.assertEqual(tensor.tolist(), [60000.0] * 3)

    def test_strides(self):
        def call(group):
            tensor = values(60).view(3, 20).t()
            dist.all_reduce(tensor, group=group)
            other = values(60).view(3, 20).t().contiguous()
            dist.broadcast(other, SIZE - 1, group=group)
            return [tensor, other]
        self.assert_as_gloo(call)
        tensor = values(60).view(3, 20)[:, ::2]
        dist.broadcast(tensor, 0)
        gathered = torch.empty(SIZE, 60)[:, ::2].double()
        dist.all_gather_single(gathered, tensor)
        self.assertTrue(torch.equal(gathered, tensor.reshape(1, -1).expand(SIZE, -1)))

    def test_broadcast(self):
        for dtype in (*NUMBERS, torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn):
            for root in range(SIZE):
                tensor = values(70_001).to(dtype)
                dist.broadcast(tensor, root)
                expected = values(70_001)
                dist.broadcast(expected, root, group=GLOO)
                self.assertTrue(torch.equal(tensor.view(torch.uint8), expected.to(dtype).view(torch.uint8)))

    def test_reduce(self):
        for operation in (ReduceOp.SUM, ReduceOp.MAX):
            for root in range(SIZE):
                def call(group):
                    tensor = values(1001)
                    dist.reduce(tensor, root, operation, group=group)
                    return [tensor] if RANK == root else []
                self.assert_as_gloo(call)

    def test_all_gather(self):
        for length in LENGTHS:
            def call(group):
                outputs = [torch.empty(length, dtype=torch.float64) for _ in range(SIZE)]
                dist.all_gather(outputs, values(length), group=group)
                whole = torch.empty(SIZE * length, dtype=torch.float64)
                dist.all_gather_single(whole, values(length, seed=1), group=group)
                whole.view(SIZE, -1)[RANK].copy_(values(length))
                dist.all_gather_single(whole, whole.view(SIZE, -1)[RANK], group=group)  # in place
                return [*outputs, whole]
            self.assert_as_gloo(call)

    def test_uneven_lists(self):
        outputs = [torch.empty(length_of(rank)) for rank in range(SIZE)]
        dist.all_gather(outputs, torch.full((length_of(RANK),), float(RANK)))
        for rank, output in enumerate(outputs):
            self.assertTrue(torch.equal(output, torch.full((length_of(rank),), float(rank))))
        part = torch.empty(length_of(RANK))
        dist.reduce_scatter(part, [torch.full((length_of(rank),), float(rank)) for rank in range(SIZE)])
        self.assertTrue(torch.equal(part, torch.full((length_of(RANK),), float(RANK * SIZE))))
        dist.scatter(part, [torch.full((length_of(rank),), -1.0 - rank) for rank in range(SIZE)] if RANK == 0 else None)
        self.assertTrue(torch.equal(part, torch.full((length_of(RANK),), -1.0 - RANK)))
        gathered = [torch.empty(length_of(rank)) for rank in range(SIZE)] if RANK == SIZE - 1 else None
        dist.gather(part, gathered, SIZE - 1)
        for rank, output in enumerate(gathered or []):
            self.assertTrue(torch.equal(output, torch.full((length_of(rank),), -1.0 - rank)))

    def test_gather_and_scatter(self):
        for root in range(SIZE):
            def call(group):
                outputs = [torch.empty(9, dtype=torch.float64) for _ in range(SIZE)] if RANK == root else None
                dist.gather(values(9), outputs, root, group=group)
                part = torch.empty(9, dtype=torch.float64)
                dist.scatter(part, [values(9, seed=rank) for rank in range(SIZE)] if RANK == root else None, root, group=group)
                return [*(outputs or []), part]
            self.assert_as_gloo(call)

    def test_reduce_scatter(self):
        for operation in (ReduceOp.SUM, ReduceOp.MAX):
            for length in LENGTHS:
                def call(group):
                    part = torch.empty(length, dtype=torch.float64)
                    dist.reduce_scatter_single(part, values(SIZE * length), operation, group=group)
                    other = torch.empty(length, dtype=torch.float64)
                    dist.reduce_scatter(other, list(values(SIZE * length, seed=1).chunk(SIZE)), operation, group=group)
                    return [part, other]
                self.assert_as_gloo(call)

    def test_all_to_all(self):
        sent, received = [1 + rank for rank in range(SIZE)], [1 + RANK] * SIZE

        def call(group):
            even = torch.empty(2 * SIZE, 3, dtype=torch.float64)
            dist.all_to_all_single(even, values(6 * SIZE).view(-1, 3), group=group)
            uneven = torch.empty(sum(received), 3, dtype=torch.float64)
            dist.all_to_all_single(uneven, values(3 * sum(sent)).view(-1, 3), received, sent, group=group)
            return [even, uneven]
        self.assert_as_gloo(call)
        outputs = [torch.empty(2, 1 + RANK) for _ in range(SIZE)]
        dist.all_to_all(outputs, [torch.full((2, 1 + rank), float(10 * RANK + rank)) for rank in range(SIZE)])
        for rank, output in enumerate(outputs):
            self.assertTrue(torch.equal(output, torch.full((2, 1 + RANK), float(10 * rank + RANK))))

    def test_empty_tensors(self):
        def call(group):
            tensor = values(0)
            dist.all_reduce(tensor, group=group)
            dist.broadcast(tensor, 0, group=group)
            return [tensor]
        self.assert_as_gloo(call)

    def test_coalesced(self):
        tensors = [values(length) for length in (3, 1000, 5)]
        expected = [tensor.clone() for tensor in tensors]
        with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        manager.wait()
        parts = [torch.empty(4), torch.empty(6)]
        with dist.distributed_c10d._coalescing_manager():
            for part in parts:
                dist.reduce_scatter_single(part, torch.ones(SIZE * part.numel()))
        wholes = [torch.empty(SIZE * 2), torch.empty(SIZE * 3)]
        with dist.distributed_c10d._coalescing_manager():
            for whole in wholes:
                dist.all_gather_single(whole, torch.full((whole.numel() // SIZE,), float(RANK)))
        for tensor, other in zip(tensors, expected):
            dist.all_reduce(other, group=GLOO)
            self.assertTrue(torch.equal(tensor, other))
        self.assertEqual([part.unique().tolist() for part in parts], [[SIZE], [SIZE]])
        self.assertEqual(wholes[1].tolist(), [float(rank) for rank in range(SIZE) for _ in range(3)])

    def test_objects(self):
        found = [None] * SIZE
        dist.all_gather_object(found, {"rank": RANK, "text": "x" * RANK})
        self.assertEqual(found, [{"rank": rank, "text": "x" * rank} for rank in range(SIZE)])
        found = ["a", 2, None] if RANK == 0 else [None] * 3
        dist.broadcast_object_list(found, 0)
        self.assertEqual(found, ["a", 2, None])
        found = [None] * SIZE if RANK == 0 else None
        dist.gather_object(RANK, found, 0)
        self.assertEqual(found, list(range(SIZE)) if RANK == 0 else None)
        found = [None]
        dist.scatter_object_list(found, [(rank,) for rank in range(SIZE)] if RANK == 0 else None, 0)
        self.assertEqual(found, [(RANK,)])

    def test_asynchronous(self):
        tensors = [values(length) for length in (1, 600_000, 3)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        doubled = works[2].get_future().then(lambda future: 2 * future.value()[0])
        for work in works:
            self.assertTrue(work.wait())
            self.assertTrue(work.is_completed())
        for tensor in tensors:
            other = values(tensor.numel())
            dist.all_reduce(other, group=GLOO)
            self.assertTrue(torch.equal(tensor, other))
        self.assertTrue(torch.equal(doubled.wait(), 2 * tensors[2]))
        self.assertTrue(torch.equal(works[1].result()[0], tensors[1]))

    def test_inference_mode_and_leaves(self):
        with torch.inference_mode():
            outputs = [torch.empty(3) for _ in range(SIZE)]
            dist.all_gather(outputs, torch.full((3,), float(RANK)), async_op=True).wait()
        self.assertEqual([output[0].item() for output in outputs], list(range(SIZE)))
        weight = torch.nn.Parameter(torch.full((3, 2), float(RANK)).t())
        dist.broadcast(weight, SIZE - 1)
        self.assertEqual(weight.unique().tolist(), [SIZE - 1])


class Messages(unittest.TestCase):
    def test_send_and_recv(self):
        tensor = values(600_000)
        if RANK == 0:
            dist.send(tensor, 1)
        elif RANK == 1:
            found = torch.empty(600_000, dtype=torch.float64)
            self.assertEqual(dist.recv(found, 0), 0)
            dist.send(found, 0, tag=3)
        if RANK == 0:
            found = torch.zeros_like(tensor)
            dist.recv(found, 1, tag=3)
            self.assertTrue(torch.equal(found, tensor))

    def test_both_directions_at_once(self):
        """More than fits in a ring: no message waits for the other direction."""
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        found = torch.empty(400_000)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((400_000,), float(RANK)), after),
                                        dist.P2POp(dist.irecv, found, before)])
        for work in works:
            work.wait()
        self.assertEqual(found.unique().tolist(), [before])

    def test_tags_match_in_any_order(self):
        if RANK == 0:
            works = [dist.isend(torch.tensor([tag]), 1, tag=tag) for tag in (5, 6)]
        elif RANK == 1:
            found = {tag: torch.empty(1, dtype=torch.long) for tag in (6, 5)}
            works = [dist.irecv(tensor, 0, tag=tag) for tag, tensor in found.items()]
        for work in works if RANK < 2 else []:
            work.wait()
        if RANK == 1:
            self.assertEqual({tag: tensor.item() for tag, tensor in found.items()}, {5: 5, 6: 6})

    def test_objects(self):
        if RANK == 0:
            dist.send_object_list(["a", {"b": 1}], 1)
        elif RANK == 1:
            found = [None, None]
            dist.recv_object_list(found, 0)
            self.assertEqual(found, ["a", {"b": 1}])

    def test_from_any_rank(self):
        with self.assertRaisesRegex(ValueError, "pass src="):
            dist.recv(torch.empty(1))


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.Tanh(), torch.nn.Linear(33, 5)).double()


def losses_of(model, inputs):
    """Of some steps, and then the weights"""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for step in range(4):
        loss = model(inputs[step]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


class Training(unittest.TestCase):
    def assert_trains_as_with_gloo(self, wrap, weights_of):
        """wrap(model, group) -> the model to train; weights_of(model) -> whole weights"""
        torch.manual_seed(10 + RANK)
        inputs = torch.randn(4, 6, 7, dtype=torch.float64)
        results = []
        for group in (dist.group.WORLD, GLOO):
            model = wrap(network(), group)
            results.append((losses_of(model, inputs), weights_of(model)))
        (losses, weights), (expected, expected_weights) = results
        torch.testing.assert_close(losses, expected, rtol=1e-9, atol=0)
        torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-12)

    def test_distributed_data_parallel(self):
        def wrap(model, group):
            with torch.no_grad():
                model[0].bias += RANK  # rank 0's counts
            return torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        self.assert_trains_as_with_gloo(wrap, lambda model: list(model.parameters()))

    def test_fully_sharded(self):
        def wrap(model, group):
            mesh = DeviceMesh.from_group(group, "cpu")
            for layer in (model[0], model[2], model):
                fully_shard(layer, mesh=mesh)
            return model
        self.assert_trains_as_with_gloo(wrap, lambda model: [weight.full_tensor() for weight in model.parameters()])


if __name__ == "__main__":
    become_a_host()
    GLOO = make_groups()
    unittest.main(verbosity=2)
