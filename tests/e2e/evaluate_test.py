"""`colossal evaluate`: the loss of a folder's model on a text is that of `transformers`, however it is computed."""
import json
import math
import re
import subprocess
import unittest

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, TINY, EndToEndTest

DOCUMENTS = {"a.txt": "import json\nfor name in names:\n    print('naïve', name, 1234)  # 日本\n" * 3,
             "b.txt": "def f(x):\n    return x + 1\n" * 4}
POSITIONS = 32


class Evaluate(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(DOCUMENTS.values(), vocab_size=290, special_tokens=["<|endoftext|>"],
                                    show_progress=False)
        PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer,
                                eos_token="<|endoftext|>").save_pretrained(self.model)
        torch.manual_seed(1)
        LlamaForCausalLM(LlamaConfig(
            vocab_size=trained.get_vocab_size(), hidden_size=48, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=POSITIONS,
            initializer_range=0.3)).save_pretrained(self.model)
        for name, document in DOCUMENTS.items():
            (self.directory / name).write_text(document)
        self.text = f"{self.directory}/?.txt"

    def run_evaluate(self, *flags, text=None, model=None):
        command = [COLOSSAL, "evaluate", model or self.model, "--text", text or self.text, "--train.threads=1", *flags]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)

    def evaluate(self, *flags):
        done = self.run_evaluate("--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn("evaluating", done.stderr)
        return json.loads(done.stdout)

    def tokens(self):
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        first, second = (tokenizer(text, add_special_tokens=False).input_ids for text in DOCUMENTS.values())
        return first + [tokenizer.eos_token_id] + second

    def test_documents_begin_as_transformers_begins_a_text(self):
        """With a tokenizer that adds a beginning-of-text token, as those of Llama 3 and Gemma do."""
        path = self.model / "tokenizer.json"
        definition = json.loads(path.read_text())
        token, text = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        definition["post_processor"] = {
            "type": "TemplateProcessing", "single": [token, text],
            "pair": [token, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}
        path.write_text(json.dumps(definition))
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        first, second = (tokenizer(text).input_ids for text in DOCUMENTS.values())
        self.assertEqual(first[0], 0)
        tokens, plain = first + [tokenizer.eos_token_id] + second, self.tokens()
        flags = ["--sequence-length=7", "--precision.compute=fp32"]
        for bos, expected in (("auto", tokens), ("true", tokens), ("false", plain)):
            found = self.evaluate(*flags, f"--data.bos={bos}")
            self.assertEqual(found["tokens"], len(expected) - 1)
            self.assertLess(abs(found["loss"] - self.by_transformers(expected, 7, torch.float32)), 1e-5)
        self.assertRegex(self.run_evaluate(*flags).stderr, r"each document after <\|endoftext\|>")
        self.use_folder(self.model)
        log = self.train(*TINY, "--train.steps=1", f"--data.train={self.text}", "--data.sequence_length=8")
        self.assertIn("each document after", log)

    def by_transformers(self, tokens, length, dtype):
        """The mean loss of all tokens but the first, row by row."""
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=dtype)
        tokens, losses = torch.tensor(tokens), []
        with torch.no_grad():
            for begin in range(0, len(tokens) - 1, length):
                row = tokens[begin:begin + length + 1]
                logits = model(row[None, :-1]).logits[0].double()
                losses.append(torch.nn.functional.cross_entropy(logits, row[1:], reduction="none"))
        losses = torch.cat(losses)
        self.assertEqual(len(losses), len(tokens) - 1)
        return losses.mean().item()

    def test_is_the_loss_of_transformers_at_every_batch_and_tier(self):
        tokens, length = self.tokens(), 7
        self.assertNotEqual((len(tokens) - 1) % length, 0)  # the last row is short
        for name, dtype, tolerance in (("fp32", torch.float32, 1e-5), ("fp64", torch.float64, 1e-6)):
            # transformers rotates and normalises in fp32 whatever the type.
            expected = self.by_transformers(tokens, length, dtype)
            losses = []
            for batch in (1, 4):
                found = self.evaluate(f"--sequence-length={length}", f"--batch={batch}", f"--precision.compute={name}")
                self.assertEqual(found["tokens"], len(tokens) - 1)
                self.assertLess(abs(found["loss"] - expected), tolerance)
                self.assertAlmostEqual(found["perplexity"], math.exp(found["loss"]), delta=1e-9 * found["perplexity"])
                losses.append(found["loss"])
            self.assertLess(abs(losses[0] - losses[1]), {"fp32": 1e-6, "fp64": 1e-13}[name])
        # The default is all positions; where weights rest makes no difference.
        expected = self.by_transformers(tokens, POSITIONS, torch.float32)
        for flags in ([], ["--memory.offload_parameters=host", "--memory.table_rows=100"],
                      ["--memory.offload_parameters=nvme", f"--memory.nvme_path={self.directory}"]):
            self.assertLess(abs(self.evaluate(*flags)["loss"] - expected), 1e-5, flags)

    def test_ranks_share_the_model_and_the_rows(self):
        flags = ["--sequence-length=7", "--precision.compute=fp64"]
        expected = self.evaluate(*flags)["loss"]
        for ranks, layout in ((2, []), (2, ["tp=2"]), (2, ["sp=2"]), (2, ["pp=2"]), (2, ["zero=3"]),
                              (4, ["tp=4", "tp_mode=2d"])):
            found = self.evaluate(*flags, f"--ranks={ranks}", *(f"--parallel.{key}" for key in layout))
            self.assertLess(abs(found["loss"] - expected), 1e-12, layout)

    def refuse(self, *words, code=2, **arguments):
        flags = arguments.pop("flags", [])
        done = self.run_evaluate(*flags, **arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(re.findall("error:", done.stderr)), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_bad_input_is_named(self):
        self.refuse("/nowhere/config.json", model="/nowhere")
        (self.directory / "empty").touch()
        self.refuse("--data", "empty", text=self.directory / "empty")
        self.refuse("--sequence-length=33", "32 positions", flags=["--sequence-length=33"])
        self.refuse("tp 2", flags=["--parallel.tp=2"])
        self.refuse("parallel.zero = 1", flags=["--ranks=2", "--parallel.zero=1"])
        self.refuse("parallel.sp = 2", flags=["--ranks=2", "--parallel.sp=2", "--sequence-length=1"])
        self.refuse("parallel.ep = 2", "no experts", flags=["--ranks=2", "--parallel.ep=2"])
        config = json.loads((self.model / "config.json").read_text())
        weights = self.model / "model.safetensors"
        weights.rename(self.directory / "weights")
        self.refuse("no weights to evaluate with")
        (self.directory / "weights").rename(weights)
        (self.model / "config.json").write_text(json.dumps({**config, "vocab_size": 280}))
        self.refuse("tokenizer", str(config["vocab_size"]), "280")
        (self.model / "config.json").write_text(json.dumps(config))
        (self.model / "tokenizer.json").unlink()
        self.refuse("tokenizer.json", "\"bytes\"")

    def test_quantized_weights_cost_little_and_what_is_not_there_is_named(self):
        plain = self.evaluate("--precision.compute=fp32")["loss"]
        for flags, most in ((["--quantize=int8"], 0.01), (["--quantize=int8-dynamic"], 0.02), (["--quantize=fp8"], 0.03),
                            (["--quantize=int4", "--quantize-group=32"], 0.1)):
            loss = self.evaluate("--precision.compute=fp32", *flags)["loss"]
            self.assertNotEqual(loss, plain)
            self.assertLess(abs(loss - plain), most * plain, flags)
        self.refuse("--quantize=fp6", "int4", flags=["--quantize=fp6"])
        self.refuse("--quantize-group=7", "multiple of 32", flags=["--quantize=int4", "--quantize-group=7"])
        self.refuse("--quantize-group without --quantize", flags=["--quantize-group=32"])
        self.refuse("--quantize", "offload_parameters",
                    flags=["--quantize=int8", "--memory.offload_parameters=host"])

    def test_another_tokenizer_and_text_for_people(self):
        done = self.run_evaluate("--tokenizer=bytes")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = (text.encode() for text in DOCUMENTS.values())
        expected = self.by_transformers([*first, 256, *second], POSITIONS, torch.float32)
        words = dict(line.split() for line in done.stdout.splitlines())
        self.assertEqual(list(words), ["loss", "perplexity", "tokens", "tokens/s"])
        self.assertLess(abs(float(words["loss"]) - expected), 1e-5)
        self.assertEqual(words["tokens"], f"{len(first) + len(second)}")


if __name__ == "__main__":
    unittest.main()
