"""`colossal serve` as programs of others use it: lm-eval, a load generator, a browser."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from transformers import AutoModelForCausalLM

from harness import EndToEndTest
from serve_test import POSITIONS, Server, ServesModel, make_model

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


class ChatPage(EndToEndTest):
    """The chat page as a person uses it in a browser."""

    @classmethod
    def setUpClass(cls):
        cls.model = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.model, ignore_errors=True)
        make_model(cls.model, positions=8192)
        # Answers are as long as they may be: the end of text is never the most likely token.
        model = AutoModelForCausalLM.from_pretrained(cls.model, dtype=torch.float32)
        with torch.no_grad():
            model.lm_head.weight[model.config.eos_token_id] = 0
        model.save_pretrained(cls.model)
        cls.server = Server(cls.model)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        need(self, "chromium", "chromedriver", modules=["selenium"])
        from selenium import webdriver
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1000,700", f"--user-data-dir={self.directory}/browser"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        self.addCleanup(self.browser.quit)
        self.browser.set_page_load_timeout(60)
        self.open_page()

    def open_page(self):
        self.browser.get(f"http://127.0.0.1:{self.server.port}/")
        self.await_that(lambda: "tiny" in self.text("#model"), "the name of the model")
        self.choose("temperature", "0")

    def await_that(self, true, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def find(self, selector):
        return self.browser.find_elements("css selector", selector)

    def text(self, selector):
        """As it is in the page; what a browser shows has no space at its ends."""
        return "".join(element.get_property("textContent") for element in self.find(selector))

    def answer(self):
        """Text of the last answer, without the line of figures under it."""
        return self.browser.execute_script("return [...document.querySelectorAll('.turn.assistant')].at(-1).firstChild.data")

    def choose(self, name, value):
        self.browser.execute_script("document.querySelector('details').open = true")
        [field] = self.find(f"#{name}")
        field.clear()
        field.send_keys(value)
        self.browser.execute_script("document.querySelector('details').open = false")

    def say(self, text):
        from selenium.webdriver.common.keys import Keys
        self.find("#text")[0].send_keys(text, Keys.ENTER)
        self.await_that(lambda: self.find(".turn.assistant"), "a turn for the answer")

    def await_end(self):
        self.await_that(lambda: self.text("#send") == "Send", "the end of the answer")

    def ended(self, reason):
        found = re.search(rf'finished_reason="{reason}"}} (\d+)', self.server.get("/metrics"))
        return int(found[1]) if found else 0

    def greedy(self, *messages, count):
        roles = ("user", "assistant")
        answer = self.server.client().chat.completions.create(
            model="tiny", temperature=0, max_tokens=count,
            messages=[{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)])
        return answer.choices[0].message.content

    def assert_no_errors(self):
        told = [line for line in self.browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(told, [])

    def test_a_conversation(self):
        self.choose("max_tokens", "24")
        first = self.greedy("The quick", count=24)
        self.assertTrue(first)
        self.say("The quick")
        self.await_end()
        self.assertEqual(self.answer(), first)
        self.assertEqual(self.text(".turn.user"), "The quick")
        self.assertIn("24 tokens", self.text(".turn.assistant small"))
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("The quick", first, "lazy dog", count=24))
        # A new page begins a new conversation.
        self.open_page()
        self.assertEqual(self.find(".turn"), [])
        self.choose("max_tokens", "24")
        self.say("The quick")
        self.await_end()
        self.assertEqual(self.answer(), first)
        self.assert_no_errors()

    def begin_a_long_answer(self):
        self.choose("max_tokens", "8000")
        self.say("The quick")
        self.await_that(self.answer, "the beginning of an answer")
        self.assertEqual(self.text("#send"), "Stop")

    def test_stop_cancels_the_request(self):
        aborted = self.ended("abort")
        self.begin_a_long_answer()
        self.find("#send")[0].click()
        self.await_end()
        self.await_that(lambda: self.ended("abort") == aborted + 1, "the request is cancelled")
        self.await_that(lambda: self.server.metric("kv_cache_pages_used") == 0, "its pages are free")
        self.assertIn("stopped", self.text(".turn.assistant small"))
        kept = self.answer()
        self.assertTrue(kept)
        self.assertEqual(self.find(".turn.error"), [])
        self.assert_no_errors()

    def test_a_closed_page_cancels_its_request(self):
        aborted = self.ended("abort")
        self.begin_a_long_answer()
        self.open_page()
        self.await_that(lambda: self.ended("abort") == aborted + 1, "the request is cancelled")
        self.assertEqual(self.find(".turn"), [])
        self.assert_no_errors()

    def test_the_next_message_is_typed_while_an_answer_comes(self):
        self.begin_a_long_answer()
        self.say("lazy dog")  # ends with Enter, which neither sends nor stops
        self.assertEqual(self.text("#send"), "Stop")
        self.assertEqual(self.find("#text")[0].get_property("value"), "lazy dog")
        self.find("#send")[0].click()
        self.await_end()
        self.assertEqual(self.find("#text")[0].get_property("value"), "lazy dog")
        self.assert_no_errors()

    def test_what_failed_is_not_asked_again(self):
        self.choose("max_tokens", "9000")
        self.say("The quick")
        self.await_end()
        self.assertIn("9000 more are requested", self.text(".turn.error"))
        self.choose("max_tokens", "24")
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("lazy dog", count=24))

    def test_new_during_an_answer_begins_anew(self):
        self.begin_a_long_answer()
        self.find("#clear")[0].click()
        self.await_end()
        self.assertEqual(self.find(".turn"), [])
        self.choose("max_tokens", "24")
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("lazy dog", count=24))
        self.assert_no_errors()


if __name__ == "__main__":
    unittest.main()
