"""Encoders at further layouts, with adapters, and from folders of other kinds."""
import unittest

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from encoder_models import ENCODERS, EncoderTest, config_of, texts
from harness import CORPUS


class EncodersElsewhere(EncoderTest):
    def test_masked_tokens_give_the_same_losses_at_every_layout(self):
        self.use("bert-tiny")
        more = ["--train.steps=5", "--train.seed=3", "--precision.compute=fp32"]
        flags = ["--train.steps=3", f"--data.validation={CORPUS}", *more[1:]]
        self.train(*self.flags("alone"), *flags)
        expected = self.losses("alone")
        self.assertEqual(set(expected), {1, 2, 3})
        self.assertAlmostEqual(expected[1], 5.6, delta=0.3)  # about ln 258 at the start
        layouts = {"auto2": ["--parallel.strategy=auto"], "2d": ["--parallel.tp=4", "--parallel.tp_mode=2d"],
                   "pp2": ["--parallel.pp=2"], "zero3": ["--parallel.zero=3"],
                   "ulysses": ["--parallel.sp=2", "--parallel.sp_mode=ulysses", "--memory.recompute=full"]}
        for name, layout in layouts.items():
            with self.subTest(name):
                self.train(*self.flags(name), *flags, *layout, ranks=4 if name == "2d" else 2)
                found = self.losses(name)
                for step, loss in expected.items():
                    self.assertAlmostEqual(found[step], loss, delta=2e-5)

    def test_tags_and_numbers_are_those_of_transformers(self):
        for family in ("bert", "modernbert", "llama"):
            for problem in ("multi_label_classification", "regression"):
                with self.subTest(family=family, problem=problem):
                    self.check_labels(family, problem)

    def test_an_adapter_labels_texts(self):
        lines = texts(24)
        for family, head in (("bert", "classifier,pooler.dense"), ("llama", "score")):
            with self.subTest(family):
                kind = AutoModelForMaskedLM if family == "bert" else AutoModelForCausalLM
                config = config_of(family, vocab_size=90)
                folder = self.save(family, kind.from_config(config))
                self.toml.write_text(
                    f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.write_lines("train.jsonl", lines)}"]\n')
                run = self.directory / f"{family}-run"
                error = self.tune("--train.steps=2", "--adapter.kind=lora", expect=2)
                self.assertIn("adapter.modules_to_save", error)
                self.tune("--train.steps=4", "--train.global_batch=6", "--adapter.kind=lora", "--optimizer.learning_rate=0.01",
                          f"--adapter.modules_to_save={head}", f"--checkpoint.directory={run}")
                adapter = run / "step-000004"
                with_adapter, _ = self.classify(folder, lines, f"--adapter={adapter}")
                self.assertEqual(set(with_adapter[0]["probabilities"]), {"no", "so-so", "yes"})
                merged = self.directory / f"{family}-merged"
                self.run_command("convert", folder, merged, f"--merge-adapter={adapter}")
                whole, _ = self.classify(merged, lines)
                for a, b in zip(with_adapter, whole):
                    for x, y in zip(a["probabilities"].values(), b["probabilities"].values()):
                        self.assertAlmostEqual(x, y, delta=1e-5)
                expected = self.expected_scores(merged, lines).softmax(-1)
                for line, probabilities in zip(whole, expected):
                    values = torch.tensor(list(line["probabilities"].values()))
                    self.assertLess((values - probabilities).abs().max().item(), 5e-5)

    def test_folders_without_a_head_and_with_old_names_are_read(self):
        torch.manual_seed(2)
        for family in ENCODERS:
            with self.subTest(family):
                bare = self.save(f"{family}-bare", AutoModel.from_config(config_of(family, vocab_size=257)))
                self.use_folder(bare)
                self.train(*self.flags(f"{family}-run"), "--train.steps=1", "--optimizer.learning_rate=0",
                           "--data.tokenizer=bytes", expect=2)  # no row for a mask
                self.train(*self.flags(f"{family}-run"), "--train.steps=1", "--optimizer.learning_rate=0",
                           "--train.dropout=0", "--data.tokenizer=model", "--precision.compute=fp32")
                saved = self.newest(f"{family}-run")
                model = AutoModelForMaskedLM.from_pretrained(saved, dtype=torch.float32)
                for name, tensor in load_file(bare / "model.safetensors").items():
                    if "pooler" not in name:
                        self.assertTrue(torch.equal(model.base_model.state_dict()[name], tensor), name)
        old = self.save("old", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        tensors = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
                   for name, tensor in load_file(old / "model.safetensors").items()}
        new = AutoModelForMaskedLM.from_pretrained(old)
        save_file(tensors, old / "model.safetensors", {"format": "pt"})
        self.use_folder(old)
        self.train(*self.flags("old-run"), "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32")
        saved = AutoModelForMaskedLM.from_pretrained(self.newest("old-run"), dtype=torch.float32)
        for name, tensor in new.state_dict().items():
            self.assertTrue(torch.equal(saved.state_dict()[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
