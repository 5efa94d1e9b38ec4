"""`colossal convert`: a folder becomes a GGUF file and a folder again, with the same numbers and the same tokens."""
import json
import re
import struct
import subprocess
import unittest

import torch
from safetensors.torch import load_file
from tokenizers import (ByteLevelBPETokenizer, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)
from transformers import (AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM, MixtralConfig,
                          MixtralForCausalLM, Phi3Config, Phi3ForCausalLM, PreTrainedTokenizerFast, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

from harness import COLOSSAL, EndToEndTest

TEXT = "import json\nfor name in names:\n    print('naïve', name, 1234)  # 日本\n def f(x):\n    return x + 1\n"
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                  r"|\s+(?!\S)|\s+")
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, head_dim=16, initializer_range=0.3, bos_token_id=0, eos_token_id=0,
             pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
FAMILIES = {
    "llama": lambda v: LlamaForCausalLM(LlamaConfig(vocab_size=v, **SIZES, attention_bias=True)),
    "llama3": lambda v: LlamaForCausalLM(LlamaConfig(vocab_size=v, **SIZES, tie_word_embeddings=True,
                                                     rope_parameters=LLAMA3)),
    "qwen2": lambda v: Qwen2ForCausalLM(Qwen2Config(vocab_size=v, **SIZES)),
    "qwen3": lambda v: Qwen3ForCausalLM(Qwen3Config(vocab_size=v, **SIZES)),
    "gemma2": lambda v: Gemma2ForCausalLM(Gemma2Config(vocab_size=v, **SIZES, query_pre_attn_scalar=16,
                                                       sliding_window=8)),
    "phi3": lambda v: Phi3ForCausalLM(Phi3Config(vocab_size=v, **SIZES, sliding_window=9)),
    "mixtral": lambda v: MixtralForCausalLM(MixtralConfig(vocab_size=v, **SIZES, num_local_experts=5,
                                                          num_experts_per_tok=2, sliding_window=None)),
    "qwen3_moe": lambda v: Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=v, **SIZES, num_experts=5,
                                                              num_experts_per_tok=2, moe_intermediate_size=48,
                                                              norm_topk_prob=True)),
}


class Convert(EndToEndTest):
    def call(self, *arguments, code=0):
        done = subprocess.run([COLOSSAL, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def byte_level(self, folder):
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator([TEXT], vocab_size=290, special_tokens=["<|endoftext|>"], show_progress=False)
        PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)
        return trained.get_vocab_size()

    def with_bytes_to_fall_back_on(self, folder):
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                               decoders.Strip(" ", 1, 0)])
        special = ["<s>", "<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
        tokenizer.train_from_iterator([TEXT.replace("日本", "")], trainers.BpeTrainer(
            vocab_size=330, special_tokens=special, show_progress=False))
        data = json.loads(tokenizer.to_str())
        data["added_tokens"] = data["added_tokens"][:2]  # bytes are plain tokens
        folder.mkdir()
        (folder / "tokenizer.json").write_text(json.dumps(data))
        PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>",
                                unk_token="<unk>").save_pretrained(folder)
        return tokenizer.get_vocab_size()

    def folder(self, name, tokenizer=None, family=None):
        folder, family = self.directory / name, family or name
        vocabulary = (tokenizer or self.byte_level)(folder)
        torch.manual_seed(1)
        FAMILIES[family](vocabulary).to(torch.bfloat16).save_pretrained(folder)
        return folder

    def loss(self, folder, *flags):
        (self.directory / "text.txt").write_text(TEXT)
        done = self.call("evaluate", folder, "--data", self.directory / "text.txt", "--json", "--train.threads=1",
                         "--precision.compute=fp64", *flags)
        return json.loads(done.stdout)["loss"]

    def test_every_family_comes_back_as_it_went(self):
        for family in FAMILIES:
            with self.subTest(family):
                folder, file, back = self.folder(family), self.directory / f"{family}.gguf", self.directory / f"{family}2"
                self.call("convert", folder, file)
                self.call("convert", file, back)
                before, after = load_file(folder / "model.safetensors"), load_file(back / "model.safetensors")
                self.assertEqual(before.keys(), after.keys())
                for name, weight in before.items():
                    self.assertEqual(after[name].dtype, torch.bfloat16)
                    exact = not (family == "gemma2" and "norm" in name)  # 1 is added to those, in fp32
                    self.assertTrue(torch.equal(weight, after[name]) if exact else
                                    torch.allclose(weight, after[name], atol=1e-6), name)
                self.assertAlmostEqual(self.loss(folder), self.loss(back), delta=1e-6)

    def test_tokens_come_back(self):
        for tokenizer in (self.byte_level, self.with_bytes_to_fall_back_on):
            folder = self.folder("llama", tokenizer)
            file, back = self.directory / "file.gguf", self.directory / "back"
            self.call("convert", folder, file)
            self.call("convert", file, back)
            ours, theirs = AutoTokenizer.from_pretrained(back), AutoTokenizer.from_pretrained(folder)
            for text in (TEXT, "a  b\n\nc 日 x", "names names", "  two"):
                expected = theirs(text, add_special_tokens=False).input_ids
                self.assertEqual(ours(text, add_special_tokens=False).input_ids, expected)
                self.assertEqual(ours.decode(expected), theirs.decode(expected))
            for path in (folder, back):
                subprocess.run(["rm", "-r", path], check=True)
            file.unlink()

    def of_kind(self, folder, pre, size=330, normalizer=None, post=None, **model):
        tokenizer = Tokenizer(models.BPE(**model))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(
            vocab_size=size, special_tokens=["<|endoftext|>", "<s>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        if post:
            tokenizer.post_processor = post
        folder.mkdir()
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<s>").save_pretrained(folder)
        return tokenizer.get_vocab_size()

    def test_tokenizers_of_all_kinds_come_back_or_are_refused(self):
        level = lambda **options: pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})
        split = lambda pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level(use_regex=False)])
        single = lambda template, *tokens: processors.TemplateProcessing(single=template, special_tokens=list(tokens))
        first, last = ("<s>", 1), ("<|endoftext|>", 0)
        kinds = {
            "plain": dict(pre=level()),
            "llama 3": dict(pre=split(LLAMA3_PATTERN), post=single("<s> $A", first)),
            "llama 3, ignore_merges": dict(pre=split(LLAMA3_PATTERN), ignore_merges=True),
            "smollm": dict(pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level()])),
            "qwen 2": dict(pre=split(LLAMA3_PATTERN.replace("{1,3}", "")), normalizer=normalizers.NFC()),
            "both ends": dict(pre=level(), post=single("<s> $A <|endoftext|>", first, last)),
            "end": dict(pre=level(), post=single("$A <|endoftext|>", last)),
            "prefix space": dict(pre=level(add_prefix_space=True)),
            "no expression": dict(pre=level(use_regex=False)),
            "NFKC": dict(pre=level(), normalizer=normalizers.NFKC()),
            "two at the beginning": dict(pre=level(), post=single("<s> <|endoftext|> $A", first, last)),
        }
        refused = set()
        for name, kind in kinds.items():
            with self.subTest(name):
                folder, file, back = (self.directory / f"{name}{end}" for end in ("", ".gguf", " back"))
                self.folder(name, lambda folder: self.of_kind(folder, **kind), "llama")
                done = subprocess.run([COLOSSAL, "convert", folder, file], capture_output=True, text=True, timeout=60)
                if done.returncode:
                    refused.add(name)
                    self.assertIn("tokenizer.json: ", done.stderr)
                    continue
                self.call("convert", file, back)
                ours, theirs = AutoTokenizer.from_pretrained(back), AutoTokenizer.from_pretrained(folder)
                for text in (TEXT, "a  b\n\nc 日 x 12345", "names names", "  two", "e\u0301 ﬁ <s>x"):
                    self.assertEqual(ours(text).input_ids, theirs(text).input_ids)
        self.assertEqual(refused, {"prefix space", "no expression", "NFKC", "two at the beginning"})

    def test_quantized_files_cost_what_their_bits_say(self):
        folder = self.folder("llama")
        plain, last = self.loss(folder), 0
        for kind, most in (("q8_0", 0.02), ("q4_0", 0.3)):
            file, back = self.directory / f"{kind}.gguf", self.directory / kind
            self.call("convert", folder, file, f"--type={kind}")
            self.call("convert", file, back)
            error = abs(self.loss(back) - plain)
            self.assertLess(error, most * plain)
            self.assertNotEqual(error, 0)
            self.assertEqual(json.loads((back / "config.json").read_text())["dtype"], "float32")
            last = file
        # Rows of 64 are no whole blocks of 256.
        self.call("convert", folder, self.directory / "k.gguf", "--type=q4_k")
        self.assertIn(b"blk.1.ffn_down.weight", last.read_bytes())

    def refuse(self, *words, arguments, code=2):
        done = self.call("convert", *arguments, code=code)
        self.assertEqual(len(re.findall("error:", done.stderr)), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_bad_input_is_named(self):
        folder, file, new = self.folder("llama"), self.directory / "a.gguf", self.directory / "new"
        self.refuse("no such file", arguments=[self.directory / "nothing", file])
        self.refuse("q4_k", arguments=[folder, file, "--type=q5_9"])
        self.refuse("is a folder already", arguments=[folder, new])
        self.refuse("--to=onnx", arguments=[folder, file, "--to=onnx"])
        self.call("convert", folder, file)
        self.refuse("exists already", arguments=[folder, file])
        self.refuse("--type=q8_0", arguments=[file, new, "--type=q8_0"])
        file.write_bytes(file.read_bytes()[:-64])
        self.refuse("beyond the end of the file", arguments=[file, new], code=1)
        file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 40))
        self.refuse("fields", arguments=[file, new], code=1)
        self.assertEqual(sorted(path.name for path in self.directory.glob(".*")), [])
        config = json.loads((folder / "config.json").read_text())
        for changes, word in (({"hidden_act": "gelu"}, "activation"), ({"model_type": "mistral"}, "mistral"),
                              ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
                               "linear")):
            (folder / "config.json").write_text(json.dumps({**config, **changes}))
            self.refuse(word, arguments=[folder, self.directory / "b.gguf"])


if __name__ == "__main__":
    unittest.main()
