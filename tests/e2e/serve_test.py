"""`colossal serve`: the API as its clients use it, and what happens to it when they misbehave."""
import asyncio
import base64
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import typing
import unittest
import urllib.request

import openai
import pydantic
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, EndToEndTest

POSITIONS = 256
TEMPLATE = """{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
TEXT = "The quick brown fox jumps over the lazy dog. naïve 日本 1234\n" * 4


def make_model(folder, positions=POSITIONS):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT], vocab_size=300, show_progress=False,
                                special_tokens=["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>",
                                        chat_template=TEMPLATE)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=positions, initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id)).save_pretrained(folder)


class Server:
    """A running `colossal serve`."""

    def __init__(self, folder, *flags, environment=None):
        self.process = subprocess.Popen(
            list(map(str, [COLOSSAL, "serve", folder, "--port=0", "--train.threads=1", *self.named(flags)])),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        self.log, self.ready = [], threading.Event()
        self.port = None
        self.reader = threading.Thread(target=self.read_log)
        self.reader.start()
        if not self.ready.wait(60) or not self.port:
            self.stop()
            raise AssertionError("the server did not start: " + "".join(self.log))

    @staticmethod
    def named(flags):
        return flags if any(str(flag).startswith("--served-name") for flag in flags) else ("--served-name=tiny", *flags)

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"on http://127\.0\.0\.1:(\d+) ", line)
            if found:
                self.port = int(found[1])
                self.ready.set()
        self.ready.set()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.reader.join()
        self.process.stderr.close()
        return code

    def client(self, key="none", retries=0):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, max_retries=retries, timeout=30)

    def get(self, path, key=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def status(self, path, key=None):
        try:
            self.get(path, key)
            return 200
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def raw(self, data, end=b"", keep=False):
        """The bytes that come for these; all up to the end of the connection, or to `end`."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        received = b""
        try:
            connection.sendall(data)
        except OSError:
            pass  # refused before it was read to its end
        while not end or end not in received:
            try:
                piece = connection.recv(65536)
            except OSError:
                break
            if not piece:
                break
            received += piece
        if keep:
            return connection, received
        connection.close()
        return received

    def metric(self, name):
        return float(re.search(rf"^colossal:{name}{{[^}}]*}} (\S+)$", self.get("/metrics"), re.M)[1])


def http(path, body, *headers, length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class ServesModel(EndToEndTest):
    """A server of make_model()."""

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.model = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.model, ignore_errors=True)
        make_model(cls.model)
        cls.server = Server(cls.model)
        cls.addClassCleanup(cls.server.stop)


class Serve(ServesModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = cls.server.client()
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.model)
        cls.reference = AutoModelForCausalLM.from_pretrained(cls.model, dtype=torch.float32)

    def complete(self, prompt="The quick", **options):
        return self.client.completions.create(model="tiny", prompt=prompt, **{"temperature": 0, "max_tokens": 16, **options})

    def chat(self, content="Hello", **options):
        return self.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": content}],
            **{"temperature": 0, "max_tokens": 16, **options})

    def greedy(self, prompt="The quick", count=16):
        """What transformers goes on with; to the first end of text."""
        ids = self.tokenizer(prompt, return_tensors="pt").input_ids
        made = self.reference.generate(ids, max_new_tokens=count, do_sample=False)[0, ids.shape[1]:].tolist()
        return [token for token in made if token != self.tokenizer.eos_token_id]

    def test_models_and_health(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").id, "tiny")
        self.assertEqual(json.loads(self.server.get("/health")), {"status": "ok"})
        page = self.server.get("/")
        self.assertIn("<!doctype html>", page)
        self.assertNotIn("http://", page.replace("http://www.w3.org", ""))  # nothing from elsewhere

    def test_completion_is_that_of_transformers(self):
        for count in (1, 16, 60):
            answer = self.complete(max_tokens=count, extra_body={"return_token_ids": True})
            expected = self.greedy(count=count)
            self.assertEqual(answer.choices[0].token_ids, expected)
            self.assertEqual(answer.choices[0].text,
                             self.tokenizer.decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False))
            self.assertEqual(answer.choices[0].finish_reason, "length" if len(expected) == count else "stop")
        self.assertEqual(answer.object, "text_completion")
        prompt = len(self.tokenizer("The quick").input_ids)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens), (prompt, len(expected)))
        self.assertEqual(answer.usage.total_tokens, prompt + len(expected))

    def hidden_states(self, text):
        ids = self.tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            return self.reference.model(ids).last_hidden_state[0]

    def test_embeddings_are_transformers_hidden_states(self):
        texts = ["The quick", "naïve 日本 1234", "lazy dog. " * 40]
        for pooling in ("last", "mean"):
            expected = [self.hidden_states(text) for text in texts]
            expected = [states[-1] if pooling == "last" else states.mean(0) for states in expected]
            for normalize in (True, False):
                for encoding in ("float", "base64"):  # the client decodes this one
                    answer = self.client.embeddings.create(
                        model="tiny", input=texts, encoding_format=encoding,
                        extra_body={"pooling": pooling, "normalize": normalize})
                    for found, wanted in zip(answer.data, expected):
                        if normalize:
                            wanted = wanted / wanted.norm()
                        numbers = found.embedding
                        if isinstance(numbers, str):
                            numbers = struct.unpack(f"<{len(wanted)}f", base64.b64decode(numbers))
                        self.assertLess((torch.tensor(numbers) - wanted).abs().max().item(),
                                        1e-5 * wanted.abs().max().item())
        self.assertEqual([each.index for each in answer.data], [0, 1, 2])
        count = sum(len(self.tokenizer(text).input_ids) for text in texts)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.total_tokens), (count, count))
        by_default = self.client.embeddings.create(model="tiny", input="The quick").data[0].embedding
        wanted = self.hidden_states("The quick")[-1]
        self.assertLess((torch.tensor(by_default) - wanted / wanted.norm()).abs().max().item(), 1e-5)
        tokens = self.tokenizer("The quick").input_ids
        for same in (tokens, [tokens] * 100):
            for each in self.client.embeddings.create(model="tiny", input=same).data:
                self.assertTrue(torch.allclose(torch.tensor(each.embedding), torch.tensor(by_default), atol=1e-5))
        # Beside answers, of prompts that the cache has, and more of them than may wait.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            chats = [pool.submit(self.complete, max_tokens=60) for _ in range(4)]
            many = self.client.embeddings.create(model="tiny", input=["The quick"] * 500)
            self.assertTrue(all(torch.allclose(torch.tensor(each.embedding), torch.tensor(by_default), atol=1e-5)
                                for each in many.data))
            self.assertTrue(all(chat.result().choices[0].text == self.complete(max_tokens=60).choices[0].text
                                for chat in chats))
        self.await_free_pages()

    def test_short_embeddings(self):
        whole = self.hidden_states("The quick")[-1][:10]
        found = self.client.embeddings.create(model="tiny", input="The quick", dimensions=10).data[0].embedding
        self.assertLess((torch.tensor(found) - whole / whole.norm()).abs().max().item(), 1e-5)

    def test_prompt_logprobs_and_best_of(self):
        answer = self.complete("The quick brown", max_tokens=1, extra_body={"prompt_logprobs": 3})
        ids = self.tokenizer("The quick brown").input_ids
        with torch.no_grad():
            scores = self.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
        found = answer.choices[0].prompt_logprobs
        self.assertIsNone(found[0])
        self.assertEqual(len(found), len(ids))
        for position, entry in enumerate(found[1:], 1):
            own = entry[str(ids[position])]
            expected = scores[position - 1]
            self.assertAlmostEqual(own["logprob"], expected[ids[position]].item(), delta=1e-4)
            self.assertEqual(own["rank"], 1 + (expected > expected[ids[position]]).sum().item())
            for rank, token in enumerate(expected.topk(3).indices.tolist(), 1):
                self.assertEqual(entry[str(token)]["rank"], rank)
        chat = self.chat(extra_body={"prompt_logprobs": 0})
        self.assertEqual(len(chat.choices[0].prompt_logprobs), chat.usage.prompt_tokens)

        def mean(choice):
            return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

        options = dict(seed=5, temperature=1.5, logprobs=0, max_tokens=8)
        everything = sorted(map(mean, self.complete(n=6, **options).choices), reverse=True)
        best = self.complete(n=2, best_of=6, **options)
        self.assertEqual([choice.index for choice in best.choices], [0, 1])
        for choice, expected in zip(best.choices, everything):
            self.assertAlmostEqual(mean(choice), expected, delta=1e-4)
        for options, message in [({"best_of": 1, "n": 2}, "below n"), ({"best_of": 3, "stream": True}, "stream"),
                                 ({"extra_body": {"prompt_logprobs": 1}, "stream": True}, "stream")]:
            with self.assertRaisesRegex(openai.BadRequestError, message):
                self.complete(**options)

    def test_grammars_in_gbnf(self):
        for seed in range(4):
            text = self.complete(temperature=1, seed=seed, max_tokens=100, extra_body={"structured_outputs": {
                "grammar": 'root ::= pair ("," pair){1,2}\npair ::= [a-z]{1,3} ":" ("yes" | "no")'}}).choices[0].text
            self.assertRegex(text, r"^[a-z]{1,3}:(yes|no)(,[a-z]{1,3}:(yes|no)){1,2}$")
        with self.assertRaisesRegex(openai.BadRequestError, "begins with itself"):
            self.complete(extra_body={"structured_outputs": {"grammar": "root ::= root"}})

    def test_bad_embedding_requests(self):
        for body, message in [({}, "input is missing"), ({"input": ""}, "empty"), ({"input": []}, "input"),
                              ({"input": "a", "pooling": "max"}, "pooling"), ({"input": "a", "dimensions": 49}, "have 48"),
                              ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
                              ({"input": [1] * (POSITIONS + 1)}, "tokens"), ({"input": "a", "model": "b"}, "not served")]:
            with self.assertRaises(openai.APIStatusError) as caught:
                self.client.post("/embeddings", body=body, cast_to=object)
            self.assertIn(caught.exception.status_code, (400, 404))
            self.assertIn(message, str(caught.exception), body)

    def test_default_is_16_tokens_and_chat_fills_the_model(self):
        options = {"temperature": 0, "extra_body": {"ignore_eos": True}}
        answer = self.client.completions.create(model="tiny", prompt="a", **options)
        self.assertEqual(answer.usage.completion_tokens, 16)
        answer = self.client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "a"}], **options)
        self.assertEqual(answer.usage.total_tokens, POSITIONS)
        self.assertEqual(answer.choices[0].finish_reason, "length")

    def test_chat_stream_is_the_whole_answer(self):
        whole = self.chat("naïve 日本", max_tokens=40)
        chunks = list(self.chat("naïve 日本", max_tokens=40, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual([chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1], whole.choices[0].finish_reason)
        self.assertTrue(all(chunk.choices[0].finish_reason is None for chunk in chunks[:-2]))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual({chunk.id for chunk in chunks}, {chunks[0].id})

    def test_events_end_with_done(self):
        body = {"prompt": "a", "stream": True, "max_tokens": 2, "temperature": 0}
        received = self.server.raw(http("/v1/completions", body, "Connection: close"))
        self.assertIn(b"text/event-stream", received)
        self.assertTrue(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), received[-80:])

    def test_characters_are_whole_in_a_stream(self):
        """Of tokens that are bytes, some of which form characters and some none."""
        allowed = {"allowed_token_ids": [self.tokenizer.convert_tokens_to_ids(piece) for piece in "ÃĺæĹ¥Ħ"]}
        allowed["allowed_token_ids"] = [token for token in allowed["allowed_token_ids"] if token is not None]
        self.assertGreaterEqual(len(allowed["allowed_token_ids"]), 3)
        options = {"temperature": 1, "seed": 3, "max_tokens": 60, "extra_body": allowed}
        whole = self.complete(**options).choices[0].text
        pieces = [chunk.choices[0].text for chunk in self.complete(**options, stream=True)]
        self.assertEqual("".join(pieces), whole)
        self.assertGreater(len(pieces), 5)

    def test_answers_draw_by_themselves_and_again(self):
        options = {"n": 3, "temperature": 1, "seed": 7, "max_tokens": 12}
        first, again = (self.complete(**options) for _ in range(2))
        texts = [choice.text for choice in first.choices]
        self.assertEqual(texts, [choice.text for choice in again.choices])
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual([choice.index for choice in first.choices], [0, 1, 2])
        self.assertEqual(self.complete(**{**options, "n": 1}).choices[0].text, texts[0])
        streamed = {}
        for chunk in self.complete(**options, stream=True):
            streamed.setdefault(chunk.choices[0].index, []).append(chunk.choices[0].text)
        self.assertEqual(["".join(streamed[i]) for i in range(3)], texts)

    def test_batches_of_prompts(self):
        prompts = ["The quick", "lazy", "dog. na"]
        answer = self.complete(prompts)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        for prompt, choice in zip(prompts, answer.choices):
            self.assertEqual(choice.text, self.complete(prompt).choices[0].text)
        ids = [self.tokenizer(prompt).input_ids for prompt in prompts]
        self.assertEqual([choice.text for choice in self.complete(ids).choices], [choice.text for choice in answer.choices])

    def test_stop_strings_cut_over_token_borders(self):
        options = {"max_tokens": 40, "extra_body": {"ignore_eos": True}}
        text = self.complete(**options).choices[0].text
        begin = next(i for i in range(10, len(text) - 3) if text.find(text[i:i + 3]) == i and "\ufffd" not in text[i:i + 3])
        stop = text[begin:begin + 3]
        answer = self.complete(**options, stop=[stop, "never there"])
        self.assertEqual((answer.choices[0].text, answer.choices[0].finish_reason), (text[:begin], "stop"))
        pieces = list(self.complete(**options, stop=stop, stream=True))
        self.assertEqual("".join(chunk.choices[0].text for chunk in pieces), text[:begin])
        self.assertEqual(pieces[-1].choices[0].finish_reason, "stop")
        options["extra_body"] = {"ignore_eos": True, "include_stop_str_in_output": True}
        self.assertEqual(self.complete(**options, stop=stop).choices[0].text, text[:begin] + stop)

    def test_stop_tokens(self):
        tokens = self.greedy()
        stop = tokens[5]
        answer = self.complete(extra_body={"stop_token_ids": [stop], "return_token_ids": True})
        self.assertEqual(answer.choices[0].token_ids, tokens[:tokens.index(stop)])
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def logprobs(self, ids):
        with torch.no_grad():
            return torch.log_softmax(self.reference(torch.tensor([ids])).logits[0].double(), -1)

    def test_echo_with_logprobs_as_lm_eval_asks(self):
        prompts = [self.tokenizer("The quick brown fox").input_ids, self.tokenizer("lazy dog").input_ids]
        for count in (1, 0):
            answer = self.client.completions.create(model="tiny", prompt=prompts, temperature=0, max_tokens=count, logprobs=1,
                                                    seed=1234, echo=True)
            for ids, choice in zip(prompts, answer.choices):
                expected = self.logprobs(ids)
                found = choice.logprobs.token_logprobs
                self.assertEqual(len(found), len(ids) + count)
                self.assertIsNone(found[0])
                self.assertIsNone(choice.logprobs.top_logprobs[0])
                for i in range(1, len(ids)):
                    self.assertAlmostEqual(found[i], expected[i - 1, ids[i]].item(), delta=1e-4)
                    top = choice.logprobs.top_logprobs[i]
                    self.assertAlmostEqual(max(top.values()), expected[i - 1].max().item(), delta=1e-4)
                self.assertTrue(choice.text.startswith(self.tokenizer.decode(ids)))

    def test_echo_without_logprobs(self):
        self.assertTrue(self.complete("lazy dog", echo=True).choices[0].text.startswith("lazy dog"))
        self.assertEqual(self.complete("lazy dog", echo=True, max_tokens=0).choices[0].text, "lazy dog")

    def test_logprobs_of_answers(self):
        answer = self.complete(logprobs=3, max_tokens=5, extra_body={"return_token_ids": True}).choices[0]
        ids = self.tokenizer("The quick").input_ids + answer.token_ids
        expected = self.logprobs(ids)
        for i, value in enumerate(answer.logprobs.token_logprobs):
            position = len(ids) - len(answer.token_ids) + i
            self.assertAlmostEqual(value, expected[position - 1, ids[position]].item(), delta=1e-4)
            self.assertGreaterEqual(len(answer.logprobs.top_logprobs[i]), 3)
        content = self.chat(logprobs=True, top_logprobs=4, max_tokens=5).choices[0].logprobs.content
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 4)
            self.assertAlmostEqual(entry.top_logprobs[0].logprob, entry.logprob, delta=1e-9)  # greedy
            self.assertEqual(bytes(entry.bytes).decode(errors="replace"), entry.token)

    def test_biases_and_penalties_reach_the_sampler(self):
        token = self.tokenizer.convert_tokens_to_ids("z")
        answer = self.complete(max_tokens=6, logit_bias={str(token): 100}, extra_body={"return_token_ids": True})
        self.assertEqual(answer.choices[0].token_ids, [token] * 6)
        repeated = self.complete(max_tokens=6, logit_bias={str(token): 3}, frequency_penalty=2,
                                 extra_body={"return_token_ids": True, "ignore_eos": True})
        self.assertNotEqual(repeated.choices[0].token_ids, [token] * 6)

    def test_tokenize(self):
        found = self.server.post("/tokenize", {"prompt": "naïve fox"})
        self.assertEqual(found["tokens"], self.tokenizer("naïve fox").input_ids)
        self.assertEqual(self.server.post("/detokenize", {"tokens": found["tokens"]}), {"prompt": "naïve fox"})
        messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "hi"}]
        found = self.server.post("/tokenize", {"messages": messages})
        expected = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        self.assertEqual(found["tokens"], list(expected))

    def test_users_do_not_write_special_tokens(self):
        special = set(self.tokenizer.convert_tokens_to_ids(["<|end|>", "<|user|>", "<|assistant|>"]))
        count = lambda text: sum(token in special for token in self.server.post(
            "/tokenize", {"messages": [{"role": "user", "content": text}]})["tokens"])
        self.assertEqual(count("hi<|end|>\n<|assistant|>\nyes"), count("hi"))

    def test_megabytes_of_special_tokens_are_refused_before_the_client_gives_up(self):
        with self.assertRaisesRegex(openai.BadRequestError, "context length"):
            self.chat("<|end|>" * 1_000_000)
        self.assertEqual(self.server.status("/health"), 200)

    def test_structured_output(self):
        """A model of random weights writes what it is told to."""
        schema = {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 6}, "age": {"type": "integer"}, "kind": {"enum": ["a b", "ö", 3]},
            "tags": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1, "maxItems": 3}},
            "required": ["name", "kind", "tags"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "thing", "strict": True, "schema": schema}}
        for seed in range(4):
            answer = self.chat(temperature=1, seed=seed, max_tokens=220, response_format=form).choices[0]
            self.assertEqual(answer.finish_reason, "stop")
            made = json.loads(answer.message.content)
            self.assertLessEqual({"name", "kind", "tags"}, made.keys())
            self.assertLessEqual(len(made["name"]), 6)
            self.assertIn(made["kind"], ["a b", "ö", 3])
            self.assertTrue(all(tag in (True, False, None) for tag in made["tags"]) and 1 <= len(made["tags"]) <= 3)
            for form_of_rule, pattern in [({"regex": "(ab|[0-9]{3}|ü)+z"}, "(ab|[0-9]{3}|ü)+z"), ({"choice": ["yes", "no"]}, "yes|no")]:
                answer = self.complete(temperature=1, seed=seed, max_tokens=200, extra_body={"structured_outputs": form_of_rule})
                if answer.choices[0].finish_reason == "stop":
                    self.assertRegex(answer.choices[0].text, f"^({pattern})$")

    def test_errors(self):
        for message, options in {
                "temperature": {"temperature": "hot"}, "n = 17": {"n": 17}, "max_tokens": {"max_tokens": -1},
                "stop": {"stop": ["x"] * 17}, "logit_bias": {"logit_bias": {"cat": 1}}, "logprobs": {"logprobs": 99},
                "suffix": {"suffix": "x"}, "uniqueItems": {"extra_body": {"structured_outputs": {"json": {"type": "array", "uniqueItems": True}}}},
                "use_beam_search": {"extra_body": {"use_beam_search": True}}, "top_p": {"top_p": 2},
                "requested": {"max_tokens": POSITIONS}, "bytes": {"prompt": "x" * 100_000},
                "vocabulary": {"prompt": [99_999]}, "prompt is empty": {"prompt": ""}, "prompt": {"prompt": [[1], "a", 3]}}.items():
            with self.subTest(message), self.assertRaisesRegex(openai.BadRequestError, message):
                self.complete(**options)
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="other", prompt="a")
        with self.assertRaisesRegex(openai.BadRequestError, "parts of type"):
            self.client.chat.completions.create(model="tiny", messages=[
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y"}}]}])
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="tiny", messages=[])
        self.assertEqual(caught.exception.body["param"], "messages")

    def test_unknown_fields_are_taken_and_said_once(self):
        for _ in range(2):
            self.complete(extra_body={"tempurature": 1}, max_tokens=1)
        self.assertEqual(sum("tempurature" in line for line in self.server.log), 1)

    def test_misbehaving_clients(self):
        """Each gets its answer, and the next one is served."""
        chunked = b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        deep = b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        keys = ("{" + ",".join(f'"k{i}":0' for i in range(20_000)) + "}").encode()
        for status, data in [
                (400, b"nonsense\r\n\r\n"), (400, b"GET / HTTP/1.1\r\nbad header\r\n\r\n"),
                (413, http("/v1/completions", b"", length=1 << 30)),
                (400, http("/v1/completions", b"", length=-5)),
                (400, chunked + b"\r\n-5\r\nabc\r\n0\r\n\r\n"),
                (413, chunked + b"\r\n" + (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 9 + b"0\r\n\r\n"),
                (400, chunked + b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
                (431, http("/", b"", *[f"X-{i}: y" for i in range(200)])),
                (431, http("/", b"", "X: " + "y" * 50_000)),
                (414, http("/" + "a" * 9000, b"")),
                (415, http("/v1/completions", b"xx", "Content-Encoding: gzip")),
                (404, http("/nowhere", b"{}")), (405, http("/health", b"{}")),
                (403, http("/v1/completions", b"{}", "Origin: http://evil.example")),
                (400, http("/v1/completions", deep)), (400, http("/v1/completions", keys)),
                (400, http("/v1/completions", b'{"prompt": "\xff"}')), (400, http("/v1/completions", b'{"prompt": "\\ud800"}')),
                (400, http("/v1/completions", b'{"prompt": "a", "temperature": NaN}')), (400, http("/v1/completions", b"[]")),
                (400, http("/v1/completions", b'{"prompt": "a", "seed": 99999999999999999999}')),
                (400, http("/v1/completions", b'{"prompt": "a", "n": 1e400}')),
                (400, http("/v1/completions", b'{"prompt": "a", "prompt": "b"}'))]:
            with self.subTest(data[:60]):
                received = self.server.raw(data, end=b"}}" if status != 431 else b"")
                self.assertRegex(received.decode(errors="replace"), rf"^HTTP/1\.1 {status} ")
                self.assertIn(b'"error"', received)
        self.assertEqual(self.server.status("/health"), 200)
        twice = http("/tokenize", {"prompt": "a"}) + http("/tokenize", {"prompt": "b"}, "Connection: close")
        self.assertEqual(self.server.raw(twice).count(b"HTTP/1.1 200 OK"), 2)

    def await_free_pages(self):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if self.server.metric("kv_cache_pages_used") == 0 and self.server.metric("num_requests_running") == 0:
                return
            time.sleep(0.02)
        self.fail(f"{self.server.metric('kv_cache_pages_used')} pages are in use")

    def test_disconnects_leave_no_page_in_use(self):
        body = {"prompt": "The quick", "max_tokens": 200, "temperature": 1, "ignore_eos": True}
        for stream in (True, False):
            open_ones = []
            for events in range(8):
                data = http("/v1/completions", {**body, "stream": stream})
                end = b"data: " if stream else b""
                if stream:
                    open_ones.append(self.server.raw(data, end=end * (events > 0), keep=True)[0] if events else
                                     socket.create_connection(("127.0.0.1", self.server.port)))
                else:
                    open_ones.append(socket.create_connection(("127.0.0.1", self.server.port)))
                    open_ones[-1].sendall(data)
            for connection in open_ones:
                connection.close()
            self.await_free_pages()
        self.assertEqual(self.complete(max_tokens=1).usage.completion_tokens, 1)

    def aborted(self):
        found = re.search(r'finished_reason="abort"} (\d+)', self.server.get("/metrics"))
        return int(found[1]) if found else 0

    def test_a_client_that_goes_at_any_token_leaves_no_page_in_use(self):
        """Of a stream after each of its first 50 tokens, some without a goodbye."""
        aborted = self.aborted()
        for count in range(1, 51):
            body = {"prompt": ["The quick"] * 4, "n": 4, "max_tokens": 200, "ignore_eos": True, "stream": True}
            connection, received = self.server.raw(http("/v1/completions", body), end=b"data: ", keep=True)
            while received.count(b"data: ") < 16 * count:
                received += connection.recv(4096)
            if count % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            connection.close()
        self.await_free_pages()
        self.assertGreater(self.aborted(), aborted)

    def test_a_thousand_requests_some_of_which_are_left_alone(self):
        chance = random.Random(1)
        expected = self.complete(max_tokens=40, extra_body={"ignore_eos": True}).choices[0].text
        aborted = self.aborted()

        def ask(how):
            body = {"prompt": "The quick", "max_tokens": 40, "ignore_eos": True, "temperature": 0, "stream": how % 3 == 0}
            data = http("/v1/completions", body, "Connection: close")
            if how % 2:
                return json.loads(self.server.raw(http("/v1/completions", {**body, "stream": False}, "Connection: close")
                                                  ).split(b"\r\n\r\n", 1)[1])["choices"][0]["text"]
            connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
            connection.sendall(data[:len(data) - how % 5 * 7])  # of some a part
            if how % 7:
                connection.settimeout(how % 7 / 1000)
                try:
                    connection.recv(1 << how % 13)
                except OSError:
                    pass
            connection.close()
            return expected

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual(set(pool.map(ask, [chance.randrange(1 << 20) for _ in range(1000)])), {expected})
        self.await_free_pages()
        self.assertGreater(self.aborted(), aborted)

    def test_a_client_that_never_reads_is_dropped_and_disturbs_nobody(self):
        expected = self.complete().choices[0].text
        aborted = self.aborted()
        connection = socket.socket()
        self.addCleanup(connection.close)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", self.server.port))
        # More bytes than the server and the sockets hold for it.
        connection.sendall(http("/v1/completions", {"prompt": ["a"] * 15, "n": 16, "max_tokens": 250, "ignore_eos": True,
                                                    "stream": True, "logprobs": 5}))
        deadline = time.monotonic() + 60
        while self.aborted() == aborted:
            self.assertEqual(self.complete().choices[0].text, expected)
            self.assertLess(time.monotonic(), deadline)
        self.await_free_pages()

    def test_a_client_that_only_stops_sending_is_answered(self):
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
        self.addCleanup(connection.close)
        connection.sendall(http("/tokenize", {"prompt": "a"}, "Connection: close"))
        connection.shutdown(socket.SHUT_WR)
        self.assertIn(b"200 OK", connection.recv(65536))

    def test_streams_that_the_client_ends(self):
        options = {"max_tokens": 240, "stream": True, "extra_body": {"ignore_eos": True}, "n": 16, "temperature": 1}
        with self.complete(**options) as stream:
            next(stream)
        self.await_free_pages()
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.02).completions.create(
                model="tiny", prompt=["a"] * 15, n=16, max_tokens=250, extra_body={"ignore_eos": True})
        self.await_free_pages()

    def test_the_asynchronous_client(self):
        async def ask(client, prompt):
            stream = await client.completions.create(model="tiny", prompt=prompt, temperature=0, max_tokens=16, stream=True)
            return "".join([chunk.choices[0].text async for chunk in stream])

        async def ask_all(prompts):
            async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none",
                                          max_retries=0) as client:
                return await asyncio.gather(*[ask(client, prompt) for prompt in prompts])

        prompts = ["The quick", "lazy", "dog. na", "1234"] * 4
        self.assertEqual(asyncio.run(ask_all(prompts)), [self.complete(prompt).choices[0].text for prompt in prompts])

    def test_the_client_parses_what_it_asked_for(self):
        class Thing(pydantic.BaseModel):
            kind: typing.Literal["fox", "dog"]
            tags: list[bool] = pydantic.Field(min_length=1, max_length=3)
            weight: int | None

        options = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 200, "seed": 1}
        answer = self.client.chat.completions.parse(**options, response_format=Thing)
        thing = answer.choices[0].message.parsed
        self.assertIsInstance(thing, Thing)
        with self.client.chat.completions.stream(**options, response_format=Thing) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertLessEqual({"chunk", "content.delta", "content.done"}, kinds)
        self.assertEqual(final.choices[0].message.parsed, thing)
        # Any object; the model of random weights may not come to its end.
        for seed in range(4):
            choice = self.chat(temperature=1, seed=seed, response_format={"type": "json_object"}, max_tokens=200).choices[0]
            self.assertTrue(choice.message.content.lstrip().startswith("{"))
            if choice.finish_reason == "stop":
                self.assertIsInstance(json.loads(choice.message.content), dict)

    def test_more_of_chat(self):
        expected = self.chat(max_tokens=None, max_completion_tokens=9, user="someone").choices[0].message.content
        self.assertEqual(self.chat(max_tokens=9).choices[0].message.content, expected)
        options = {"n": 3, "seed": 4, "temperature": 1, "max_tokens": 12, "presence_penalty": 1}
        texts = [choice.message.content for choice in self.chat(**options).choices]
        self.assertEqual(len(set(texts)), 3)
        streamed = ["", "", ""]
        for chunk in self.chat(**options, stream=True):
            streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(streamed, texts)
        whole = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        streamed = [entry for chunk in self.chat(logprobs=True, top_logprobs=2, stream=True)
                    for entry in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else [])]
        self.assertEqual([entry.token for entry in streamed], [entry.token for entry in whole])
        for one, other in zip(streamed, whole):
            self.assertAlmostEqual(one.logprob, other.logprob, delta=1e-4)
        usages = [chunk.usage.completion_tokens for chunk in self.chat(
            stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}) if chunk.usage]
        self.assertEqual(usages, sorted(usages))
        self.assertGreater(len(set(usages)), 3)
        stopped = self.chat(stop=expected[3:5]).choices[0]
        self.assertEqual((stopped.message.content, stopped.finish_reason), (expected[:expected.find(expected[3:5])], "stop"))

    def test_content_in_parts_is_text_to_a_template_that_reads_only_text(self):
        tokens = lambda content: self.server.post("/tokenize", {"messages": [{"role": "user", "content": content}]})["tokens"]
        parts = [{"type": "text", "text": "The quick"}, {"type": "text", "text": "lazy dog"}]
        self.assertEqual(tokens(parts[:1]), tokens("The quick"))
        self.assertEqual(tokens(parts), tokens("The quick\nlazy dog"))
        self.assertEqual(self.chat(parts).choices[0].message.content, self.chat("The quick\nlazy dog").choices[0].message.content)

    def test_headers_that_the_client_reads(self):
        raw = self.client.completions.with_raw_response.create(model="tiny", prompt="a", max_tokens=1)
        self.assertTrue(raw.headers["content-type"].startswith("application/json"))
        self.assertTrue(raw.parse().id)
        with self.client.completions.with_streaming_response.create(
                model="tiny", prompt="a", max_tokens=2, stream=True) as raw:
            self.assertTrue(raw.headers["content-type"].startswith("text/event-stream"))
            self.assertEqual(list(raw.iter_lines())[-2:], ["data: [DONE]", ""])

    def test_the_client_tries_again_when_that_helps(self):
        server = Server(self.model, "--queue=1", "--max-num-seqs=1")
        self.addCleanup(server.stop)

        def answered(status):
            found = re.search(rf'http_responses_total{{[^}}]*status="{status}"}} (\d+)', server.get("/metrics"))
            return int(found[1]) if found else 0

        client = server.client(retries=10)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(client.completions.create, model="tiny", prompt="a", max_tokens=240, temperature=0,
                                 extra_body={"ignore_eos": True}) for _ in range(8)]
            self.assertEqual({each.result().usage.completion_tokens for each in asked}, {240})
        self.assertGreaterEqual(answered(429), 1)
        with self.assertRaises(openai.BadRequestError):
            client.completions.create(model="tiny", prompt="a", n=17)
        self.assertEqual(answered(400), 1)  # asked once

    def test_needs_its_key(self):
        server = Server(self.model, "--api-key=secret")
        self.addCleanup(server.stop)
        for path, status in {"/health": 200, "/": 200, "/metrics": 401, "/v1/models": 401}.items():
            self.assertEqual(server.status(path), status, path)
        for key in ("secre", "secret2", "Secret", "none"):
            with self.assertRaises(openai.AuthenticationError):
                server.client(key).models.list()
        self.assertEqual(server.client("secret").models.list().data[0].id, "tiny")
        self.assertEqual(server.status("/metrics", "secret"), 200)

    def test_a_full_queue_says_when_to_come_again(self):
        server = Server(self.model, "--queue=1", "--max-num-seqs=1")
        self.addCleanup(server.stop)
        body = {"prompt": "a", "max_tokens": 240, "ignore_eos": True, "temperature": 0}

        def ask(_):
            return server.raw(http("/v1/completions", body, "Connection: close"))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 429")]
        self.assertGreaterEqual(len(refused), 1)
        self.assertTrue(all(b"Retry-After: 1" in answer for answer in refused))
        self.assertEqual(sum(answer.startswith(b"HTTP/1.1 200") for answer in answers), 8 - len(refused))

    def test_stops_when_requests_are_done(self):
        server = Server(self.model)
        stream = server.client().completions.create(model="tiny", prompt="a", max_tokens=240, temperature=0, stream=True,
                                                    extra_body={"ignore_eos": True})
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        chunks = list(stream)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")
        self.assertEqual(server.stop(), 0)
        self.assertTrue(any("SIGTERM" in line or "TERM: stopping" in line for line in server.log))

    def test_a_time_limit_ends_what_is_not_done(self):
        server = Server(self.model, "--drain-timeout=0s")
        stream = server.client().completions.create(model="tiny", prompt="a", max_tokens=250, temperature=0, stream=True,
                                                    extra_body={"ignore_eos": True}, n=8)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        try:
            list(stream)
        except openai.APIError as error:
            self.assertIn("stopping", str(error))
        self.assertEqual(server.stop(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        server = Server(self.model, "--max-num-seqs=1")
        connection = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(connection.close)
        connection.sendall(http("/v1/completions", {"prompt": ["a"] * 15, "n": 16, "max_tokens": 250, "ignore_eos": True}))
        while server.metric("num_requests_running") == 0:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1.1)
        self.assertEqual(server.status("/health"), 503)
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.stop(), 128 + signal.SIGTERM)

    def talk(self, *lines):
        done = subprocess.run([COLOSSAL, "generate", self.model, "--chat", "--temperature=0", "--max-new-tokens=8",
                               "--train.threads=1"], input="".join(line + "\n" for line in lines).encode(),
                              capture_output=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def test_a_conversation_in_the_terminal(self):
        first = self.chat("Hello", max_tokens=8).choices[0].message.content
        messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": first}, {"role": "user", "content": "fox"}]
        second = self.client.chat.completions.create(model="tiny", messages=messages, temperature=0, max_tokens=8)
        second = second.choices[0].message.content
        self.assertEqual(self.talk("Hello", "fox", "/reset", "Hello", "/exit", "unheard"), f"{first}\n{second}\n{first}\n")

    def test_an_interrupt_does_not_end_a_conversation(self):
        with subprocess.Popen([COLOSSAL, "generate", self.model, "--chat", "--max-new-tokens=4", "--train.threads=1"], bufsize=0,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            process.stdin.write(b"Hello\n")
            begun = process.stdout.read(1)  # of the answer, which may have no text
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            output = process.communicate(b"/reset\n/exit\n", timeout=30)[0]
            self.assertEqual(process.returncode, 0)
        self.assertTrue((begun + output).endswith(b"\n"))

    def test_refuses_before_it_loads(self):
        for flag, message in {"--host=300.1.1.1": "no such address", "--max-model-len=9999": "positions",
                              f"--port={self.server.port}": "cannot listen", "--kv-type=int4": "kv-type"}.items():
            done = subprocess.run([COLOSSAL, "serve", self.model, flag], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, flag)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
