"""Guessed tokens, and keys and values in int8: `serve` and `generate` with them."""
import concurrent.futures
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from harness import COLOSSAL, EndToEndTest
from serve_test import Server, make_model

PROMPTS = ["The quick brown fox", "lazy dog. The quick", "naïve 日本 1234\nnaïve", "fox fox fox fox"]


class ServeSpeculation(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.model = cls.root / "model"
        make_model(cls.model)
        torch.manual_seed(2)
        cls.draft, cls.other = cls.root / "draft", cls.root / "other"
        vocabulary = LlamaConfig.from_pretrained(cls.model).vocab_size
        for folder, size in [(cls.draft, vocabulary), (cls.other, vocabulary + 1)]:
            LlamaForCausalLM(LlamaConfig(
                vocab_size=size, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                max_position_embeddings=256)).save_pretrained(folder)
        cls.servers = {}
        for name, flags in [("plain", []), ("lookup", ["--speculate=lookup"]),
                            ("model", [f"--draft={cls.draft}", "--num-drafts=3"]),
                            ("itself", [f"--draft={cls.model}"]), ("int8", ["--kv-type=int8"]),
                            ("both", ["--kv-type=int8", "--speculate=lookup"])]:
            cls.servers[name] = Server(cls.model, "--precision.compute=fp64", *flags)
            cls.addClassCleanup(cls.servers[name].stop)

    def complete(self, name, prompt, **options):
        answer = self.servers[name].client().completions.create(
            model="tiny", prompt=prompt, **{"max_tokens": 60, "temperature": 0, **options})
        return answer.choices[0].text, answer.choices[0].finish_reason

    def cases(self):
        for index, prompt in enumerate(PROMPTS):
            yield prompt, {}
            yield prompt, {"temperature": 1, "seed": index}
            yield prompt, {"temperature": 0.7, "top_p": 0.9, "seed": index, "stop": ["e", "o "], "frequency_penalty": 1}
            yield prompt, {"temperature": 1, "seed": index, "extra_body": {
                "structured_outputs": {"regex": "([a-c]{3}-){20}"}}}

    def expect_same(self, names, reference):
        expected = [self.complete(reference, prompt, **options) for prompt, options in self.cases()]
        self.assertGreater(len(set(expected)), 12)
        for name in names:
            with self.subTest(name):
                alone = [self.complete(name, prompt, **options) for prompt, options in self.cases()]
                self.assertEqual(alone, expected)
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    futures = [pool.submit(self.complete, name, prompt, **options) for prompt, options in self.cases()]
                    self.assertEqual([future.result() for future in futures], expected)

    def test_texts_are_those_without_guesses(self):
        self.expect_same(["lookup", "model", "itself"], "plain")
        for name in ("lookup", "model", "itself"):
            server = self.servers[name]
            guessed, right = (server.metric(f"spec_decode_num_{kind}_tokens_total") for kind in ("draft", "accepted"))
            self.assertGreater(guessed, 0)
            self.assertLessEqual(right, guessed)
            if name == "itself":
                self.assertGreater(right, guessed / 4)  # grammars mask what the draft does not know of
        self.assertEqual(self.servers["plain"].metric("spec_decode_num_draft_tokens_total"), 0)

    def test_int8_keys_and_values(self):
        """... give one text however requests are batched and guessed, near to that of whole ones."""
        self.expect_same(["int8", "both"], "int8")

        def logprobs(name):
            answer = self.servers[name].client().completions.create(
                model="tiny", prompt=PROMPTS[0] * 8, echo=True, logprobs=0, max_tokens=0)
            return torch.tensor(answer.choices[0].logprobs.token_logprobs[1:])

        difference = (logprobs("int8") - logprobs("plain")).abs()
        self.assertGreater(difference.max(), 0)
        self.assertLess(difference.mean(), 0.05)

    def test_generate_says_how_many_guesses_were_right(self):
        def generate(*flags, expect=0):
            done = subprocess.run([str(COLOSSAL), "generate", str(self.model), "--prompt=The quick", "--temperature=0",
                                   "--max-new-tokens=50", "--precision.compute=fp64", *map(str, flags)],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, expect, done.stderr)
            return done.stdout, done.stderr

        plain = generate()
        self.assertNotIn("guessed", plain[1])
        for flags in (["--speculate=lookup"], [f"--draft={self.model}", "--num-drafts=7"]):
            text, log = generate(*flags)
            self.assertEqual(text, plain[0])
            self.assertRegex(log, r"\d+ of \d+ guessed tokens were right \(\d+ %\)")
        for flags, message in [(["--speculate=medusa"], "none, lookup or eagle"), ([f"--draft={self.other}"], "vocabulary"),
                               (["--speculate=lookup", f"--draft={self.draft}"], "use only one of them"),
                               ([f"--draft={self.draft}", "--num-drafts=0"], "num-drafts"),
                               (["--kv-type=int4"], "auto")]:
            self.assertIn(message, generate(*flags, expect=2)[1])


if __name__ == "__main__":
    unittest.main()
