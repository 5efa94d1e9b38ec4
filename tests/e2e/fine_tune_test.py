"""What a Hugging Face folder says of itself holds: its tokenizer, its weights, its type, its end tokens."""
import json
import re
import subprocess
import unittest

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

from harness import COLOSSAL, EndToEndTest

TEXT = "import json\nfor name in names:\n    print('naïve', name, 1234)  # 日本\n"
SPACE = "▁"


def llama2_tokenizer():
    """BPE of characters that falls back to bytes, with "<s>" before a prompt."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(SPACE)
    trained.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=120, show_progress=False))
    names = ["<unk>", "<s>", "</s>", "<end of turn>", *(f"<0x{byte:02X}>" for byte in range(256))]
    definition = json.loads(trained.to_str())
    definition["model"].update(
        vocab={token: i for i, token in enumerate([*names, *definition["model"]["vocab"]])},
        byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(names[:4])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="<end of turn>", pad_token="<unk>",
        chat_template="{% for m in messages %}{{ m.content }}<end of turn>{% endfor %}")


def decoded(tokens):
    """As `tokenizers` decodes where bytes are UTF-8; of others each maximal part is replaced."""
    parts = [bytes([int(token[3:5], 16)]) if token.startswith("<0x") else token.replace(SPACE, " ").encode()
             for token in tokens]
    return b"".join(parts).removeprefix(b" ").decode(errors="replace")


class FineTune(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        tokenizer = llama2_tokenizer()
        tokenizer.save_pretrained(self.model)
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=48, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.3,
            bos_token_id=1, eos_token_id=[2, 3], pad_token_id=0))
        model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=[2, 3], pad_token_id=0,
                                                   temperature=0.6, do_sample=True)
        model.save_pretrained(self.model)
        (self.directory / "text.txt").write_text(TEXT * 9)
        self.use_folder(self.model)
        self.model_flags = [f"--data.train={self.directory}/text.txt"]

    def change(self, name, **fields):
        path = self.model / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    def generate(self, *flags, prompt="for name"):
        done = subprocess.run([COLOSSAL, "generate", self.model, f"--prompt={prompt}", "--temperature=0", *flags],
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode().removesuffix("\n")

    def by_transformers(self, tokens, dtype, prompt="for name"):
        """Greedy tokens that follow the prompt, and their text."""
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=dtype)
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        all_ids = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                                 pad_token_id=0)[0].tolist()
        new = [token for token in all_ids[ids.shape[1]:] if token not in model.generation_config.eos_token_id]
        return new, decoded(tokenizer.convert_ids_to_tokens(all_ids[1:ids.shape[1]] + new))

    def test_all_that_the_source_says_survives(self):
        source = AutoTokenizer.from_pretrained(self.model)
        log = self.train(*self.flags(), "--train.steps=2", "--precision.compute=fp32")
        self.assertIn(f"tokenizer: {self.model}, the model's own", log)
        self.assertIn("(<end of turn>)", log)
        tokens = len(source(TEXT * 9).input_ids)  # with <s>, as the post-processor begins a document
        self.assertIn(f"data.train: {tokens} tokens", log.replace(",", ""))
        self.train(*self.flags(), "--train.steps=3", "--precision.compute=fp32")
        self.assertEqual(self.newest().name, "step-000003")
        for folder in self.newest().parent.glob("step-*"):
            with self.subTest(folder.name):
                for path in self.model.iterdir():
                    if path.name not in ("config.json", "model.safetensors"):
                        self.assertEqual((folder / path.name).read_bytes(), path.read_bytes(), path.name)
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual([config[f"{name}_token_id"] for name in ("bos", "eos", "pad")], [1, [2, 3], 0])
                model = AutoModelForCausalLM.from_pretrained(folder)
                self.assertEqual(model.generation_config.eos_token_id, [2, 3])
                self.assertEqual(AutoTokenizer.from_pretrained(folder).chat_template, source.chat_template)

    def test_generates_the_tokens_of_transformers(self):
        for dtype in (torch.float32, torch.float64):
            AutoModelForCausalLM.from_pretrained(self.model, dtype=dtype).save_pretrained(self.model)
            expected = self.by_transformers(60, dtype)[1]
            self.assertEqual(self.generate("--max-new-tokens=60"), expected)
        self.assertEqual(self.generate("--max-new-tokens=60", "--precision.compute=fp32"),
                         self.by_transformers(60, torch.float32)[1])
        # The comparison sees in what type was computed.
        self.assertNotEqual(self.generate("--max-new-tokens=60", "--precision.compute=bf16"), expected)

    def test_generate_stops_at_every_end_token(self):
        tokens, _ = self.by_transformers(20, torch.float32)
        index = max(i for i, token in enumerate(tokens) if token not in tokens[:i])
        self.change("generation_config.json", eos_token_id=[2, tokens[index]])
        expected = self.by_transformers(20, torch.float32)
        self.assertEqual(expected[0], tokens[:index])
        self.assertEqual(self.generate("--max-new-tokens=20"), expected[1])
        self.change("generation_config.json", eos_token_id=None)
        self.change("config.json", eos_token_id=[tokens[index], 2])
        self.assertEqual(self.generate("--max-new-tokens=20"), expected[1])

    def generate_file(self, lines, *flags, code=0):
        """The lines that come out, or what is said instead."""
        source, output = self.directory / "prompts.jsonl", self.directory / "completions.jsonl"
        source.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        output.unlink(missing_ok=True)
        done = subprocess.run([COLOSSAL, "generate", self.model, f"--input={source}", f"--output={output}", *flags],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            return done.stderr
        self.assertIn("generating", done.stderr)
        return [json.loads(line) for line in output.read_text().splitlines()]

    def test_a_file_of_prompts_gives_what_each_gives_alone(self):
        prompts = [TEXT[i:i + 5 + 3 * i] for i in range(7)]
        given = [{"prompt": prompt, "number": i} for i, prompt in enumerate(prompts)]
        lines = self.generate_file([*given[:3], "\n", *given[3:]], "--temperature=0", "--max-new-tokens=12",
                                   "--logprobs=1")
        self.assertEqual([line["prompt"] for line in lines], prompts)
        for line, prompt, number in zip(lines, prompts, range(7)):
            if number % 3 == 0:
                self.assertEqual(prompt + line["completion"], self.generate("--max-new-tokens=12", prompt=prompt))
            self.assertEqual(line["number"], number)
            self.assertEqual(line["finish_reason"], "length" if line["completion_tokens"] == 12 else "stop")
            self.assertEqual(len(line["logprobs"]), line["completion_tokens"])
            for token in line["logprobs"]:  # the most likely one was taken
                self.assertEqual(token["top"], [{key: token[key] for key in ("logprob", "token")}])
        messages = [{"role": "user", "content": "for"}, {"role": "assistant", "content": "name"}]
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        ids = torch.tensor([tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)])
        model = AutoModelForCausalLM.from_pretrained(self.model)
        new = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                             pad_token_id=0)[0, ids.shape[1]:].tolist()
        talked = self.generate_file([{"messages": messages}], "--temperature=0", "--max-new-tokens=12", "--logprobs=0")
        self.assertEqual([token["token"] for token in talked[0]["logprobs"]], [t for t in new if t not in (2, 3)])
        self.assertEqual(talked[0]["messages"], messages)
        stop = lines[0]["completion"][3:5]
        stopped = self.generate_file(given[:1], "--temperature=0", "--max-new-tokens=12", f"--stop={stop}")
        self.assertEqual(stopped[0]["completion"], lines[0]["completion"].split(stop)[0])
        self.assertEqual(stopped[0]["finish_reason"], "stop")
        # More than the engine takes at once.
        drawn = [line["completion"] for line in self.generate_file(given[:1] * 400, "--seed=5", "--max-new-tokens=20")]
        self.assertEqual(len(drawn), 400)
        self.assertGreater(len(set(drawn)), 300)
        self.assertEqual(drawn[2], self.generate_file(given[:1], "--seed=7", "--max-new-tokens=20")[0]["completion"])

    def test_penalties_are_those_of_transformers(self):
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        ids = tokenizer("for name", return_tensors="pt").input_ids
        all_ids = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False,
                                 pad_token_id=0, repetition_penalty=1.5)[0].tolist()
        new = [token for token in all_ids[ids.shape[1]:] if token not in (2, 3)]
        expected = decoded(tokenizer.convert_ids_to_tokens(all_ids[1:ids.shape[1]] + new))
        self.assertEqual(self.generate("--max-new-tokens=30", "--repetition-penalty=1.5"), expected)
        self.assertNotEqual(self.generate("--max-new-tokens=30"), expected)

    def test_what_cannot_be_generated_is_refused(self):
        for line, said in (("nonsense\n", "prompts.jsonl:2"), ({"text": "x"}, "prompt"),
                           ({"prompt": 5}, "prompts.jsonl:2"), ({"prompt": "x" * 3000}, "positions|tokens")):
            self.assertRegex(self.generate_file([{"prompt": "a"}, line], code=2), said)
        for flags, said in (([], "--prompt"), (["--prompt=x", "--input=y", "--output=z"], "--input"),
                            (["--input=y"], "--output"), (["--prompt=x", "--logprobs=1"], "--logprobs"),
                            (["--prompt=x", "--top-p=0"], "--top-p"), (["--prompt=x", "--min-p=2"], "--min-p")):
            done = subprocess.run([COLOSSAL, "generate", self.model, *flags], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)

    def test_an_empty_value_is_empty(self):
        """... and not the argument that follows."""
        begins = self.generate("--max-new-tokens=3", prompt="")
        self.assertNotIn("--max-new-tokens", begins)
        self.assertEqual(begins, self.by_transformers(3, torch.float32, prompt="")[1])
        for command in (["generate", self.model, "--prompt=x", "--max-new-tokens=", "--seed=1"],
                        ["train", self.toml, "--ranks=", "--train.steps=1"], ["plan", self.toml, "--ranks=", "--json"],
                        ["run", "--ranks=", "--port=1", "--", "true"]):
            done = subprocess.run([COLOSSAL, *map(str, command)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, re.escape(next(a for a in map(str, command) if a.endswith("="))[:-1]))

    def test_weights_that_are_not_read_are_named(self):
        def log(code):
            return self.train(*self.flags(), "--train.steps=1", "--checkpoint.resume=never", expect=code)

        weights = self.model / "model.safetensors"
        other = self.model / "weights.safetensors"
        weights.rename(other)
        self.assertIn("weights.safetensors", log(2))
        other.rename(self.model / "pytorch_model.bin")
        self.assertIn("pytorch_model.bin", log(2))
        (self.model / "pytorch_model.bin").rename(self.directory / "gone")
        self.assertIn(f"random initial weights: {self.model} contains no weights", log(0))

    def test_a_tokenizer_that_is_not_read_is_named(self):
        (self.model / "tokenizer.json").rename(self.model / "tokenizer.model")
        log = self.train(*self.flags(), "--train.steps=1", expect=2)
        self.assertIn("tokenizer.model", log)
        self.assertIn("tokenizer: bytes", self.train(*self.flags(), "--train.steps=1", "--data.tokenizer=bytes"))


if __name__ == "__main__":
    unittest.main()
