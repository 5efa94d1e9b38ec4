"""colossal.LLM beside transformers and the command `colossal generate`: the same texts, log-probabilities and embeddings."""
import gc
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

import colossal
from tiny_models import make_classifier, make_model

COLOSSAL = os.environ["COLOSSAL"]
PROMPTS = ["The quick", "naïve 日本", "lazy dog. The", "1"]

HERMES = """{% if tools %}<|system|>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call by <tool_call>{"name": <name>, "arguments": <arguments>}</tool_call><|end|>
{% endif %}{% for message in messages %}<|{{ message.role }}|>
{{ message.content or '' }}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
WEATHER = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"]}}}


class LLMTest(unittest.TestCase):
    family, positions = "llama", 256

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        make_model(cls.folder, cls.family, cls.positions)
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.folder)
        cls.reference = AutoModelForCausalLM.from_pretrained(cls.folder, dtype=torch.float32)
        cls.llm = colossal.LLM(cls.folder)
        cls.addClassCleanup(cls.llm.close)

    def greedy(self, ids, count=16):
        made = self.reference.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False)[0, len(ids):].tolist()
        return [token for token in made if token != self.tokenizer.eos_token_id]

    def await_end(self):
        """Until nothing is being generated any more."""
        deadline = time.monotonic() + 20
        while self.llm.statistics.running and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.llm.statistics.running, 0)

    def ids(self, text):
        return self.tokenizer(text).input_ids


class Qwen(LLMTest):
    family = "qwen2"

    def test_greedy_is_that_of_transformers(self):
        for prompt, answer in zip(PROMPTS, self.llm.generate(PROMPTS, temperature=0, max_tokens=16)):
            self.assertEqual(answer.token_ids, self.greedy(self.ids(prompt)))


class Generate(LLMTest):
    def test_greedy_is_that_of_transformers(self):
        answers = self.llm.generate(PROMPTS, temperature=0, max_tokens=16)
        for prompt, answer in zip(PROMPTS, answers):
            expected = self.greedy(self.ids(prompt))
            self.assertEqual(answer.token_ids, expected)
            self.assertEqual(answer.prompt_token_ids, self.ids(prompt))
            self.assertEqual(answer.text, self.tokenizer.decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False))
            self.assertEqual(answer.finish_reason, "length" if len(expected) == 16 else "stop")

    def test_one_prompt_gives_one_completion(self):
        self.assertEqual(self.llm.generate("The quick", temperature=0).text,
                         self.llm.generate(["The quick"], temperature=0)[0].text)
        self.assertEqual(self.llm.generate([]), [])

    def test_takes_tokens_of_all_kinds(self):
        ids = self.ids("The quick")
        expected = self.llm.generate("The quick", temperature=0).token_ids
        for one in (ids, tuple(ids), numpy.array(ids), numpy.array(ids, dtype=numpy.uint16), torch.tensor(ids),
                    [numpy.int64(token) for token in ids]):
            self.assertEqual(self.llm.generate(one, temperature=0).token_ids, expected)
        for several in ([ids, "The quick"], [numpy.array(ids), torch.tensor(ids)], numpy.array([ids, ids]), torch.tensor([ids, ids])):
            self.assertEqual([answer.token_ids for answer in self.llm.generate(several, temperature=0)], [expected] * 2)

    def test_each_prompt_may_have_its_settings(self):
        settings = [colossal.SamplingParams(temperature=0, max_tokens=3), colossal.SamplingParams(temperature=0.8, seed=5, max_tokens=9),
                    colossal.SamplingParams(temperature=0, max_tokens=12, stop=["o"]), colossal.SamplingParams(temperature=0, n=2)]
        together = self.llm.generate(PROMPTS, settings)
        alone = [self.llm.generate(prompt, one) for prompt, one in zip(PROMPTS, settings)]
        self.assertEqual([[choice.text for choice in answer.choices] for answer in together],
                         [[choice.text for choice in answer.choices] for answer in alone])
        self.assertLessEqual(len(together[0].token_ids), 3)
        self.assertEqual(len(together[3].choices), 2)

    def test_sampling_is_that_of_the_command(self):
        settings = {"temperature": 0.9, "top_p": 0.9, "max_tokens": 20, "min_tokens": 20, "repetition_penalty": 1.1}
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"prompt": prompt, "seed": 3 + i, **settings}) + "\n" for i, prompt in enumerate(PROMPTS)))
        output = self.folder / "answers.jsonl"
        subprocess.run([COLOSSAL, "generate", str(self.folder), f"--input={lines}", f"--output={output}"], check=True,
                       capture_output=True)
        expected = [json.loads(line)["completion"] for line in output.read_text().splitlines()]
        sampling = [colossal.SamplingParams(seed=3 + i, **settings) for i in range(len(PROMPTS))]
        for _ in range(2):
            self.assertEqual([answer.text for answer in self.llm.generate(PROMPTS, sampling)], expected)
        self.assertNotEqual(self.llm.generate(PROMPTS[0], seed=4, **settings).text, expected[0])

    def test_logprobs_are_those_of_transformers(self):
        answer = self.llm.generate("The quick", temperature=0, max_tokens=5, logprobs=2, prompt_logprobs=0)
        ids = answer.prompt_token_ids + answer.token_ids
        with torch.no_grad():
            expected = self.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
        start = len(answer.prompt_token_ids)
        self.assertEqual([entry.token_id for entry in answer.logprobs], answer.token_ids)
        for position, entry in enumerate(answer.logprobs, start - 1):
            self.assertAlmostEqual(entry.logprob, expected[position, entry.token_id].item(), delta=1e-4)
            self.assertEqual(entry.rank, 1)
            self.assertEqual([token for token, _ in entry.top], expected[position].topk(2).indices.tolist())
        self.assertIsNone(answer.prompt_logprobs[0])
        for position, entry in enumerate(answer.prompt_logprobs[1:]):
            self.assertAlmostEqual(entry.logprob, expected[position, ids[position + 1]].item(), delta=1e-4)
        self.assertIsNone(self.llm.generate("The quick", temperature=0).logprobs)

    def test_beam_search_is_that_of_transformers(self):
        ids = self.ids("The quick")
        expected = self.reference.generate(torch.tensor([ids]), num_beams=3, max_new_tokens=8, do_sample=False)[0, len(ids):].tolist()
        found = self.llm.generate(ids, use_beam_search=True, best_of=3, n=1, max_tokens=8)
        self.assertEqual(found.token_ids, [token for token in expected if token != self.tokenizer.eos_token_id])

    def test_answers_keep_to_a_rule(self):
        for setting in ({"structured_outputs": {"choice": ["yes", "no"]}}, {"structured_outputs": {"regex": "yes|no"}}):
            self.assertIn(self.llm.generate("Is it?", temperature=0.5, max_tokens=9, **setting).text, ("yes", "no"))

    def test_stop_texts(self):
        whole = self.llm.generate("The quick", temperature=0, max_tokens=40, ignore_eos=True).text
        answer = self.llm.generate("The quick", temperature=0, max_tokens=40, ignore_eos=True, stop=whole[5:8])
        self.assertEqual((answer.text, answer.stop_string, answer.finish_reason), (whole[:whole.index(whole[5:8])], whole[5:8], "stop"))


class Stream(LLMTest):
    positions = 8192

    def test_pieces_are_the_whole(self):
        for settings in ({"temperature": 0}, {"temperature": 0.8, "seed": 2, "logprobs": 1}):
            whole = self.llm.generate("The quick", max_tokens=40, **settings)
            pieces = list(self.llm.stream("The quick", max_tokens=40, **settings))
            self.assertGreater(len(pieces), 3)
            self.assertEqual("".join(pieces), whole.text)
            self.assertEqual([token for piece in pieces for token in piece.token_ids], whole.token_ids)
            self.assertEqual(pieces[-1].finish_reason, whole.finish_reason)
            if "logprobs" in settings:
                self.assertEqual([entry for piece in pieces for entry in piece.logprobs], whole.logprobs)

    def test_closing_it_ends_the_request(self):
        for end in (lambda stream: stream.close(), lambda stream: None):  # the second: it is dropped
            before = self.llm.statistics.generated_tokens
            stream = self.llm.stream("The quick", temperature=0, max_tokens=8000, ignore_eos=True)
            next(stream)
            end(stream)
            del stream
            gc.collect()
            self.await_end()
            self.assertLess(self.llm.statistics.generated_tokens - before, 8000)
        stream = self.llm.stream("The quick", max_tokens=200)
        stream.close()
        self.assertEqual(list(stream), [])

    def test_of_a_conversation(self):
        messages = [{"role": "user", "content": "Hello"}]
        self.assertEqual("".join(self.llm.stream(messages, temperature=0, max_tokens=12)),
                         self.llm.chat(messages, temperature=0, max_tokens=12).text)


class Chat(LLMTest):
    def test_prompt_is_the_template_of_transformers(self):
        conversations = [[{"role": "user", "content": "Hello"}],
                         [{"role": "system", "content": "The fox"}, {"role": "user", "content": "jumps"}]]
        answers = self.llm.chat(conversations, temperature=0, max_tokens=12)
        for messages, answer in zip(conversations, answers):
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            self.assertEqual(answer.prompt_token_ids, ids)
            self.assertEqual(answer.token_ids, self.greedy(ids, 12))
        self.assertEqual(self.llm.chat(conversations[0], temperature=0, max_tokens=12).text, answers[0].text)

    def test_logprobs(self):
        answer = self.llm.chat([{"role": "user", "content": "Hello"}], temperature=0, max_tokens=4, logprobs=1)
        self.assertEqual([entry.token_id for entry in answer.logprobs], answer.token_ids)
        self.assertEqual([entry.top[0][0] for entry in answer.logprobs], answer.token_ids)


class Tools(unittest.TestCase):
    def test_calls(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        make_model(folder, positions=1024, template=HERMES)
        messages = [{"role": "user", "content": "The fox"}]
        settings = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 400, "seed": 1}
        with colossal.LLM(folder) as llm:
            answer = llm.chat(messages, **settings)
            pieces = list(llm.stream(messages, **settings))
        call = answer.tool_calls[0]
        self.assertEqual((call.name, answer.finish_reason, answer.text), ("weather", "tool_calls", ""))
        self.assertIn(json.loads(call.arguments)["unit"], ("C", "F"))
        added = [each for piece in pieces for each in piece.tool_calls if each[0] == 0]
        self.assertEqual("".join(arguments for _, _, _, arguments in added), call.arguments)
        ids = AutoTokenizer.from_pretrained(folder).apply_chat_template(messages, tools=[WEATHER], add_generation_prompt=True,
                                                                       return_dict=False)
        self.assertEqual(answer.prompt_token_ids, ids)


class Classify(unittest.TestCase):
    def test_labels_are_those_of_transformers(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for labels in (["bad", "good", "odd"], ["score"]):
            make_classifier(folder, labels)
            tokenizer, reference = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder)
            with torch.no_grad():
                expected = torch.cat([reference(**tokenizer(text, return_tensors="pt")).logits for text in PROMPTS])
            with colossal.LLM(folder, dtype="fp32") as llm:
                found = llm.classify(PROMPTS)
                with self.assertRaisesRegex(colossal.ConfigError, "predicts no next token"):
                    llm.generate("a")
                if len(labels) == 1:
                    self.assertEqual(llm.score("The", PROMPTS).shape, (len(PROMPTS),))
            if len(labels) > 1:
                expected = expected.softmax(-1)
                self.assertEqual([each.label for each in found], [labels[index] for index in expected.argmax(-1)])
            numpy.testing.assert_allclose([each.probabilities for each in found], expected.numpy(), atol=1e-5)


class Embed(LLMTest):
    def states(self, text):
        with torch.no_grad():
            return self.reference.model(torch.tensor([self.ids(text)])).last_hidden_state[0]

    def test_embeddings_are_hidden_states_of_transformers(self):
        for pooling in ("last", "mean", None):
            found = self.llm.embed(PROMPTS, pooling=pooling, normalize=False)
            self.assertEqual((found.shape, found.dtype), ((len(PROMPTS), 48), numpy.float32))
            for prompt, embedding in zip(PROMPTS, found):
                states = self.states(prompt)
                expected = (states.mean(0) if pooling == "mean" else states[-1]).numpy()
                numpy.testing.assert_allclose(embedding, expected, atol=1e-5 * abs(expected).max())

    def test_norm_dimensions_and_tokens(self):
        expected = self.states("The quick")[-1][:10].numpy()
        found = self.llm.embed(numpy.array(self.ids("The quick")), dimensions=10)
        numpy.testing.assert_allclose(found, expected / numpy.linalg.norm(expected), atol=1e-5)
        many = self.llm.embed(["The quick"] * 600, dimensions=10)
        self.assertEqual(many.shape, (600, 10))
        numpy.testing.assert_allclose(many, numpy.tile(found, (600, 1)), atol=1e-5)


class Life(LLMTest):
    positions = 8192

    def test_threads(self):
        expected = [answer.text for answer in self.llm.generate(PROMPTS, temperature=0, max_tokens=30)]
        found = {}

        def work(number):
            found[number] = [answer.text for answer in self.llm.generate(PROMPTS, temperature=0, max_tokens=30)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(found.values()), [expected] * 4)

    def test_interrupt_leaves_it_usable(self):
        expected = self.llm.generate("The quick", temperature=0).text
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        before = self.llm.statistics.generated_tokens
        with self.assertRaises(KeyboardInterrupt):
            self.llm.generate(PROMPTS * 8, temperature=0, max_tokens=8000, ignore_eos=True)
        timer.join()
        self.assertEqual(self.llm.generate("The quick", temperature=0).text, expected)
        self.await_end()
        self.assertLess(self.llm.statistics.generated_tokens - before, 8 * len(PROMPTS) * 8000)

    def test_close_ends_what_is_running(self):
        with colossal.LLM(self.folder) as llm:
            stream = llm.stream("The quick", max_tokens=8000, ignore_eos=True)
            next(stream)
        for _ in range(2):
            with self.assertRaisesRegex(colossal.Error, "closed before this was complete"):
                list(stream)
        with self.assertRaisesRegex(colossal.Error, "this LLM is closed"):
            llm.generate("The quick")
        llm.close()

    def test_end_of_the_program_while_it_generates(self):
        program = f"""
import colossal, threading
llm = colossal.LLM({str(self.folder)!r})
stream = llm.stream("The quick", max_tokens=8000, ignore_eos=True)
print(len(next(stream)) > 0, flush=True)
threading.Thread(target=llm.generate, args=("The",), kwargs={{"max_tokens": 8000, "ignore_eos": True}}, daemon=True).start()
"""
        for _ in range(3):
            ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
            self.assertEqual((ended.returncode, ended.stdout), (0, "True\n"), ended.stderr)

    def test_generation_config_takes_the_place_of_the_folder_s(self):
        with colossal.LLM(self.folder, generation_config={"do_sample": False, "max_new_tokens": 3}) as llm:
            answer = llm.generate("The quick")
        self.assertEqual(answer.token_ids, self.greedy(self.ids("The quick"), 3))

    def test_adapters_are_those_of_the_command(self):
        pairs = self.folder / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": f"The {i}", "completion": " quick fox"}) + "\n" for i in range(8)))
        run = colossal.tune("sft", model={"path": self.folder}, data={"train": pairs, "sequence_length": 32}, adapter={"kind": "lora", "rank": 4},
                            optimizer={"learning_rate": 0.05}, train={"steps": 20, "global_batch": 4, "threads": 1},
                            precision={"compute": "fp32"}, checkpoint={"directory": self.folder / "checkpoints"},
                            log={"directory": self.folder / "log"})
        expected = subprocess.run([COLOSSAL, "generate", str(self.folder), f"--adapter={run.checkpoint}", "--prompt=The 3", "--temperature=0",
                                   "--max-new-tokens=8"], check=True, capture_output=True, text=True).stdout
        without = self.llm.generate("The 3", temperature=0, max_tokens=8).text
        with colossal.LLM(self.folder, adapters={"tuned": run.checkpoint}) as llm:
            found = llm.generate("The 3", temperature=0, max_tokens=8, adapter="tuned").text
            self.assertEqual(llm.generate("The 3", temperature=0, max_tokens=8).text, without)
            llm.unload_adapter("tuned")
            with self.assertRaisesRegex(colossal.ConfigError, "is not served"):
                llm.generate("The 3", adapter="tuned")
        self.assertEqual(f"The 3{found}\n", expected)
        self.assertNotEqual(found, without)

    def test_speculation_changes_no_text(self):
        expected = self.llm.generate(PROMPTS, temperature=0, max_tokens=30)
        for options in ({"speculate": "lookup"}, {"draft": self.folder, "num_drafts": 2}):
            with colossal.LLM(self.folder, **options) as llm:
                self.assertEqual([answer.token_ids for answer in llm.generate(PROMPTS, temperature=0, max_tokens=30)],
                                 [answer.token_ids for answer in expected])
                if "draft" in options:  # the model itself: all its tokens are right
                    self.assertGreater(llm.statistics.accepted_tokens, 0)
        with self.assertRaisesRegex(colossal.ConfigError, "speculate=eagle, draft="):
            colossal.LLM(self.folder, speculate="eagle")

    def test_gguf(self):
        file = self.folder / "model.gguf"
        subprocess.run([COLOSSAL, "convert", str(self.folder), str(file), "--type=f32"], check=True, capture_output=True)
        with colossal.LLM(file, dtype="fp32") as llm:
            found = llm.generate(PROMPTS, temperature=0, max_tokens=16)
        self.assertEqual([answer.token_ids for answer in found],
                         [answer.token_ids for answer in self.llm.generate(PROMPTS, temperature=0, max_tokens=16)])
        with self.assertRaisesRegex(colossal.ConfigError, "no such file"):
            colossal.LLM("none.gguf")

    def test_int8(self):
        with colossal.LLM(self.folder, dtype="bf16", quantization="int8", kv_dtype="int8", kv_bytes="8MiB", max_model_len=64) as llm:
            self.assertEqual(llm.max_model_len, 64)
            self.assertGreater(len(llm.generate("The quick", ignore_eos=True, max_tokens=8).token_ids), 0)


class Ranks(LLMTest):
    program = """
import json, sys, colossal
folder, prompts, output = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
for layout in {"tp": 2}, {"pp": 2}:
    with colossal.LLM(folder, dtype="fp64", parallel=layout) as llm:
        if llm.leads:
            found = [answer.token_ids for answer in llm.generate(prompts, temperature=0, max_tokens=20)]
            open(output, "a").write(json.dumps(found) + "\\n")
        else:
            try:
                llm.generate("a")
            except colossal.ConfigError as error:
                assert "rank 1 holds a part of the model" in str(error), error
            else:
                raise AssertionError
"""

    def test_two_ranks_hold_one_model(self):
        program, output = self.folder / "ranks.py", self.folder / "found.jsonl"
        program.write_text(self.program)
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program),
                        str(self.folder), json.dumps(PROMPTS), str(output)], check=True, capture_output=True, timeout=300)
        with colossal.LLM(self.folder, dtype="fp64") as llm:
            expected = [answer.token_ids for answer in llm.generate(PROMPTS, temperature=0, max_tokens=20)]
        self.assertEqual([json.loads(line) for line in output.read_text().splitlines()], [expected] * 2)

    def test_needs_a_launcher(self):
        with self.assertRaisesRegex(colossal.ConfigError, "tp 2 = 2; start the ranks with torchrun"):
            colossal.LLM(self.folder, parallel={"tp": 2})


class Errors(LLMTest):
    def assert_refused(self, words, call, *arguments, **settings):
        with self.assertRaisesRegex(colossal.ConfigError, words):
            call(*arguments, **settings)

    def test_say_what_is_wrong(self):
        generate = self.llm.generate
        self.assert_refused("temperature", generate, "a", temperature=-1)
        self.assert_refused("outside the model's vocabulary", generate, [5, 100000])
        self.assert_refused("256", generate, "a", max_tokens=300)
        self.assert_refused("prompt is empty", generate, "")
        self.assert_refused("is not served; available", generate, "a", adapter="other")
        self.assert_refused("a text or the numbers of its tokens", generate, [[1.5, 2]])
        self.assert_refused("2 SamplingParams for 1 prompts", generate, ["a"], [colossal.SamplingParams()] * 2)
        self.assert_refused("not both", generate, "a", colossal.SamplingParams(), temperature=0)
        self.assert_refused("structured_outputs|regex|expression", generate, "a", structured_outputs={"regex": "("})
        self.assert_refused("stream\\(\\) takes one prompt", self.llm.stream, ["a", "b"])
        self.assert_refused("pooling", self.llm.embed, "a", pooling="median")
        self.assert_refused("dimensions = 100", self.llm.embed, "a", dimensions=100)
        with self.assertRaisesRegex(TypeError, "temprature"):
            generate("a", temprature=1)
        # One wrong prompt ends the others, and nothing stays.
        self.assert_refused("vocabulary", generate, [[1, 2], [100000]], max_tokens=200)
        self.assertEqual(len(generate(["a", "b"], max_tokens=2)), 2)

    def test_folders_and_options(self):
        for words, folder, options in (
                ("dtype=fp8", self.folder, {"dtype": "fp8"}), ("quantization=int5: must be", self.folder, {"quantization": "int5"}),
                ("quantization_group=7", self.folder, {"quantization": "int8", "quantization_group": 7}),
                ("kv_bytes=much", self.folder, {"kv_bytes": "much"}), ("kv_dtype=int9", self.folder, {"kv_dtype": "int9"}),
                ("max_model_len=500", self.folder, {"max_model_len": 500}), ("config.json", self.folder / "none", {}),
                ("device=tpu", self.folder, {"device": "tpu"}), ("nvme", self.folder, {"offload": "nvme"}),
                ("adapter", self.folder, {"adapters": {"a": self.folder / "none"}})):
            self.assert_refused(words, colossal.LLM, folder, **options)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
