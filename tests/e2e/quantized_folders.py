"""What tests of folders with weights in few bits share."""
import json
import pathlib
import shutil
import subprocess
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, CompressedTensorsConfig, LlamaForCausalLM

from harness import COLOSSAL, CORPUS, EndToEndTest

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


class QuantizedFolderTest(EndToEndTest):
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

    def check_form(self, name, flags, bits):
        """A folder written with these flags is what its form says, to us and to the form's own library."""
        tokens = torch.arange(64).view(2, 32) * 3 % 257
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
