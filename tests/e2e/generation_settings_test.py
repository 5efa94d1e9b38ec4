"""The settings of a folder's generation_config.json are obeyed, token for token as transformers obeys them."""
import json
import subprocess
import unittest

import torch
from tokenizers import ByteLevelBPETokenizer, processors
from transformers import (AutoTokenizer, BartConfig, BartForConditionalGeneration, GenerationConfig, LlamaConfig,
                          LlamaForCausalLM, PreTrainedTokenizerFast)

from harness import COLOSSAL, EndToEndTest
from serve_test import Server

PROMPTS = ["import json\n", "def f(x):", "naïve 日本 ", "for name in names: print("]
TEXT = "import json\nfor name in names:\n    print('naïve', name, 1234)  # 日本\ndef f(x):\n    return x + 1\n"
SPECIAL = ["<s>", "<pad>", "</s>"]


def make_tokenizer(folder, encodes_ends):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT] * 3, vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    if encodes_ends:
        trained._tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="</s>").save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


class Settings(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        self.input = self.directory / "prompts.jsonl"
        self.input.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        torch.manual_seed(7)

    def make_decoder(self):
        self.tokenizer = make_tokenizer(self.model, encodes_ends=False)
        self.loaded = LlamaForCausalLM(LlamaConfig(
            vocab_size=len(self.tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.2,
            bos_token_id=None, eos_token_id=2, pad_token_id=1, tie_word_embeddings=False))
        with torch.no_grad():  # an end token that is likely, so that texts end at many lengths
            self.loaded.lm_head.weight[2] = 1.3 * self.loaded.lm_head.weight[5]
        self.keep()

    def make_summarizer(self):
        self.tokenizer = make_tokenizer(self.model, encodes_ends=True)
        self.loaded = BartForConditionalGeneration(BartConfig(
            vocab_size=len(self.tokenizer), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
            init_std=0.4, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
            forced_eos_token_id=None))
        self.keep()

    def keep(self):
        self.loaded = self.loaded.double().eval()
        self.loaded.save_pretrained(self.model)

    def settings(self, **fields):
        """Writes the folder's generation_config.json."""
        self.fields = {"eos_token_id": 2, "pad_token_id": 1, **fields}
        (self.model / "generation_config.json").write_text(json.dumps(self.fields))

    def run_generate(self, *flags):
        command = [COLOSSAL, "generate", self.model, "--train.threads=1", "--precision.compute=fp64", *flags]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)

    def generated(self, *flags):
        output = self.directory / "out.jsonl"
        output.unlink(missing_ok=True)
        done = self.run_generate(f"--input={self.input}", f"--output={output}", "--logprobs=0", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.log = done.stderr
        return [[token["token"] for token in json.loads(line)["logprobs"]] for line in output.read_text().splitlines()]

    def by_transformers(self, **fields):
        all_tokens = []
        start = {"decoder_start_token_id": 2} if self.loaded.config.is_encoder_decoder else {}
        for prompt in PROMPTS:
            ids = self.tokenizer(prompt, return_tensors="pt").input_ids
            found = self.loaded.generate(ids, generation_config=GenerationConfig(**{**self.fields, **start, **fields}))
            tokens = found[0, 1 if start else ids.shape[1]:].tolist()
            all_tokens.append(tokens[:tokens.index(2)] if 2 in tokens else tokens)
        return all_tokens

    def test_a_decoder_generates_as_the_folder_says(self):
        self.make_decoder()
        self.settings(do_sample=False, max_new_tokens=14)
        plain = self.generated()
        self.assertEqual(plain, self.by_transformers())
        a, b, c, d = plain[0][1], plain[0][2], plain[1][3], plain[2][0]
        beams = {"num_beams": 3, "length_penalty": 0.6, "early_stopping": True}
        cases = [
            {"no_repeat_ngram_size": 2, "bad_words_ids": [[a, b], [c]], "max_new_tokens": 14},
            {"repetition_penalty": 1.3, "suppress_tokens": [c], "begin_suppress_tokens": [d], "min_length": 20,
             "max_length": 26},
            {"sequence_bias": [[[b], -3.0], [[a, 2], 5.0]], "encoder_no_repeat_ngram_size": 2, "min_new_tokens": 6,
             "forced_eos_token_id": 2, "max_new_tokens": 9},
            {"exponential_decay_length_penalty": [2, 1.3], "encoder_repetition_penalty": 1.4, "max_new_tokens": 14}]
        for case in cases:
            for more in ({}, beams):
                with self.subTest(**case, **more):
                    self.settings(do_sample=False, **case, **more)
                    found = self.generated()
                    self.assertEqual(found, self.by_transformers())
                    self.assertNotEqual(found, plain)
        # The same with several ranks and with guessed tokens, where the first token decides about the next ones.
        self.settings(do_sample=False, **cases[0], **{"exponential_decay_length_penalty": [2, 1.1]})
        expected = self.by_transformers()
        for flags in (["--ranks=2", "--parallel.tp=2"], ["--ranks=2", "--parallel.pp=2"], ["--speculate=lookup"],
                      [f"--draft={self.model}", "--num-drafts=3"]):
            with self.subTest(flags=flags):
                self.assertEqual(self.generated(*flags), expected)

    def test_a_summarizer_generates_as_the_folder_says(self):
        self.make_summarizer()
        like_bart = {"forced_bos_token_id": 0, "no_repeat_ngram_size": 3, "min_length": 6, "max_length": 14}
        for case in ({**like_bart, "num_beams": 4, "length_penalty": 2.0, "early_stopping": True}, like_bart,
                     {"encoder_no_repeat_ngram_size": 1, "forced_eos_token_id": 2, "begin_suppress_tokens": [2],
                      "max_length": 12, "repetition_penalty": 1.2}):
            with self.subTest(**case):
                self.settings(do_sample=False, **case)
                self.assertEqual(self.generated(), self.by_transformers())
        # Folders of older versions have the settings in config.json.
        self.settings(do_sample=False, **like_bart, num_beams=4)
        expected = self.by_transformers()
        (self.model / "generation_config.json").unlink()
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, **like_bart, "num_beams": 4}))
        self.assertEqual(self.generated(), expected)

    def test_flags_and_requests_override_the_folder(self):
        self.make_decoder()
        self.settings(do_sample=False, no_repeat_ngram_size=2, max_new_tokens=12, num_beams=3)
        beams, greedy = self.by_transformers(), self.by_transformers(num_beams=1)
        self.assertNotEqual(beams, greedy)
        self.assertEqual(self.generated(), beams)
        self.assertEqual(self.generated("--num-beams=1"), greedy)
        self.assertEqual(self.generated("--num-beams=1", "--no-repeat-ngram-size=0", "--max-new-tokens=9"),
                         self.by_transformers(num_beams=1, no_repeat_ngram_size=0, max_new_tokens=9))
        self.assertEqual(
            self.generated("--override-generation-config", '{"num_beams": null, "suppress_tokens": [5]}'),
            self.by_transformers(num_beams=1, suppress_tokens=[5]))
        self.assertNotIn("not supported", self.log)
        server = Server(self.model, "--precision.compute=fp64")
        self.addCleanup(server.stop)

        def served(**fields):
            return [server.post("/v1/completions", {"prompt": prompt, "return_token_ids": True, **fields})
                    ["choices"][0]["token_ids"] for prompt in PROMPTS]
        self.assertEqual(served(), beams)
        self.assertEqual(served(use_beam_search=False), greedy)
        self.assertEqual(served(use_beam_search=False, no_repeat_ngram_size=0, max_tokens=9),
                         self.by_transformers(num_beams=1, no_repeat_ngram_size=0, max_new_tokens=9))
        self.assertEqual(served(suppress_tokens=[5]), self.by_transformers(suppress_tokens=[5]))

    def test_sampling_and_stop_strings_are_the_folders(self):
        self.make_decoder()
        self.settings(do_sample=True, temperature=0.6, top_k=5, max_new_tokens=12)
        found = self.generated("--seed=3")
        self.settings(max_new_tokens=12)
        self.assertEqual(self.generated("--seed=3", "--temperature=0.6", "--top-k=5"), found)
        self.assertNotEqual(self.generated("--seed=3"), found)
        self.settings(do_sample=False, max_new_tokens=12)
        text = self.run_generate(f"--prompt={PROMPTS[0]}").stdout[len(PROMPTS[0]):]
        self.settings(do_sample=False, max_new_tokens=12, stop_strings=[text[4:6]])
        stopped = self.run_generate(f"--prompt={PROMPTS[0]}").stdout[len(PROMPTS[0]):]
        self.assertEqual(stopped, text[:text.index(text[4:6])] + "\n")

    def test_what_is_wrong_or_not_supported_is_said_at_the_start(self):
        self.make_decoder()
        self.settings(guidance_scale=1.5, diversity_penalty=0.0, renormalize_logits=None)
        done = self.run_generate("--prompt=x")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not supported, and ignored: guidance_scale = 1.5\n", done.stderr)
        for field, value, word in (("top_p", 3, "top_p = 3"), ("temperature", "hot", "temperature"),
                                   ("suppress_tokens", [9999], "9999"), ("do_sample", "yes", "do_sample"),
                                   ("bad_words_ids", [[]], "bad_words_ids"), ("eos_token_id", "</s>", "eos_token_id")):
            with self.subTest(field=field):
                self.settings(**{field: value})
                done = self.run_generate("--prompt=x")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("generation_config.json", done.stderr)
                self.assertIn(word, done.stderr)
        served = subprocess.run([COLOSSAL, "serve", self.model, "--port=0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(served.returncode, 2, served.stderr)
        self.assertIn("eos_token_id", served.stderr)
        self.settings(max_length=3)
        done = self.run_generate(f"--prompt={PROMPTS[0]}")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("max_length = 3", done.stderr)

    def test_special_tokens_are_left_out_unless_asked_for(self):
        self.make_decoder()
        self.settings(do_sample=False, max_new_tokens=3, sequence_bias=[[[0], 100.0]])
        self.assertEqual(self.run_generate("--prompt=x").stdout, "x\n")
        self.assertEqual(self.run_generate("--prompt=x", "--show-special-tokens").stdout, "x<s><s><s>\n")


if __name__ == "__main__":
    unittest.main()
