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
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

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
        optimizer.step()
        self.assertEqual(sorted(set(called)), ["after", "before"])
        self.assertGreater(len(packed), 10)

        def fail(parameter):
            raise KeyError("of the program")
        model.model.norm.weight.register_hook(fail)
        with self.assertRaises(KeyError):
            model(input_ids=inputs, labels=inputs).loss.backward()

    def test_says_what_it_cannot_do(self):
        model = model_of(LLAMA)
        with self.assertRaisesRegex(ValueError, "not the model's"):
            colossal.boost(model, torch.optim.AdamW([torch.nn.Parameter(torch.zeros(2))]))
        with self.assertRaisesRegex(ValueError, "amsgrad=True"):
            colossal.boost(model, torch.optim.AdamW(model.parameters(), amsgrad=True))
        with self.assertRaisesRegex(ValueError, 'nearest: "adamw"'):
            colossal.boost(model, "adamv")
        model = model_of(LLAMA)
        model, optimizer = colossal.boost(model, adamw(model), zero=3, dtype="fp64")
        with self.assertRaisesRegex(ValueError, "takes a model once"):
            colossal.boost(model, optimizer)
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
