"""`colossal serve` as programs of others use it: lm-eval, a load generator, the clients of Anthropic and ollama, litellm."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import EndToEndTest
from serve_test import POSITIONS, Server, ServesModel, make_model
from serve_tools_test import TEMPLATES

CHOICES = """task: tiny_choices
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/choices.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
doc_to_choice: "{{{{choices}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
"""
ROLLING = """task: tiny_rolling
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/texts.jsonl
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
"""
QUESTIONS = [
    {"question": f"The quick {word} jumps over", "choices": ["the lazy dog.", "naïve 日本", "1234", word], "answer": i % 4}
    for i, word in enumerate(["brown fox", "dog", "1234", "日本", "quick", "lazy fox", "naïve dog", "over the"])
]
# The last ones take more tokens than the model has positions, so they are read in several windows.
TEXTS = ["The quick brown fox", "naïve 日本 1234\n", "lazy dog. " * 10, "jumps over the naïve fox " * 60, "日本 quick " * 90]


def need(test, *programs, modules=()):
    """Skips the test if something of tests/requirements-clients.txt or a program is missing."""
    missing = [name for name in programs if not shutil.which(name)]
    missing += [name for name in modules if not importlib.util.find_spec(name)]
    if missing:
        test.skipTest(f"needs {' and '.join(missing)} (tests/requirements-clients.txt)")


class Clients(ServesModel):
    def lm_eval(self, name, model, arguments, *flags):
        """Runs both tasks; returns task -> its metrics, and (task, number of document) -> log-likelihoods."""
        output = self.directory / name
        environment = {**os.environ, "HF_HOME": str(self.directory / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", "run", "--model", model, "--model_args", arguments, *flags,
             "--tasks", "tiny_choices,tiny_rolling", "--include_path", self.directory / "tasks",
             "--log_samples", "--output_path", output],
            env=environment, capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        [results] = output.glob("**/results_*.json")
        metrics = {task: {metric: value for metric, value in found.items() if isinstance(value, float)}
                   for task, found in json.loads(results.read_text())["results"].items()}
        samples = {}
        for task in ("tiny_choices", "tiny_rolling"):
            [file] = output.glob(f"**/samples_{task}_*.jsonl")
            for sample in map(json.loads, file.read_text().splitlines()):
                samples[task, sample["doc_id"]] = sample["filtered_resps"]
        return metrics, samples

    def test_lm_eval_finds_what_its_own_backend_finds(self):
        need(self, modules=["lm_eval"])
        tasks = self.directory / "tasks"
        tasks.mkdir()
        for name, lines in {"choices": QUESTIONS, "texts": [{"text": text} for text in TEXTS]}.items():
            (tasks / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (tasks / "choices.yaml").write_text(CHOICES.format(folder=tasks))
        (tasks / "rolling.yaml").write_text(ROLLING.format(folder=tasks))
        # Through an API a window holds its context and a token to be generated, so it is two tokens shorter.
        expected_metrics, expected = self.lm_eval(
            "hf", "hf", f"pretrained={self.model},dtype=float32,max_length={POSITIONS - 2}", "--device", "cpu")
        self.assertEqual(len(expected), len(QUESTIONS) + len(TEXTS))
        served = (f"model=tiny,base_url=http://127.0.0.1:{self.server.port}/v1/completions,tokenizer={self.model},"
                  f"max_length={POSITIONS}")
        for name, more in {"tokens": ",num_concurrent=4", "texts": ",tokenized_requests=False"}.items():
            metrics, samples = self.lm_eval(name, "local-completions", served + more, "--batch_size", "4")
            self.assertEqual(samples.keys(), expected.keys())
            for which, answers in samples.items():
                self.compare(which, answers, expected[which])
            for task, values in expected_metrics.items():
                for metric, value in values.items():
                    self.assertAlmostEqual(metrics[task][metric], value, delta=1e-4 * max(1, abs(value)), msg=metric)

    def compare(self, which, found, expected):
        """Of choices [[log-likelihood, whether it is what the model would say], ...], of a text [log-likelihood]."""
        self.assertEqual(len(found), len(expected), which)
        for one, other in zip(found, expected):
            if isinstance(other, list):
                self.assertEqual(str(one[1]), str(other[1]), which)
                one, other = one[0], other[0]
            one, other = float(one), float(other)
            # lm-eval's backend adds in fp32, whose numbers above 1,000 are more than 1e-4 apart.
            self.assertAlmostEqual(one, other, delta=max(1e-4, 2**-23 * abs(other)), msg=str(which))

    def test_a_load_generator_gets_every_token(self):
        need(self, "hey")
        tokens = 16
        body = {"prompt": "The quick brown fox", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        for path in ("completions", "chat/completions"):
            if path != "completions":
                body = {**body, "messages": [{"role": "user", "content": body.pop("prompt")}], "stream": True}
            for clients in (1, 8, 32):
                before = self.server.metric("generation_tokens_total")
                done = subprocess.run(
                    ["hey", "-z", "10s", "-c", str(clients), "-t", "60", "-m", "POST", "-T", "application/json",
                     "-d", json.dumps(body), f"http://127.0.0.1:{self.server.port}/v1/{path}"],
                    capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                statuses = dict(re.findall(r"\[(\d+)\]\t(\d+) responses", done.stdout))
                self.assertEqual(statuses.keys(), {"200"}, done.stdout)
                self.assertNotIn("Error distribution", done.stdout)
                made = self.server.metric("generation_tokens_total") - before
                self.assertEqual(made, tokens * int(statuses["200"]), done.stdout)
                self.assertEqual(self.server.metric("kv_cache_pages_used"), 0)
                rate = float(re.search(r"Requests/sec:\s+(\S+)", done.stdout)[1])
                print(f"{path}, {clients} clients: {rate:.1f} requests/s, {rate * tokens:.0f} tokens/s")


WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "unit": {"enum": ["C", "F"]}},
           "required": ["city", "unit"]}
KIND = {"type": "object", "properties": {"kind": {"enum": ["fox", "dog"]}}, "required": ["kind"]}
HELLO = [{"role": "user", "content": "Hello"}]


class ChatClients(EndToEndTest):
    """Other companies' clients, of their own APIs or of OpenAI's: what they read is what the openai package reads."""

    @classmethod
    def setUpClass(cls):
        cls.model = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.model, ignore_errors=True)
        make_model(cls.model, positions=1024)
        (cls.model / "chat_template.jinja").write_text(TEMPLATES["hermes"])
        cls.server = Server(cls.model, "--api-key=secret")
        cls.addClassCleanup(cls.server.stop)
        cls.address = f"http://127.0.0.1:{cls.server.port}"

    def expected(self, messages=HELLO, count=16, **options):
        answer = self.server.client("secret").chat.completions.create(
            model="tiny", messages=messages, temperature=0, max_tokens=count, **options)
        return answer.choices[0].message.content

    def check_weather(self, arguments):
        self.assertEqual(set(arguments), {"city", "unit"})
        self.assertIn(arguments["unit"], ("C", "F"))

    def test_anthropic(self):
        need(self, modules=["anthropic"])
        import anthropic
        client = anthropic.Anthropic(base_url=self.address, api_key="secret", max_retries=0)
        options = {"model": "tiny", "max_tokens": 16, "messages": HELLO, "extra_body": {"temperature": 0}}
        answer = client.messages.create(**options)
        self.assertEqual(answer.content[0].text, self.expected())
        self.assertEqual(answer.stop_reason, "max_tokens")
        with_system = client.messages.create(**options, system=[{"type": "text", "text": "Be brief."}])
        self.assertEqual(with_system.content[0].text, self.expected([{"role": "system", "content": "Be brief."}, *HELLO]))
        with client.messages.stream(**options) as stream:
            self.assertEqual("".join(stream.text_stream), self.expected())
            self.assertEqual(stream.get_final_message().usage.output_tokens, 16)
        begun = self.expected()[:5].rstrip()
        client.messages.create(**{**options, "messages": [*HELLO, {"role": "assistant", "content": begun}]})
        self.assertEqual([model.id for model in client.models.list()], ["tiny"])
        tokens = client.messages.count_tokens(model="tiny", messages=HELLO).input_tokens
        self.assertEqual(tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens)
        tool = {"name": "weather", "input_schema": WEATHER}
        for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
            call_options = {**options, "max_tokens": 400, "extra_body": {"temperature": 1}, "tools": [tool],
                            "tool_choice": {**choice, "disable_parallel_tool_use": True}}
            called = client.messages.create(**call_options)
            [call] = called.content
            self.assertEqual((called.stop_reason, call.type, call.name), ("tool_use", "tool_use", "weather"))
            self.check_weather(call.input)
            with client.messages.stream(**call_options) as stream:
                [streamed] = stream.get_final_message().content
            self.check_weather(streamed.input)
        client.messages.create(**{**options, "tools": [tool], "messages": [
            *HELLO, {"role": "assistant", "content": called.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "7"}]}]})
        with self.assertRaisesRegex(anthropic.BadRequestError, "text only"):
            client.messages.create(**{**options, "messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "https://x"}}]}]})
        with self.assertRaises(anthropic.NotFoundError):
            client.messages.create(**{**options, "model": "other"})
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=self.address, api_key="other", max_retries=0).messages.create(**options)

    def test_ollama(self):
        need(self, modules=["ollama"])
        import ollama
        client = ollama.Client(host=self.address, headers={"Authorization": "Bearer secret"})
        options = {"temperature": 0, "num_predict": 16}
        answer = client.chat("tiny", HELLO, options=options)
        self.assertEqual(answer.message.content, self.expected())
        self.assertEqual((answer.done_reason, answer.eval_count), ("length", 16))
        pieces = list(client.chat("tiny", HELLO, options=options, stream=True, keep_alive="5m"))
        self.assertEqual("".join(piece.message.content for piece in pieces), self.expected())
        self.assertTrue(pieces[-1].done)
        self.assertEqual(client.generate("tiny", "Hello", options=options).response, self.expected())
        streamed = client.generate("tiny", "Hello", options=options, stream=True)
        self.assertEqual("".join(piece.response for piece in streamed), self.expected())
        made = client.chat("tiny", HELLO, format=KIND)
        self.assertIn(json.loads(made.message.content)["kind"], ("fox", "dog"))
        self.assertEqual([model.model for model in client.list().models], ["tiny"])
        self.assertIn("completion", client.show("tiny").capabilities)
        vectors = client.embed("tiny", ["Hello", "fox"]).embeddings
        self.assertEqual([len(vector) for vector in vectors], [48, 48])
        call = {"function": {"name": "weather", "arguments": {"city": "Ulm", "unit": "C"}}}
        client.chat("tiny", [*HELLO, {"role": "assistant", "tool_calls": [call]},
                             {"role": "tool", "tool_name": "weather", "content": "7"}], options=options,
                    tools=[{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}])
        with self.assertRaisesRegex(ollama.ResponseError, "not served"):
            client.chat("other", HELLO)
        with self.assertRaisesRegex(ollama.ResponseError, "temprature"):
            client.chat("tiny", HELLO, options={"temprature": 0})

    def test_litellm(self):
        need(self, modules=["litellm"])
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask for prices
        import litellm
        options = {"messages": HELLO, "temperature": 0, "max_tokens": 16, "num_retries": 0}
        of_each = {"openai/tiny": {"api_base": self.address + "/v1", "api_key": "secret"},
                   "hosted_vllm/tiny": {"api_base": self.address + "/v1", "api_key": "secret"},
                   "anthropic/tiny": {"api_base": self.address, "api_key": "secret"},
                   "ollama_chat/tiny": {"api_base": self.address, "api_key": "secret"}}
        tool = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
        for model, access in of_each.items():
            with self.subTest(model):
                answer = litellm.completion(model=model, **access, **options)
                self.assertEqual(answer.choices[0].message.content, self.expected())
                text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(
                    model=model, **access, **options, stream=True))
                self.assertEqual(text, self.expected())
                if model.startswith("ollama"):
                    continue
                called = litellm.completion(model=model, **access, **{**options, "max_tokens": 400, "temperature": 1}, tools=[tool],
                                            tool_choice="required", parallel_tool_calls=False)
                self.check_weather(json.loads(called.choices[0].message.tool_calls[0].function.arguments))
        with self.assertRaises(litellm.ContextWindowExceededError):
            litellm.completion(model="openai/tiny", **of_each["openai/tiny"], messages=[{"role": "user", "content": "a " * 2000}])
        with self.assertRaises(litellm.AuthenticationError):
            litellm.completion(model="openai/tiny", **{**of_each["openai/tiny"], "api_key": "other"}, **options)


if __name__ == "__main__":
    unittest.main()
