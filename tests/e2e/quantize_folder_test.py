"""`colossal convert --quantize`: folders with weights in few bits, and what calibration is worth."""
import json
import unittest

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GPT2LMHeadModel, PreTrainedTokenizerFast

from harness import CORPUS
from quantized_folders import QuantizedFolderTest, decoded, unpacked, weights_of

GPT2_SIZES = ["--model.n_layer=3", "--model.n_embd=64", "--model.n_head=4", "--model.n_inner=192", "--model.vocab_size=257",
              "--model.n_positions=128"]


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


class QuantizeFolder(QuantizedFolderTest):
    def test_what_is_written_is_read_as_its_form_is_published(self):
        for name, flags, bits in (("int4", ["--quantize=int4", "--quantize-group=32", *self.calibrated("gptq")], 4),
                                  ("fp8", ["--quantize=fp8"], 8)):
            with self.subTest(name):
                self.check_form(name, flags, bits)

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


if __name__ == "__main__":
    unittest.main()
