"""colossal.boost() beside DistributedDataParallel, on the ranks that torchrun starts: the same losses, norms and weights,
by a loop that knows nothing of the engine.

  python -m torch.distributed.run --standalone --nproc-per-node=2 boost_cases.py
"""
import contextlib
import copy
import os
import unittest

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from transformers import (
    BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration)

import colossal

RANK = int(os.environ["RANK"])
STEPS, PARTS = 3, 2
LLAMA = LlamaConfig(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=True)
BERT = BertConfig(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                  max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
T5 = T5Config(vocab_size=61, d_model=24, d_kv=6, d_ff=40, num_layers=2, num_heads=4, dropout_rate=0.0,
              decoder_start_token_id=0)


def model_of(config):
    torch.manual_seed(1)
    kind = {LlamaConfig: LlamaForCausalLM, BertConfig: BertForMaskedLM, T5Config: T5ForConditionalGeneration}[type(config)]
    return kind(config).double()


def batch_of(step, part):
    torch.manual_seed(1000 * step + 10 * part + RANK)
    return torch.randint(1, 61, (3, 11))


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def groups(model):
    """As Trainer makes them: no decay of norms and biases"""
    small = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    large = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    return torch.optim.AdamW([{"params": large, "weight_decay": 0.1}, {"params": small, "weight_decay": 0.0, "lr": 5e-3}], lr=1e-2)


def train(model, optimizer, scheduler, norm_of, accumulates=True):
    """A loop of a program: losses and norms of rank 0."""
    found = []
    for step in range(STEPS):
        for part in range(PARTS):
            last = part == PARTS - 1 or not accumulates
            with contextlib.nullcontext() if last else model.no_sync():
                inputs = batch_of(step, part)
                loss = model(input_ids=inputs, labels=inputs).loss / PARTS
                loss.backward()
            found.append(loss.item())
            if not accumulates:
                break
        norm = norm_of()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        found.append(float(norm if norm is not None else optimizer.grad_norm))
    return found


def reference(config, make_optimizer, prepare=lambda model: None):
    model = model_of(config)
    prepare(model)
    optimizer = make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    parallel = DistributedDataParallel(model, find_unused_parameters=False)
    found = train(parallel, optimizer, scheduler, lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5))
    return found, copy.deepcopy(model.state_dict())


class Boost(unittest.TestCase):
    def check(self, config, make_optimizer, prepare=lambda model: None, **settings):
        expected, expected_weights = reference(config, make_optimizer, prepare)
        model = model_of(config)
        prepare(model)
        optimizer = make_optimizer(model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)  # made before, as many programs do
        before = next(model.parameters())
        same_model, same_optimizer = colossal.boost(model, optimizer, dtype="fp64", max_grad_norm=0.5, chunk_bytes=4096,
                                                    window_bytes=8192, **settings)
        self.assertIs(same_model, model)
        self.assertIs(same_optimizer, optimizer)
        self.assertIs(next(model.parameters()), before)
        found = train(model, optimizer, scheduler, lambda: None)
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-9, atol=0)
        with colossal.gather(model):
            weights = copy.deepcopy(model.state_dict())
        self.assertEqual(weights.keys(), expected_weights.keys())
        for name, weight in expected_weights.items():
            torch.testing.assert_close(weights[name], weight, rtol=0, atol=1e-9, msg=lambda text: f"{name}: {text}")
        return model

    def test_every_stage(self):
        for zero in range(4):
            with self.subTest(zero):
                self.check(LLAMA, adamw, zero=zero)

    def test_families(self):
        for config in (BERT, T5):
            for zero in (1, 3):
                with self.subTest(f"{config.model_type}, {zero}"):
                    self.check(config, adamw, zero=zero)

    def test_optimizers(self):
        for name, make in {
                "groups": groups,
                "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.05),
                "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)}.items():
            with self.subTest(name):
                self.check(LLAMA, make, zero=2)

    def test_checkpointing(self):
        for reentrant in (False, True):
            def prepare(model, reentrant=reentrant):
                model.train()
                model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            for zero in (1, 3):
                with self.subTest(f"reentrant {reentrant}, {zero}"):
                    self.check(LLAMA, adamw, prepare, zero=zero)

    def test_compiled(self):
        """torch.compile without its last stage, which rounds otherwise"""
        for layout in ({"zero": 0}, {"zero": 3}, {"zero": 1, "offload": {"activations": "host"}}):
            with self.subTest(**layout):
                found = []
                for compiles in (False, True):
                    torch._dynamo.reset()
                    model, optimizer = self.boosted(**layout)
                    runs = torch.compile(model, backend="aot_eager") if compiles else model
                    for step in range(STEPS):
                        loss = runs(input_ids=batch_of(step, 0), labels=batch_of(step, 0)).loss
                        loss.backward()
                        optimizer.step()
                        optimizer.zero_grad()
                        found.append(loss.item())
                self.assertEqual(found[:STEPS], found[STEPS:])

    def test_offload(self):
        for offload in ({"parameters": "host", "optimizer": "host"}, {"optimizer": {"host": 0.5}}):
            with self.subTest(offload):
                self.check(LLAMA, adamw, zero=1, offload=offload)

    def test_generates_when_weights_are_sharded(self):
        model = self.check(LLAMA, adamw, zero=3)
        with colossal.gather(model):
            whole = copy.deepcopy(model.state_dict())
        plain = model_of(LLAMA)
        plain.load_state_dict(whole)
        plain.eval()
        model.eval()
        prompt = torch.arange(1, 5).view(1, 4)
        self.assertEqual(model.generate(prompt, max_new_tokens=6, do_sample=False).tolist(),
                         plain.generate(prompt, max_new_tokens=6, do_sample=False).tolist())

    def test_hooks_of_the_program(self):
        model = model_of(LLAMA)
        called, packed = [], []
        model.lm_head.weight.register_post_accumulate_grad_hook(lambda parameter: called.append("before"))
        model, optimizer = colossal.boost(model, adamw(model), zero=1, dtype="fp64")
        model.model.norm.weight.register_post_accumulate_grad_hook(lambda parameter: called.append("after"))
        inputs = batch_of(0, 0)

        def pack(tensor):
            packed.append(tensor)
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = model(input_ids=inputs, labels=inputs).loss
        loss.backward()
        optimizer.register_step_pre_hook(lambda *arguments: called.append("before the step"))
        optimizer.register_step_post_hook(lambda *arguments: called.append("behind the step"))
        optimizer.step()
        self.assertEqual(sorted(set(called)), ["after", "before", "before the step", "behind the step"])
        self.assertGreater(len(packed), 10)

        def fail(parameter):
            raise KeyError("of the program")
        model.model.norm.weight.register_hook(fail)
        with self.assertRaises(KeyError):
            model(input_ids=inputs, labels=inputs).loss.backward()

    def boosted(self, make_optimizer=adamw, **settings):
        model = model_of(LLAMA)
        return colossal.boost(model, make_optimizer(model), chunk_bytes=4096, window_bytes=8192, **settings)

    def weights(self, model):
        with colossal.gather(model):
            return copy.deepcopy(model.state_dict())

    def backward(self, model, part=0):
        inputs = batch_of(0, part)
        model(input_ids=inputs, labels=inputs).loss.backward()

    def test_gradients_are_discarded(self):
        wanted = None
        for zero in (0, 3):
            for spoil in (False, True):
                model = model_of(LLAMA)
                if spoil:
                    self.backward(model, 7)  # before boost()
                model, optimizer = colossal.boost(model, adamw(model), zero=zero, chunk_bytes=4096, window_bytes=8192)
                if spoil:
                    with model.no_sync():
                        self.backward(model, 8)
                    optimizer.zero_grad()
                    self.backward(model, 9)
                inputs = batch_of(0, 0)
                loss = model(input_ids=inputs, labels=inputs).loss
                optimizer.zero_grad()  # as many loops do: after the forward pass
                loss.backward()
                optimizer.step()
                found = self.weights(model)
                wanted = wanted or found
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)

    def test_goes_on_after_exceptions(self):
        for zero in (0, 3):
            with self.subTest(zero):
                model, optimizer = self.boosted(zero=zero)
                other, other_optimizer = self.boosted(zero=zero)
                with self.assertRaises(colossal.NonFiniteError):
                    inputs = batch_of(0, 0)
                    (model(input_ids=inputs, labels=inputs).loss * float("nan")).backward()
                    optimizer.step()
                with self.assertRaises(IndexError):
                    model(input_ids=torch.full((1, 3), 1000))
                handle = model.model.norm.weight.register_hook(lambda gradient: 1 / 0)
                with self.assertRaises(ZeroDivisionError):
                    self.backward(model)
                handle.remove()
                for each, its_optimizer in ((model, optimizer), (other, other_optimizer)):
                    self.backward(each)
                    its_optimizer.step()
                torch.testing.assert_close(self.weights(model), self.weights(other), rtol=0, atol=1e-12)

    def test_bf16_with_dropout_and_padded_rows(self):
        """Weights in bf16 that are rounded from masters in fp32, with the mean of the ranks' gradients in fp32."""
        config = GPT2Config(vocab_size=61, n_embd=24, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=2)
        self.assertGreater(config.resid_pdrop, 0)

        def losses_of(model, optimizer, update):
            torch.manual_seed(RANK)
            for step in range(STEPS):
                inputs = batch_of(step, 0)
                mask = torch.ones_like(inputs)
                mask[1, 6:] = 0
                loss = model(input_ids=inputs, attention_mask=mask, labels=inputs.masked_fill(mask == 0, -100)).loss
                loss.backward()
                update()
                yield loss.item()

        def model_in_bf16():
            torch.manual_seed(1)
            return GPT2LMHeadModel(config).bfloat16().train()
        plain = model_in_bf16()
        masters = [torch.nn.Parameter(parameter.detach().float()) for parameter in plain.parameters()]
        plain_optimizer = torch.optim.AdamW(masters, lr=1e-2, weight_decay=0.1)

        def update():
            for parameter, master in zip(plain.parameters(), masters):
                master.grad = parameter.grad.float()
                torch.distributed.all_reduce(master.grad)
                master.grad /= torch.distributed.get_world_size()
                parameter.grad = None
            plain_optimizer.step()
            with torch.no_grad():
                for parameter, master in zip(plain.parameters(), masters):
                    parameter.copy_(master)
        expected = list(losses_of(plain, plain_optimizer, update))
        for zero in (0, 2, 3):
            for offload in (None, {"parameters": "host", "activations": "host"}):
                with self.subTest(zero=zero, offload=offload):
                    model = model_in_bf16()
                    optimizer = adamw(model)
                    colossal.boost(model, optimizer, zero=zero, offload=offload, chunk_bytes=4096, window_bytes=8192)

                    def step(optimizer=optimizer):
                        optimizer.step()
                        optimizer.zero_grad()
                    # The first pass is the same to the bit; fp32 sums in another order may then round a weight otherwise.
                    found = list(losses_of(model, optimizer, step))
                    self.assertEqual(found[0], expected[0])
                    torch.testing.assert_close(found, expected, rtol=2e-3, atol=0)
                    weights = self.weights(model)
                    for name, weight in plain.state_dict().items():
                        torch.testing.assert_close(weights[name], weight, rtol=2e-2, atol=2e-3, msg=lambda text: f"{name}: {text}")

    def test_passes_in_any_order(self):
        """Two forward passes before their backward passes, a graph that is used twice, two models at once."""
        for zero in (1, 3):
            with self.subTest(zero=zero):
                self.check_passes_in_any_order(zero)

    def check_passes_in_any_order(self, zero):
        plain = model_of(LLAMA)
        parallel, plain_optimizer = DistributedDataParallel(plain), adamw(plain)
        model, optimizer = self.boosted(zero=zero)
        other, _ = self.boosted(zero=zero)
        for step in range(3):  # the first one without, so that the engine knows another order of uses
            for each, its_optimizer in ((parallel, plain_optimizer), (model, optimizer)):
                self.run_step_in_any_order(step, each, its_optimizer, other if each is model else None)
        torch.testing.assert_close(self.weights(model), dict(plain.state_dict()), rtol=0, atol=1e-9)

    def run_step_in_any_order(self, step, model, optimizer, other):
        if step == 1:
            with torch.no_grad():
                model(input_ids=batch_of(0, 5))
            with model.no_sync():
                first, second = (model(input_ids=batch_of(0, part), labels=batch_of(0, part)).loss for part in (0, 1))
                if other is not None:
                    beside = other(input_ids=batch_of(0, 0), labels=batch_of(0, 0)).loss
                first.backward(retain_graph=True)
                first.backward()
                model(input_ids=batch_of(0, 6))  # without a backward pass
                second.backward()
            if other is not None:
                beside.backward()
        if step == 2:
            both = sum(model(input_ids=batch_of(1, part), labels=batch_of(1, part)).loss for part in (0, 1))
            both.backward()  # one backward pass of two forward passes
        else:
            self.backward(model, 2)
        optimizer.step()
        optimizer.zero_grad()

    def test_backward_passes_without_no_sync(self):
        """Each is reduced, as by DistributedDataParallel."""
        for zero in range(4):
            with self.subTest(zero=zero):
                plain = model_of(LLAMA)
                parallel, plain_optimizer = DistributedDataParallel(plain), adamw(plain)
                model, optimizer = self.boosted(zero=zero)
                for each, its_optimizer in ((parallel, plain_optimizer), (model, optimizer)):
                    for step in range(2):
                        for part in range(3):
                            self.backward(each, 10 * step + part)
                        its_optimizer.step()
                        its_optimizer.zero_grad()
                torch.testing.assert_close(self.weights(model), dict(plain.state_dict()), rtol=0, atol=1e-9)

    def test_gradients_of_other_tensors(self):
        """A penalty of the gradient of the inputs, through torch.autograd.grad()."""
        def penalised(model, step):
            embeddings = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(10 * step + RANK), dtype=torch.float64)
            embeddings.requires_grad_()
            outputs = model(inputs_embeds=embeddings).logits
            gradient, = torch.autograd.grad(outputs.square().mean(), embeddings, create_graph=True)
            return outputs.square().mean() + gradient.square().sum()

        # DistributedDataParallel does not support torch.autograd.grad(): the mean of the ranks' gradients is computed here.
        plain = model_of(LLAMA)
        plain.set_attn_implementation("eager")  # the others have no second derivatives
        plain_optimizer = adamw(plain)
        for step in range(2):
            penalised(plain, step).backward()
            for parameter in plain.parameters():
                if parameter.grad is not None:
                    torch.distributed.all_reduce(parameter.grad)
                    parameter.grad /= torch.distributed.get_world_size()
            plain_optimizer.step()
            plain_optimizer.zero_grad()
        for zero in (0, 3):
            with self.subTest(zero=zero):
                model, optimizer = self.boosted(zero=zero)
                model.set_attn_implementation("eager")
                for step in range(2):
                    penalised(model, step).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                torch.testing.assert_close(self.weights(model), dict(plain.state_dict()), rtol=0, atol=1e-9)

    def test_graphs_do_not_outlive_changes_of_what_they_saved(self):
        for layout in ({"zero": 0}, {"zero": 3}, {"zero": 1, "offload": {"parameters": "host"}}):
            with self.subTest(**layout):
                model, optimizer = self.boosted(**layout)
                with model.no_sync():
                    early = model(input_ids=batch_of(0, 0), labels=batch_of(0, 0)).loss
                self.backward(model)
                optimizer.step()
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    early.backward()
                hidden = model(input_ids=batch_of(0, 0)).logits
                product = hidden.exp()
                with torch.no_grad():
                    product.zero_()
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    product.sum().backward()
                self.backward(model)
                optimizer.step()

    def test_parts_are_called_by_themselves(self):
        """A program may call parts of the model in place of the model."""
        found = []
        for in_parts, layout in ((False, {"zero": 3}), (True, {"zero": 3}), (True, {"zero": 0}), (True, {"zero": 2}),
                                 (True, {"zero": 1, "offload": {"activations": "host"}})):
            model, optimizer = self.boosted(**layout)
            for step in range(3):
                inputs = batch_of(step, 0)
                if in_parts and step != 1:
                    logits = model.lm_head(model.model(input_ids=inputs).last_hidden_state)
                else:
                    logits = model(input_ids=inputs).logits
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), inputs.flatten()).backward()
                optimizer.step()
                optimizer.zero_grad()
            found.append(self.weights(model))
        for each in found[1:]:
            torch.testing.assert_close(each, found[0], rtol=0, atol=1e-12)

    def test_weights_of_modules_that_are_not_called(self):
        """nn.MultiheadAttention reads out_proj.weight, and the program the table of its embedding."""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(61, 16)
                layer = torch.nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, batch_first=True)
                self.layers = torch.nn.TransformerEncoder(layer, 2)
                self.scale = torch.nn.Parameter(torch.ones(16))

            def forward(self, ids):
                hidden = self.layers(self.table(ids)) * self.scale
                return torch.nn.functional.linear(hidden, self.table.weight)

        def run(model, optimizer):
            for step in range(3):
                inputs = batch_of(step, 0)
                torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten()).backward()
                optimizer.step()
                optimizer.zero_grad()
        torch.manual_seed(2)
        plain = Net().double()
        model = copy.deepcopy(plain)
        run(DistributedDataParallel(plain), adamw(plain))
        run(*colossal.boost(model, adamw(model), zero=3, chunk_bytes=1024, window_bytes=0))
        torch.testing.assert_close(self.weights(model), dict(plain.state_dict()), rtol=0, atol=1e-9)

    def test_encoder_and_decoder_generate_when_weights_are_sharded(self):
        plain = model_of(T5).eval()
        model = model_of(T5)
        colossal.boost(model, adamw(model), zero=3, chunk_bytes=4096, window_bytes=8192)
        model.eval()
        for seed in (0, 1):
            prompt = batch_of(seed, 0)
            torch.distributed.broadcast(prompt, 0)
            self.assertEqual(model.generate(prompt, max_new_tokens=6, do_sample=False).tolist(),
                             plain.generate(prompt, max_new_tokens=6, do_sample=False).tolist())

    def test_clips_as_torch_does(self):
        for zero in (0, 3):
            found = []
            for boosted in (False, True):
                model = model_of(LLAMA)
                optimizer, parallel = adamw(model), model
                if boosted:
                    colossal.boost(model, optimizer, zero=zero)
                else:
                    parallel = DistributedDataParallel(model)
                for step in range(2):
                    with parallel.no_sync():
                        self.backward(parallel, 3)
                    self.backward(parallel, step)
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                    found.append(norm.double())
                    optimizer.step()
                    optimizer.zero_grad()
                found.append(self.weights(model) if boosted else copy.deepcopy(model.state_dict()))
            torch.testing.assert_close(found[3:5], found[:2], rtol=1e-6, atol=0)
            torch.testing.assert_close(found[5], dict(found[2]), rtol=0, atol=1e-9)
        for call, words in ((lambda: torch.nn.utils.clip_grad_norm_(model.lm_head.parameters(), 1.0), "all its trainable parameters"),
                            (lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=1), "norm_type=2"),
                            (lambda: torch.nn.utils.clip_grad_value_(model.parameters(), 1.0), "clips by norm")):
            with self.assertRaisesRegex(ValueError, words):
                call()
        other = torch.nn.Linear(2, 2)
        other(torch.ones(1, 2)).sum().backward()
        self.assertAlmostEqual(float(torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)), 6 ** 0.5, places=5)

    def test_warms_up_from_nothing(self):
        """The ratios of the groups are those before the scheduler."""
        def make(model):
            optimizer = groups(model)
            self.scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 4)
            return optimizer
        plain = model_of(LLAMA)
        parallel, plain_optimizer = DistributedDataParallel(plain), make(plain)
        plain_scheduler = self.scheduler
        model, optimizer = self.boosted(make)
        for each, its_optimizer, scheduler in ((parallel, plain_optimizer, plain_scheduler), (model, optimizer, self.scheduler)):
            for _ in range(3):
                self.backward(each)
                its_optimizer.step()
                its_optimizer.zero_grad()
                scheduler.step()
        torch.testing.assert_close(self.weights(model), dict(plain.state_dict()), rtol=0, atol=1e-9)

    def test_buffers_are_those_of_rank_0(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        model.register_buffer("mask", torch.tensor([RANK == 0, True]))
        model, _ = colossal.boost(model, torch.optim.AdamW(model.parameters()))
        self.assertTrue(model.mask[0])
        model[1].running_mean.fill_(RANK)
        model[1].momentum = 0.0  # so that the pass itself does not change it
        with torch.no_grad():
            model(torch.ones(2, 3))
        self.assertEqual(model[1].running_mean.tolist(), [0.0] * 4)

    def test_says_what_it_cannot_do(self):
        model = model_of(LLAMA)
        with self.assertRaisesRegex(ValueError, "not the model's"):
            colossal.boost(model, torch.optim.AdamW([torch.nn.Parameter(torch.zeros(2))]))
        with self.assertRaisesRegex(ValueError, "trainable parameters of the model are not in the optimizer"):
            colossal.boost(model, torch.optim.AdamW(model.lm_head.parameters()))
        with self.assertRaisesRegex(ValueError, "for an optimizer by name"):
            colossal.boost(model, adamw(model), lr=1.0)
        with self.assertRaisesRegex(ValueError, "amsgrad=True"):
            colossal.boost(model, torch.optim.AdamW(model.parameters(), amsgrad=True))
        with self.assertRaisesRegex(ValueError, 'nearest: "adamw"'):
            colossal.boost(model, "adamv")
        model = model_of(LLAMA)
        model, optimizer = colossal.boost(model, adamw(model), zero=3, dtype="fp64")
        with self.assertRaisesRegex(ValueError, "takes a model once"):
            colossal.boost(model, optimizer)
        with self.assertRaisesRegex((ValueError, RuntimeError), "cannot be copied|not on this device now"):
            copy.deepcopy(model)
        model.to("cpu:0")  # as Trainer does
        with self.assertRaisesRegex(ValueError, "pass dtype="):
            model.half()
        with self.assertRaisesRegex(RuntimeError, "not on this device now: they are sharded"):
            model.model.norm.weight.sum()
        inputs = batch_of(0, 0)
        with model.no_sync():
            model(input_ids=inputs, labels=inputs).loss.backward()
        with self.assertRaisesRegex(ValueError, "outside of no_sync"):
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    unittest.main(verbosity=2)
