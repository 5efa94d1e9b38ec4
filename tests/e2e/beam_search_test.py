"""`colossal generate --num-beams`: the texts and scores of transformers."""
import itertools
import json
import subprocess
import unittest

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, EndToEndTest
from serve_test import Server

PROMPTS = ["import json\n", "def f(x):", "for name in names: print(", "naïve 日本 ", "x"]
TEXT = "import json\nfor name in names:\n    print('naïve', name, 1234)  # 日本\ndef f(x):\n    return x + 1\n"


class BeamSearch(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator([TEXT] * 3, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
        PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer,
                                eos_token="<|endoftext|>").save_pretrained(self.model)
        torch.manual_seed(7)
        # An end token that is likely, so that texts end at many lengths.
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=trained.get_vocab_size(), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.2,
            bos_token_id=None, eos_token_id=0, tie_word_embeddings=False))
        with torch.no_grad():
            model.lm_head.weight[0] = 1.4 * model.lm_head.weight[5]
        self.loaded = model.double().eval()
        model.save_pretrained(self.model)
        self.input = self.directory / "prompts.jsonl"
        self.input.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        self.tokenizer = AutoTokenizer.from_pretrained(self.model)

    def run_generate(self, *flags):
        command = [COLOSSAL, "generate", self.model, "--train.threads=1", "--precision.compute=fp64", *flags]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)

    def generate(self, *flags):
        output = self.directory / "out.jsonl"
        output.unlink(missing_ok=True)
        done = self.run_generate(f"--input={self.input}", f"--output={output}", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in output.read_text().splitlines()]

    def by_transformers(self, prompt, width, **options):
        tokens = self.tokenizer(prompt, return_tensors="pt").input_ids
        found = self.loaded.generate(tokens, num_beams=width, num_return_sequences=width, do_sample=False, pad_token_id=0,
                                     return_dict_in_generate=True, output_scores=True, **options)
        texts = []
        for sequence, score in zip(found.sequences, found.sequences_scores.tolist()):
            text = sequence[tokens.shape[1]:].tolist()
            texts.append((text[:text.index(0)] if 0 in text else text, score))
        return texts

    def expect_same(self, width, flags=(), **options):
        lengths = set()
        for prompt, found in zip(PROMPTS, self.generate(f"--num-beams={width}", *flags)):
            expected = self.by_transformers(prompt, width, **options)
            self.assertEqual(len(found["beams"]), width)
            for beam, (tokens, score) in zip(found["beams"], expected):
                # transformers adds up in fp32.
                self.assertAlmostEqual(beam["score"], score, delta=2e-4 * max(1, abs(score)))
                self.assertEqual(beam["completion"], self.tokenizer.decode(tokens))
                lengths.add(len(tokens))
            self.assertEqual(found["completion"], found["beams"][0]["completion"])
            self.assertEqual(found["completion_tokens"], len(expected[0][0]))
        return lengths

    def test_is_that_of_transformers(self):
        settings = itertools.product(enumerate((2, 5)), enumerate((1.0, 0.0, 2.5, -0.5)),
                                     enumerate((("false", False), ("true", True), ("never", "never"))))
        for (i, width), (j, penalty), (k, (early, theirs)) in settings:
            if (i + j + k) % 2:  # half of all settings, among which is every pair of values
                continue
            with self.subTest(width=width, penalty=penalty, early=early):
                lengths = self.expect_same(
                    width, ["--max-new-tokens=12", f"--length-penalty={penalty}", f"--early-stopping={early}"],
                    max_new_tokens=12, length_penalty=penalty, early_stopping=theirs)
                if penalty == 1.0:
                    self.assertGreater(len(lengths), 2)

    def test_penalties_bounds_and_ranks(self):
        self.expect_same(3, ["--max-new-tokens=10", "--repetition-penalty=1.4"], max_new_tokens=10,
                         repetition_penalty=1.4)
        self.expect_same(3, ["--max-new-tokens=10", "--min-tokens=4"], max_new_tokens=10, min_new_tokens=4)
        for flags in (["--ranks=2", "--parallel.tp=2"], ["--ranks=2", "--parallel.pp=2"],
                      ["--memory.offload_parameters=host"], ["--speculate=lookup"]):
            self.expect_same(4, ["--max-new-tokens=8", *flags], max_new_tokens=8)

    def test_the_server_gives_the_best_texts(self):
        server = Server(self.model, "--precision.compute=fp64")
        self.addCleanup(server.stop)
        client = server.client()
        expected = self.by_transformers(PROMPTS[0], 5, max_new_tokens=10, length_penalty=0.0)
        beams = {"use_beam_search": True, "best_of": 5, "length_penalty": 0}
        options = {"model": "tiny", "prompt": [PROMPTS[0], PROMPTS[1]], "max_tokens": 10, "n": 3, "extra_body": beams}
        found = client.completions.create(**options)
        texts = [choice.text for choice in found.choices]
        self.assertEqual(texts[:3], [self.tokenizer.decode(tokens) for tokens, _ in expected[:3]])
        self.assertEqual(len(texts), 6)
        self.assertEqual([choice.finish_reason for choice in found.choices[:3]],
                         ["length" if len(tokens) == 10 else "stop" for tokens, _ in expected[:3]])
        streamed = [""] * 6
        for event in client.completions.create(**{**options, "extra_body": {**beams, "best_of": 3}}, stream=True):
            for choice in event.choices:
                streamed[choice.index] += choice.text
        narrow = self.by_transformers(PROMPTS[0], 3, max_new_tokens=10, length_penalty=0.0)
        self.assertEqual(streamed[:3], [self.tokenizer.decode(tokens) for tokens, _ in narrow])
        # Each beam keeps to the form that is asked for.
        listed = client.completions.create(**{**options, "extra_body": {
            **beams, "structured_outputs": {"regex": "(def|for) [a-z]{2}"}}})
        for choice in listed.choices:
            self.assertRegex(choice.text, "^(def|for) [a-z]{2}$")

    def test_one_prompt_stop_strings_and_refusals(self):
        best = self.by_transformers(PROMPTS[1], 4, max_new_tokens=9)[0][0]
        done = self.run_generate(f"--prompt={PROMPTS[1]}", "--num-beams=4", "--max-new-tokens=9")
        self.assertEqual(done.stdout, PROMPTS[1] + self.tokenizer.decode(best) + "\n")
        # A beam ends where its text holds the string, which is not part of it.
        whole = self.generate("--num-beams=3", "--max-new-tokens=12", "--length-penalty=0")
        stop = next(beam["completion"] for line in whole for beam in line["beams"] if len(beam["completion"]) > 8)[4:6]
        for line in self.generate("--num-beams=3", "--max-new-tokens=12", "--length-penalty=0", f"--stop={stop}"):
            for beam in line["beams"]:
                self.assertNotIn(stop, beam["completion"])
        for flags, word in ((["--temperature=0.5"], "does not sample"), (["--length-penalty=nan"], "--length-penalty"),
                            (["--chat"], "--chat")):
            prompt = [] if flags == ["--chat"] else ["--prompt=x"]
            done = self.run_generate(*prompt, "--num-beams=2", *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
