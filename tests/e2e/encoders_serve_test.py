"""Embeddings, labels and relevances that `colossal serve` gives with encoders, against transformers."""
import json
import unittest
import urllib.error
import urllib.request

import openai
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from encoder_models import ENCODERS, WORDS, EncoderTest, config_of, texts, word_piece_tokenizer
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
            with self.assertRaisesRegex(openai.BadRequestError, "context length"):
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


class EncoderScores(EncoderTest):
    def post(self, server, path, body, expect=200):
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                code, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            code, text = error.code, error.read()
        self.assertEqual(code, expect, text)
        return json.loads(text)

    def model(self, family, **fields):
        torch.manual_seed(6)
        config = config_of(family, pad_token_id=1 if "roberta" in family else 0, **fields)
        return self.save(family, AutoModelForSequenceClassification.from_config(config))

    def check_relevance(self, folder, *flags):
        lines = [line for line in texts(14) if "text_pair" in line]
        query, documents = lines[0]["text"], [line["text_pair"] for line in lines]
        expected = self.expected_scores(
            folder, [{"text": query, "text_pair": document} for document in documents]).sigmoid()[:, 0]
        server = Server(folder, "--precision.compute=fp32", *flags)
        try:
            for path, given in (("/rerank", documents), ("/v1/rerank", documents), ("/v2/rerank", documents),
                                ("/rerank", [{"text": document} for document in documents])):
                found = self.post(server, path, {"model": "tiny", "query": query, "documents": given, "top_n": 5})
                order = expected.argsort(descending=True)[:5]
                self.assertEqual([each["index"] for each in found["results"]], order.tolist())
                for each in found["results"]:
                    self.assertAlmostEqual(each["relevance_score"], expected[each["index"]].item(), delta=1e-5)
                    self.assertEqual(each["document"]["text"], documents[each["index"]])
            found = self.post(server, "/rerank", {"query": query, "documents": documents, "top_n": 1000})
            self.assertEqual(len(found["results"]), len(documents))
            long = self.post(server, "/rerank", {"query": query, "documents": ["x " * 5000], "truncate_prompt_tokens": -1})
            self.assertEqual(len(long["results"]), 1)
            found = self.post(server, "/score", {"text_1": query, "text_2": documents})
            for each, value in zip(found["data"], expected):
                self.assertAlmostEqual(each["score"], value.item(), delta=1e-5)
            self.post(server, "/v1/embeddings", {"input": "x"}, expect=400)
            self.post(server, "/v1/completions", {"prompt": "x"}, expect=400)
            self.post(server, "/rerank", {"query": "x"}, expect=400)
        finally:
            server.stop()

    def test_documents_are_ranked_by_relevance(self):
        for family, flags in (("bert", []), ("modernbert", ["--ranks=2", "--parallel.tp=2"]), ("llama", [])):
            with self.subTest(family):
                self.check_relevance(self.model(family, num_labels=1), *flags)

    def test_texts_are_labelled(self):
        folder = self.model("bert", num_labels=3, id2label={0: "no", 1: "so-so", 2: "yes"},
                            label2id={"no": 0, "so-so": 1, "yes": 2})
        lines = texts(8)
        server = Server(folder, "--precision.compute=fp32", "--ranks=2", "--parallel.pp=2")
        try:
            for field, given in (("input", [line["text"] for line in lines]),
                                 ("pairs", [[line["text"], line["text_pair"]] for line in lines if "text_pair" in line])):
                path = "/classify" if field == "input" else "/v1/classify"
                found = self.post(server, path, {"model": "tiny", field: given})["data"]
                rows = [{"text": each} if field == "input" else {"text": each[0], "text_pair": each[1]} for each in given]
                for each, scores in zip(found, self.expected_scores(folder, rows).softmax(-1)):
                    self.assertLess((torch.tensor(each["probs"]) - scores).abs().max().item(), 1e-5)
                    self.assertEqual(each["label"], ["no", "so-so", "yes"][scores.argmax()])
            answer = self.post(server, "/rerank", {"query": "x", "documents": ["y"]}, expect=400)
            self.assertIn("/classify", json.dumps(answer))
            self.post(server, "/classify", {"input": " ".join(WORDS * 6)}, expect=400)
            self.post(server, "/classify", {"input": " ".join(WORDS * 6), "truncate_prompt_tokens": -1})
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main()
