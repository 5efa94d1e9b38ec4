"""`colossal convert --quantize`: folders with weights in few bits, and what calibration is worth."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file
from transformers import (AutoModelForCausalLM, CompressedTensorsConfig, GPT2LMHeadModel, LlamaForCausalLM,
                          PreTrainedTokenizerFast)

from harness import COLOSSAL, CORPUS, STDLIB, EndToEndTest

GPT2_SIZES = ["--model.n_layer=3", "--model.n_embd=64", "--model.n_head=4", "--model.n_inner=192", "--model.vocab_size=257",
              "--model.n_positions=128"]
SIZES = ["--model.num_hidden_layers=3", "--model.hidden_size=64", "--model.head_dim=16", "--model.num_attention_heads=4",
         "--model.num_key_value_heads=4", "--model.intermediate_size=128", "--model.vocab_size=257",
         "--model.max_position_embeddings=128"]


def unpacked(words, count, bits):
    """Codes along the last dim, of compressed-tensors' words: signed ones, moved up."""
    shifts = torch.arange(32 // bits) * bits
    codes = (words.to(torch.int64)[..., None] >> shifts) & (2 ** bits - 1)
    return codes.flatten(-2)[..., :count] - 2 ** (bits - 1)


def weights_of(folder):
    return next(folder.glob("*.safetensors"))


def decoded(folder, bits):
    """The weights of a folder, as its form is published."""
    stored, weights = load_file(weights_of(folder)), {}
    for name, tensor in stored.items():
        module, kind = name.rsplit(".", 1)
        scale = stored.get(module + ".weight_scale")
        if kind == "weight" and scale is not None:  # fp8
            weights[name] = tensor.float() * scale.float()
        if kind != "weight_packed":
            if kind.startswith("weight_") or name in weights:
                continue
            weights[name] = tensor
            continue
        outputs, inputs = stored[module + ".weight_shape"].tolist()
        codes = unpacked(tensor, inputs, bits)
        zeros = stored.get(module + ".weight_zero_point")
        zeros = torch.zeros_like(scale) if zeros is None else unpacked(zeros.T, outputs, bits).T
        group = inputs // scale.shape[1]
        weights[module + ".weight"] = ((codes - zeros.repeat_interleave(group, 1))
                                       * scale.float().repeat_interleave(group, 1)).float()
    return weights


def decoded_gptq(folder):
    """The weights of a folder in GPTQ's format: [in, out], as Conv1D has them."""
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    bits, less_one = config["bits"], config["checkpoint_format"] == "gptq"
    stored, weights = load_file(weights_of(folder)), {}
    middle = 2 ** (bits - 1)
    for name, tensor in stored.items():
        module, kind = name.rsplit(".", 1)
        if kind == "qweight":
            groups, scales = stored[module + ".g_idx"].long(), stored[module + ".scales"]
            codes = unpacked(tensor.T, len(groups), bits).T + middle
            zeros = unpacked(stored[module + ".qzeros"], scales.shape[1], bits) + middle + less_one
            weights[module + ".weight"] = ((codes - zeros[groups]) * scales.float()[groups]).float()
        elif module + ".qweight" not in stored or kind == "bias":
            weights[name] = tensor
    return weights


class QuantizeFolder(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.model = cls.trained("llama-tiny", SIZES, 150)

    @classmethod
    def trained(cls, preset, sizes, steps):
        toml = cls.root / f"{preset}.toml"
        toml.write_text(f'[model]\npreset = "{preset}"\n[data]\ntrain = ["{CORPUS}"]\nsequence_length = 128\n')
        cls.call("train", toml, *sizes, f"--train.steps={steps}", "--train.global_batch=16", "--optimizer.learning_rate=5e-3",
                 "--precision.compute=fp32", "--train.threads=2", f"--log.directory={cls.root / preset / 'log'}",
                 f"--checkpoint.directory={cls.root / preset / 'checkpoints'}")
        return cls.root / preset / "checkpoints" / f"step-{steps:06}"

    @classmethod
    def call(cls, *arguments, expect=0):
        done = subprocess.run([str(COLOSSAL), *map(str, arguments)], capture_output=True, text=True, timeout=300)
        assert done.returncode == expect, done.stdout + done.stderr
        return done

    def convert(self, name, *flags, expect=0, model=None):
        folder = self.root / name
        done = self.call("convert", model or self.model, folder, *flags, "--train.threads=1", expect=expect)
        return folder if expect == 0 else done.stderr

    def loss(self, folder, *flags):
        done = self.call("evaluate", folder, f"--data={CORPUS}", "--sequence-length=128", "--train.threads=2", "--json",
                         *flags)
        return json.loads(done.stdout)["loss"]

    def calibrated(self, method):
        return [f"--calibrate={method}", f"--data={CORPUS}", "--samples=24"] if method != "none" else []

    def test_what_is_written_is_read_as_its_form_is_published(self):
        tokens = torch.arange(64).view(2, 32) * 3 % 257
        for name, flags, bits in (("int4", ["--quantize=int4", "--quantize-group=32", *self.calibrated("gptq")], 4),
                                  ("symmetric", ["--quantize=int4", "--symmetric", *self.calibrated("gptq")], 4),
                                  ("int8", ["--quantize=int8", *self.calibrated("awq")], 8), ("fp8", ["--quantize=fp8"], 8)):
            with self.subTest(name):
                folder = self.convert("form-" + name, *flags)
                weights = decoded(folder, bits)
                has_zeros = any(key.endswith("weight_zero_point") for key in load_file(weights_of(folder)))
                self.assertEqual(has_zeros, name == "int4")
                original = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
                model = LlamaForCausalLM(original.config)
                missing = model.load_state_dict(weights, strict=False)
                self.assertFalse(missing.unexpected_keys or set(missing.missing_keys) - {"lm_head.weight"}, missing)
                model.tie_weights()
                plain = self.root / ("decoded-" + name)
                model.save_pretrained(plain)
                shutil.copy(self.model / "tokenizer.json", plain)
                # As the same numbers in a folder of numbers.
                expected = self.loss(plain)
                self.assertAlmostEqual(self.loss(folder), expected, delta=2e-6)
                self.assertAlmostEqual(self.loss(folder, "--quantize=none"), expected, delta=2e-6)
                # By the format's own library. Of zero points its modules have no packed form.
                how = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if has_zeros else {}
                opened = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how)
                with torch.no_grad():
                    torch.testing.assert_close(opened(tokens).logits, model(tokens).logits, rtol=0, atol=1e-5)
                    far = (model(tokens).logits - original(tokens).logits).norm() / original(tokens).logits.norm()
                self.assertLess(far, 0.3)
                told = self.call("generate", folder, "--prompt=def ", "--max-new-tokens=24", "--temperature=0")
                self.assertEqual(told.stdout, self.call("generate", plain, "--prompt=def ", "--max-new-tokens=24",
                                                        "--temperature=0").stdout)
                self.assertLess(weights_of(folder).stat().st_size, 0.5 * weights_of(self.model).stat().st_size)

    def test_groups_of_two_sizes_are_read_by_the_library_of_the_format(self):
        # The last product of an MLP has whole groups of 128 inputs, all others have 64.
        tokens = torch.arange(64).view(2, 32) * 3 % 257
        folder = self.convert("two-groups", "--quantize=int4", "--symmetric", "--quantize-group=128")
        groups = json.loads((folder / "config.json").read_text())["quantization_config"]["config_groups"]
        self.assertEqual(len(groups), 2)
        opened = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        model.load_state_dict(decoded(folder, 4), strict=False)
        with torch.no_grad():
            torch.testing.assert_close(opened(tokens).logits, model(tokens).logits, rtol=0, atol=1e-5)

    def test_products_stored_in_out_are_written_as_gptq(self):
        trained = self.trained("gpt2-tiny", GPT2_SIZES, 60)
        prompt, generation = "def ", ["--max-new-tokens=24", "--temperature=0", "--train.threads=1"]
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(trained / "tokenizer.json"))
        asked = tokenizer(prompt, return_tensors="pt").input_ids
        for name, flags in (("gptq", ["--quantize=int4", "--quantize-group=32", *self.calibrated("gptq")]),
                            ("awq", ["--quantize=int4", "--symmetric", "--quantize-group=0", *self.calibrated("awq")]),
                            ("int8", ["--quantize=int8", *self.calibrated("gptq")]), ("none", ["--quantize=int8"])):
            with self.subTest(name):
                folder = self.convert("in-out-" + name, *flags, model=trained)
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual(config.pop("quantization_config")["quant_method"], "gptq")
                model = GPT2LMHeadModel.from_pretrained(trained, dtype=torch.float32)
                original = model(asked).logits
                missing = model.load_state_dict(decoded_gptq(folder), strict=False)
                self.assertFalse(missing.unexpected_keys or set(missing.missing_keys) - {"lm_head.weight"}, missing)
                self.assertFalse(torch.equal(model(asked).logits, original))
                made = model.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=24, do_sample=False)
                text = tokenizer.decode(made[0, asked.shape[1]:], skip_special_tokens=True)
                for ranks in ([], ["--ranks=2", "--parallel.tp=2"], ["--ranks=2", "--parallel.pp=2"]):
                    told = self.call("generate", folder, f"--prompt={prompt}", *generation, *ranks)
                    self.assertEqual(told.stdout.rstrip("\n"), (prompt + text).rstrip("\n"), ranks)
        for flags, said in ((["--quantize=fp8"], "--quantize=int8 or int4"),
                            (["--quantize=int4", "--quantize-group=96"], "--quantize-group=32, or 0")):
            done = self.convert("in-out-refused", *flags, model=trained, expect=2)
            self.assertIn(said, done)
            self.assertFalse((self.root / "in-out-refused").exists())

    def test_calibration_loses_less(self):
        plain = self.loss(self.model)
        losses = {}
        for method in ("none", "gptq", "awq"):
            folder = self.convert("int4-" + method, "--quantize=int4", *self.calibrated(method))
            losses[method] = self.loss(folder) - plain
        self.assertGreater(losses["none"], 0.0005, losses)
        self.assertLess(losses["gptq"], 0.5 * losses["none"], losses)
        self.assertLess(losses["awq"], losses["none"], losses)

    def test_what_does_not_go_together_is_named(self):
        for flags, said in ((["--calibrate=gptq"], "without --quantize"),
                            (["--symmetric"], "without --quantize"),
                            (["--quantize=int4", "--calibrate=gptq"], "without --data"),
                            (["--quantize=int4", f"--data={CORPUS}"], "without --calibrate"),
                            (["--quantize=fp8", *self.calibrated("awq")], "work for integers only"),
                            (["--quantize=int8-dynamic"], "--quantize=int8"), (["--quantize=int5"], "must be auto, none, int8"),
                            (["--quantize=int4", "--type=q8_0"], "--type=q8_0"),
                            (["--quantize=int4", "--to=gguf"], "gguf"), (["--quantize=int4", "--memory.x=1"], "memory.x"),
                            (["--quantize=int4", "--samples=0", *self.calibrated("gptq")[:2]], "--samples=0"),
                            (["--quantize=int4", "--sequence-length=500", *self.calibrated("gptq")], "128 positions")):
            with self.subTest(flags):
                self.assertIn(said, self.convert("refused", *flags, expect=2))
                self.assertFalse((self.root / "refused").exists())

    def test_a_head_guesses_what_the_model_says(self):
        lines = self.root / "lines.jsonl"
        with open(lines, "w") as file:
            for path in sorted(pathlib.Path(STDLIB, "json").glob("*.py")):
                text = path.read_text()
                for begin in range(0, len(text), 500):
                    file.write(json.dumps({"text": text[begin:begin + 500]}) + "\n")
        toml = self.root / "head.toml"
        toml.write_text(f'[model]\npath = "{self.model}"\n[data]\ntrain = ["{lines}"]\nsequence_length = 128\n')
        self.call("tune", "draft_head", toml, "--train.steps=150", "--train.global_batch=16", "--precision.compute=fp32",
                  "--optimizer.learning_rate=5e-3", "--train.threads=2", f"--log.directory={self.root / 'head-log'}",
                  f"--checkpoint.directory={self.root / 'head'}")
        head = self.root / "head" / "step-000150"
        asked = ["--prompt=def ", "--max-new-tokens=100", "--precision.compute=fp32", "--train.threads=1"]
        for drawn in (["--temperature=0"], ["--temperature=0.8", "--seed=3"]):
            plain = self.call("generate", self.model, *asked, *drawn)
            guessed = self.call("generate", self.model, *asked, *drawn, "--speculate=eagle", f"--draft={head}")
            self.assertEqual(guessed.stdout, plain.stdout)
            right, made = map(int, re.search(r"(\d+) of (\d+) guessed", guessed.stderr).groups())
            self.assertGreater(right / made, 0.25 if drawn == ["--temperature=0"] else 0.1, guessed.stderr)
        for flags, said in (([f"--draft={head}"], "--speculate=eagle"), (["--speculate=eagle"], "without --draft"),
                            (["--speculate=eagle", f"--draft={self.model}"], "no weights of an EAGLE head")):
            self.assertIn(said, self.call("generate", self.model, *asked, *flags, expect=2).stderr)
        self.assertIn("guesses tokens for another model", self.call("generate", head, *asked, expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
