"""Embeddings that `colossal serve` gives with encoders, against transformers."""
import json
import unittest

import openai
import torch
from transformers import AutoModel, AutoTokenizer

from encoder_models import ENCODERS, WORDS, config_of, word_piece_tokenizer
from harness import EndToEndTest
from serve_test import Server

TEXTS = [" ".join(WORDS[(i + k) % 16] for k in range(1 + i * 5 % 14)) for i in range(7)]


class EncoderEmbeddings(EndToEndTest):
    def save(self, family):
        torch.manual_seed(4)
        folder = self.directory / family
        AutoModel.from_config(config_of(family, vocab_size=90)).save_pretrained(folder)
        word_piece_tokenizer().save_pretrained(folder)
        return folder

    def expected(self, folder, pooling):
        model, tokenizer = AutoModel.from_pretrained(folder, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(folder)
        for text in TEXTS:
            given = tokenizer(text, return_tensors="pt")
            given.pop("token_type_ids", None)
            with torch.no_grad():
                states = model(**given).last_hidden_state[0]
            yield {"first": states[0], "last": states[-1], "mean": states.mean(0)}[pooling]

    def check(self, folder, *flags):
        server = Server(folder, "--precision.compute=fp32", *flags)
        try:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
            for pooling in ("first", "last", "mean"):
                answer = client.embeddings.create(model="tiny", input=TEXTS, encoding_format="float",
                                                  extra_body={"pooling": pooling, "normalize": False})
                for found, states in zip(answer.data, self.expected(folder, pooling)):
                    self.assertLess((torch.tensor(found.embedding) - states).abs().max().item(), 1e-5)
            by_default = client.embeddings.create(model="tiny", input=TEXTS[3], extra_body={"normalize": False})
            mean = list(self.expected(folder, "mean"))[3]
            self.assertLess((torch.tensor(by_default.data[0].embedding) - mean).abs().max().item(), 1e-5)
            with self.assertRaisesRegex(openai.BadRequestError, "is an encoder"):
                client.completions.create(model="tiny", prompt="x")
            with self.assertRaisesRegex(openai.BadRequestError, "is an encoder"):
                client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}])
            with self.assertRaisesRegex(openai.BadRequestError, "at most"):
                client.embeddings.create(model="tiny", input=" ".join(WORDS * 6))
            cut = client.embeddings.create(model="tiny", input=" ".join(WORDS * 6),
                                           extra_body={"truncate_prompt_tokens": -1})
            self.assertLessEqual(cut.usage.prompt_tokens, 66)
        finally:
            server.stop()

    def test_every_encoder_gives_its_states(self):
        for family in ENCODERS:
            with self.subTest(family):
                self.check(self.save(family), "--max-batch-tokens=20")

    def test_over_ranks_and_offloaded(self):
        folder = self.save("bert")
        for flags in (["--ranks=2", "--parallel.tp=2"], ["--ranks=2", "--parallel.pp=2"],
                      ["--ranks=4", "--parallel.tp=4", "--parallel.tp_mode=2d"], ["--memory.offload_parameters=host"]):
            with self.subTest(flags):
                self.check(folder, *flags)

    def test_pooling_of_the_folder(self):
        folder = self.save("bert")
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
        server = Server(folder, "--precision.compute=fp32")
        try:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
            found = client.embeddings.create(model="tiny", input=TEXTS[2], extra_body={"normalize": False})
            first = list(self.expected(folder, "first"))[2]
            self.assertLess((torch.tensor(found.data[0].embedding) - first).abs().max().item(), 1e-5)
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main()
