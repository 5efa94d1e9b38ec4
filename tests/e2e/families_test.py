"""Folders of every family, of every type and in shards: what a run reads and saves again, at any layout, is what transformers wrote."""
import json
import subprocess
import unittest

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, Gemma3Config,
                          Gemma3ForConditionalGeneration)
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import COLOSSAL, CORPUS, ROOT, EndToEndTest

SUPPORT = ROOT / "tests" / "support"
ENCODERS = json.loads((SUPPORT / "encoders.json").read_text())
ENCODER_DECODERS = json.loads((SUPPORT / "encoder_decoders.json").read_text())
BASES = {**json.loads((SUPPORT / "families.json").read_text()), **ENCODERS, **ENCODER_DECODERS}
# In turns, each with the next family.
TYPES = [torch.float32, torch.bfloat16, torch.float16]
SHARDS = ["1GB", "20KB"]
LAYOUTS = [(1, []), (2, ["--parallel.tp=2"]), (2, ["--parallel.zero=3"]), (2, ["--parallel.pp=2"])]


def tensors(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name) for name in file.keys()})
    return found


class Families(EndToEndTest):
    def check(self, family, dtype, shard, ranks, flags):
        folder = self.directory / family
        torch.manual_seed(1)
        masks = family in ENCODERS or family in ENCODER_DECODERS
        fields = dict(BASES[family], vocab_size=258 if masks else 257)  # with a row for masks
        kind = (AutoModelForMaskedLM if family in ENCODERS else AutoModelForSeq2SeqLM if family in ENCODER_DECODERS
                else AutoModelForCausalLM)
        positions = {"t5": "n_positions", "mt5": "n_positions", "gpt2": "n_positions", "gptj": "n_positions", "bloom": "seq_length"}
        fields[positions.get(family, "max_position_embeddings")] = 36
        model = kind.from_config(CONFIG_MAPPING[family](**fields)).to(dtype)
        model.save_pretrained(folder, max_shard_size=shard)
        self.assertEqual(len(list(folder.glob("*.safetensors"))) > 1, shard != "1GB")
        self.use_folder(folder)
        # A rate of 0 leaves the weights as they are.
        self.train(*self.flags(family), *flags, "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32",
                   ranks=ranks)
        saved = self.directory / family / "checkpoints" / "step-000001"
        expected, found = tensors(folder), tensors(saved)
        expected.pop("final_logits_bias", None)  # zeros, which no class of transformers misses
        self.assertEqual(found.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertTrue(torch.equal(found[name], tensor.to(found[name].dtype)), name)
        opened, report = kind.from_pretrained(saved, output_loading_info=True, dtype=torch.float32)
        self.assertFalse(report["missing_keys"] or report["unexpected_keys"], report)
        tokens = torch.arange(20).view(2, 10)
        original = kind.from_pretrained(folder, dtype=torch.float32)
        inputs = {"input_ids": tokens}
        if family in ENCODER_DECODERS:
            inputs["decoder_input_ids"] = tokens.flip(1)
        self.assertTrue(torch.equal(opened(**inputs).logits, original(**inputs).logits))

    def test_the_text_model_of_a_folder_for_images_too(self):
        text = dict(BASES["gemma3_text"], vocab_size=257, max_position_embeddings=32)
        vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                      patch_size=4)
        torch.manual_seed(1)
        model = Gemma3ForConditionalGeneration(Gemma3Config(
            text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=250,
            boi_token_index=251, eoi_token_index=252))
        tokens = torch.arange(20).view(2, 10)
        for published in (True, False):
            folder = self.directory / f"nested-{published}"
            model.save_pretrained(folder)  # under the names that the hub's folders have
            if not published:
                weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
                save_file(weights, folder / "model.safetensors", {"format": "pt"})
            self.use_folder(folder)
            run = f"nested-run-{published}"
            self.train(*self.flags(run), "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32")
            opened, report = AutoModelForCausalLM.from_pretrained(
                self.directory / run / "checkpoints" / "step-000001", output_loading_info=True)
            self.assertEqual(type(opened).__name__, "Gemma3ForCausalLM")
            self.assertFalse(report["missing_keys"] or report["unexpected_keys"], report)
            self.assertTrue(torch.equal(opened(tokens).logits, model(tokens).logits))

    def expect_saved(self, name, folder, expected):
        """What a run saves, that leaves the weights as they are, is this."""
        self.use_folder(folder)
        self.train(*self.flags(name), "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32",
                   "--parallel.tp=2", ranks=2)
        saved = self.directory / name / "checkpoints" / "step-000001"
        found = tensors(saved)
        self.assertEqual(found.keys(), expected.keys())
        for tensor, numbers in expected.items():
            self.assertTrue(torch.equal(found[tensor], numbers.to(found[tensor].dtype)), tensor)
        self.assertNotIn("quantization_config", json.loads((saved / "config.json").read_text()))

    def save_as(self, folder, family, weights, fields, **sizes):
        """A folder whose tensors are what weights() makes of a model's; returns what they stand for."""
        torch.manual_seed(1)
        config = CONFIG_MAPPING[family](**{**BASES[family], "vocab_size": 257, "max_position_embeddings": 32, **sizes})
        AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
        stored, expected = {}, {}
        for name, tensor in tensors(folder).items():
            made, decoded = weights(name, tensor)
            stored.update(made)
            expected[name] = decoded
        save_file(stored, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = fields
        (folder / "config.json").write_text(json.dumps(config))
        return expected

    def test_weights_in_blocks_of_fp8(self):
        def scaled(name, tensor):
            if tensor.dim() != 2 or "_proj" not in name:
                return {name: tensor}, tensor
            rows, columns = (-(-size // 128) for size in tensor.shape)
            scales = torch.rand(rows, columns) * 0.01 + 0.001
            spread = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:tensor.shape[0], :tensor.shape[1]]
            numbers = (tensor.float() / spread).clamp(-448, 448).to(torch.float8_e4m3fn)
            return ({name: numbers, name + "_scale_inv": scales}, (numbers.float() * spread).to(torch.bfloat16))

        folder = self.directory / "fp8"
        expected = self.save_as(folder, "deepseek_v3", scaled, dict(
            quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128]),
            hidden_size=144, intermediate_size=200)
        self.expect_saved("fp8-run", folder, expected)
        self.expect_used(folder, as_stored=True, delta=1e-3)  # numbers are rounded to bf16

    def grouped(self, tensor, bits, group, symmetric, scale_type, order=None):
        """Codes [out, in], scales and zeros [out, groups], and the numbers that they stand for. order: the group of each
        input."""
        outputs, inputs = tensor.shape
        group = inputs if group < 0 else group
        groups = inputs // group
        most = 2 ** bits - 1
        order = torch.arange(inputs) // group if order is None else order
        codes = torch.randint(0, most + 1, (outputs, inputs))
        scales = (torch.rand(outputs, groups) * 0.01 + 0.001).to(scale_type)
        middle = 2 ** (bits - 1)
        zeros = torch.full((outputs, groups), middle) if symmetric else torch.randint(0, most + 1, (outputs, groups))
        return codes, scales, zeros, (codes - zeros[:, order]) * scales.float()[:, order]

    def packed(self, codes, bits):
        """Along the last dim, the first in the lowest bits of a word of 32."""
        count = 32 // bits
        words = F.pad(codes, (0, -codes.shape[-1] % count)).unflatten(-1, (-1, count))
        whole = (words << (torch.arange(count) * bits)).sum(-1)
        return torch.where(whole >= 2 ** 31, whole - 2 ** 32, whole).to(torch.int32).contiguous()

    def expect_used(self, folder, as_stored, delta=2e-6):
        """The weights give the loss that their numbers give, and stay in few bits where products can use them."""
        losses = []
        for flags in ([], ["--quantize=none"]):
            done = subprocess.run([str(COLOSSAL), "evaluate", str(folder), f"--data={CORPUS}", "--tokenizer=bytes", "--json",
                                   "--precision.compute=fp32", "--train.threads=1", *flags], capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append(json.loads(done.stdout)["loss"])
            if not flags:
                self.assertEqual("dequantized: the kernels" in done.stderr, not as_stored, done.stderr)
        self.assertAlmostEqual(*losses, delta=delta)

    def read_as(self, name, weights, fields, family="llama", as_stored=True):
        def of_projections(tensor_name, tensor):
            if "_proj" not in tensor_name:
                return {tensor_name: tensor}, tensor
            return weights(tensor_name.removesuffix("weight"), tensor)

        folder = self.directory / name
        expected = self.save_as(folder, family, of_projections, fields, hidden_size=96, intermediate_size=64)
        self.expect_saved(name + "-run", folder, expected)
        self.expect_used(folder, as_stored)

    def test_weights_of_gptq(self):
        for bits, symmetric, act_order, version, group in ((4, False, False, None, 32), (4, True, True, "gptq", 32),
                                                           (8, True, False, "gptq_v2", 16), (8, False, False, "gptq", -1)):
            def packed(name, tensor):
                order = torch.randperm(tensor.shape[1]) // group if act_order else None
                codes, scales, zeros, numbers = self.grouped(tensor, bits, group, symmetric, torch.float16, order)
                stored_zeros = zeros if version == "gptq_v2" else (zeros - 1) % 2 ** bits
                made = {name + "qweight": self.packed(codes, bits).T.contiguous(),
                        name + "qzeros": self.packed(stored_zeros.T, bits), name + "scales": scales.T.contiguous()}
                if act_order:
                    made[name + "g_idx"] = order.to(torch.int32)
                if "o_proj" in name:
                    made[name + "bias"] = torch.zeros(tensor.shape[0], dtype=torch.float16)
                return made, numbers

            fields = dict(quant_method="gptq", bits=bits, group_size=group, sym=symmetric, desc_act=act_order)
            if version:
                fields["checkpoint_format"] = version
            with self.subTest(fields):
                # Groups of inputs in any order, of 16, and 8 bits with zero points become numbers.
                as_stored = bits == 4 and not act_order
                self.read_as(f"gptq-{bits}-{symmetric}-{version}", packed, fields, "phi3" if group < 0 else "llama",
                             as_stored)

    def test_weights_of_awq(self):
        def packed(name, tensor):
            codes, scales, zeros, numbers = self.grouped(tensor, 4, 32, False, torch.float16)
            order = [0, 2, 4, 6, 1, 3, 5, 7]
            in_words = lambda rows: self.packed(rows.unflatten(-1, (-1, 8))[..., order].flatten(-2), 4)
            return ({name + "qweight": in_words(codes.T), name + "qzeros": in_words(zeros.T),
                     name + "scales": scales.T.contiguous()}, numbers)

        self.read_as("awq", packed, dict(quant_method="awq", bits=4, group_size=32, version="gemm", zero_point=True))

    def test_weights_of_compressed_tensors(self):
        for bits, symmetric, group in ((4, False, 32), (8, True, -1)):
            def packed(name, tensor):
                codes, scales, zeros, numbers = self.grouped(tensor, bits, group, symmetric, torch.bfloat16)
                made = {name + "weight_packed": self.packed(codes, bits), name + "weight_scale": scales,
                        name + "weight_shape": torch.tensor(tensor.shape)}
                if not symmetric:
                    made[name + "weight_zero_point"] = self.packed(zeros.T, bits).T.contiguous()
                return made, numbers

            strategy = dict(strategy="channel") if group < 0 else dict(strategy="group", group_size=group)
            weights = dict(num_bits=bits, type="int", symmetric=symmetric, **strategy)
            self.read_as(f"packed-{bits}", packed, dict(
                quant_method="compressed-tensors", format="pack-quantized", config_groups=dict(
                    group_0=dict(targets=["Linear"], weights=weights))))

    def test_weights_in_8_bits_with_scales(self):
        """compressed-tensors' fp8 and int8: a scale of the whole, of each row, of groups of a row, of blocks."""
        def index_of(name, rows, columns):
            """The scale of each number, and the shape of scales."""
            row, column = torch.arange(rows)[:, None], torch.arange(columns)[None]
            if "q_proj" in name:
                return (row + column) * 0, (1,)
            if "k_proj" in name:
                return row + column * 0, (rows, 1)
            if "v_proj" in name or "up_proj" in name:
                return row * (columns // 32) + column // 32, (rows, columns // 32)
            across = -(-columns // 40)
            return row // 24 * across + column // 40, (-(-rows // 24), across)

        for kind in ("float", "int"):
            def scaled(name, tensor):
                index, shape = index_of(name, *tensor.shape)
                scales = torch.rand(int(index.max()) + 1) * 0.01 + 0.001
                if kind == "float":
                    codes = (tensor.float() / scales[index]).clamp(-448, 448).to(torch.float8_e4m3fn)
                else:
                    codes = torch.randint(-128, 128, tensor.shape, dtype=torch.int8)
                made = {name + "weight": codes, name + "weight_scale": scales.reshape(shape)}
                if "q_proj" in name:
                    made[name + "input_scale"] = torch.ones(1)
                return made, codes.float() * scales[index]

            weights = dict(num_bits=8, type=kind, strategy="block", block_structure=[24, 40])
            with self.subTest(kind):
                self.read_as(f"scaled-{kind}", scaled, dict(
                    quant_method="compressed-tensors", format=f"{kind}-quantized", config_groups=dict(group_0=dict(
                        targets=["Linear"], weights=weights, input_activations=dict(num_bits=8, dynamic=True)))))

    def test_weights_in_mxfp4(self):
        def microscaled(name, tensor):
            if "experts" not in name or name.endswith("_bias"):
                return {name: tensor}, tensor
            experts, inputs, outputs = tensor.shape
            blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
            scales = torch.randint(118, 126, (experts, outputs, inputs // 32), dtype=torch.uint8)
            return ({name + "_blocks": blocks, name + "_scales": scales},
                    convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16).contiguous())

        folder = self.directory / "mxfp4"
        expected = self.save_as(folder, "gpt_oss", microscaled, dict(quant_method="mxfp4"), hidden_size=64,
                                intermediate_size=96)
        self.expect_saved("mxfp4-run", folder, expected)

    def test_every_family(self):
        for index, family in enumerate(BASES):
            with self.subTest(family):
                self.check(family, TYPES[index % len(TYPES)], SHARDS[index // 2 % len(SHARDS)],
                           *LAYOUTS[index % len(LAYOUTS)])

    def test_experts_that_ranks_share_out(self):
        self.check("qwen3_moe", torch.float32, "1GB", 3, ["--parallel.ep=3"])


if __name__ == "__main__":
    unittest.main()
