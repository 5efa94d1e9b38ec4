"""Trainers of TRL, adapters of PEFT and accelerate's loop, unmodified but for colossal.boost(), beside themselves with DistributedDataParallel: the
same curves and weights, in fp64.

  python -m torch.distributed.run --standalone --nproc-per-node=2 integration_cases.py
"""
import contextlib
import copy
import os
import tempfile
import unittest

import accelerate
import datasets
import peft
import tokenizers
import torch
import torch.distributed
import transformers
import trl

import colossal
from architectures import VOCABULARY, batch_of, model_of

RANK = int(os.environ["RANK"])
WORDS = ["[PAD]", "[BOS]", "[EOS]", *(f"w{index}" for index in range(3, VOCABULARY))]


def tokenizer():
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[PAD]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]")


def text(seed, count):
    numbers = torch.randint(3, VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))
    return " ".join(WORDS[number] for number in numbers)


SFT_ROWS = datasets.Dataset.from_list([{"text": text(row, 5 + row % 7)} for row in range(48)])  # of different lengths: padded
DPO_ROWS = datasets.Dataset.from_list([{"prompt": text(row, 4), "chosen": " " + text(100 + row, 3 + row % 4),
                                        "rejected": " " + text(200 + row, 4)} for row in range(48)])


class Curve(transformers.TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **options):
        self.seen += [float(logs[key]) for key in ("loss", "grad_norm") if key in logs]


def trained(make, zero):
    """The curve and the weights. make: makes a trainer of a model and options; zero: None: DistributedDataParallel"""
    model, curve = model_of("qwen2"), Curve()
    with tempfile.TemporaryDirectory() as directory:
        settings = {"output_dir": directory, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 4,
                    "learning_rate": 1e-2, "max_grad_norm": 0.5, "logging_steps": 1, "save_strategy": "no", "use_cpu": True,
                    "report_to": [], "disable_tqdm": True, "seed": 5, "ddp_backend": "gloo", "dataloader_pin_memory": False, "bf16": False,
                    "gradient_checkpointing": False}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if zero is not None:
            model, optimizer = colossal.boost(model, optimizer, zero=zero)
        trainer = make(model, settings, {"callbacks": [curve], "processing_class": tokenizer(), "optimizers": (optimizer, None)})
        trainer.train()
    if zero is None:
        return curve.seen, copy.deepcopy(model.state_dict())
    with colossal.gather(model):
        return curve.seen, copy.deepcopy(model.state_dict())


class Integrations(unittest.TestCase):
    def check(self, make):
        curve = self.compare(lambda zero: trained(make, zero), (0, 1, 3), rtol=1e-5, atol=1e-7)
        self.assertGreater(len(curve), 6)

    def compare(self, run, stages, rtol, atol):
        """run: gives the curve and the weights at a ZeRO stage, or, for None, with DistributedDataParallel. Returns that curve."""
        expected, expected_weights = run(None)
        for zero in stages:
            with self.subTest(zero=zero):
                found, weights = run(zero)
                torch.testing.assert_close(found, expected, rtol=rtol, atol=0)
                self.assertEqual(weights.keys(), expected_weights.keys())
                for name, weight in expected_weights.items():
                    torch.testing.assert_close(weights[name], weight, rtol=0, atol=atol, msg=lambda words, name=name: f"{name}: {words}")
        return expected

    def test_sft_of_trl(self):
        self.check(lambda model, settings, options: trl.SFTTrainer(
            model=model, args=trl.SFTConfig(**settings, max_length=12), train_dataset=SFT_ROWS, **options))

    def test_dpo_of_trl(self):
        self.check(lambda model, settings, options: trl.DPOTrainer(
            model=model, ref_model=model_of("qwen2"), args=trl.DPOConfig(**settings, max_length=16), train_dataset=DPO_ROWS, **options))

    def test_adapters_of_peft(self):
        """Only the adapter is trained; the other weights are divided at ZeRO 3, too."""
        def run(zero):
            torch.manual_seed(3)
            model = peft.get_peft_model(model_of("llama"), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"])).double()
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            self.assertLess(sum(each.numel() for each in trained), sum(each.numel() for each in model.parameters()) / 2)
            optimizer, parallel = torch.optim.AdamW(trained, lr=1e-2), model
            if zero is None:
                parallel = torch.nn.parallel.DistributedDataParallel(model)
            else:
                colossal.boost(model, optimizer, zero=zero, chunk_bytes=4096, window_bytes=8192)
            losses = []
            for step in range(3):
                loss = parallel(**batch_of("llama", 10 * step + RANK)).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
            with contextlib.nullcontext() if zero is None else colossal.gather(model):
                return losses, copy.deepcopy(model.state_dict())
        self.compare(run, (0, 1, 3), rtol=1e-9, atol=1e-9)

    def test_accelerate(self):
        def run(zero):
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
            model = model_of("llama")
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
            if zero is not None:
                model, optimizer = colossal.boost(model, optimizer, zero=zero)
            rows = [{key: value[0] for key, value in batch_of("llama", seed).items()} for seed in range(24)]
            loader = torch.utils.data.DataLoader(rows, batch_size=2)
            run_model, run_optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
            losses = []
            for batch in loader:
                with accelerator.accumulate(run_model):
                    loss = run_model(**batch).loss
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        losses.append(float(accelerator.clip_grad_norm_(run_model.parameters(), 0.5)))
                    run_optimizer.step()
                    scheduler.step()
                    run_optimizer.zero_grad()
                losses.append(loss.item())
            if zero is None:
                return losses, copy.deepcopy(model.state_dict())
            with colossal.gather(model):
                return losses, copy.deepcopy(model.state_dict())
        self.compare(run, (0, 2, 3), rtol=1e-6, atol=1e-8)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    unittest.main(verbosity=2)
