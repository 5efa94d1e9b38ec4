"""`colossal generate --input`: files of prompts, which are answered completely or continued, and never lost."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from harness import COLOSSAL, EndToEndTest
from serve_test import POSITIONS, Server, make_model

FLAGS = ["--train.threads=1", "--precision.compute=fp32", "--max-new-tokens=8"]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


class BatchTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "tiny"
        make_model(self.model)
        self.input, self.output = self.directory / "in.jsonl", self.directory / "out.jsonl"
        self.progress = self.directory / "out.jsonl.progress.jsonl"

    def write(self, lines):
        self.input.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))

    def run_batch(self, *flags, expect=0, output=None, **kwargs):
        output = output or self.output
        done = subprocess.run(
            list(map(str, [COLOSSAL, "generate", self.model, f"--input={self.input}", f"--output={output}", *FLAGS, *flags])),
            capture_output=True, text=True, timeout=120, **kwargs)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def lines(self):
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def answers(self, lines, *flags):
        """The output for these lines, from the start."""
        self.write(lines)
        self.output.unlink(missing_ok=True)
        self.run_batch(*flags)
        return self.lines()


class WhatIsKept(BatchTest):
    def test_the_input_is_never_the_output(self):
        self.write([{"prompt": "The quick"}] * 3)
        before = self.input.read_bytes()
        link, hard = self.directory / "link.jsonl", self.directory / "hard.jsonl"
        link.symlink_to(self.input)
        os.link(self.input, hard)
        for output in (self.input, link, hard, self.directory / "." / "in.jsonl"):
            log = self.run_batch(expect=2, output=output)
            self.assertIn("is the input", log)
            self.assertEqual(self.input.read_bytes(), before)
        # The file beside the output is not the input either.
        beside = self.directory / "x.progress.jsonl"
        self.input.rename(beside)
        done = subprocess.run([COLOSSAL, "generate", self.model, f"--input={beside}", f"--output={self.directory}/x"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(beside.read_bytes(), before)

    def start(self, *flags):
        return subprocess.Popen(
            list(map(str, [COLOSSAL, "generate", self.model, f"--input={self.input}", f"--output={self.output}", *FLAGS, *flags])),
            stderr=subprocess.PIPE, text=True)

    def wait_for_lines(self, process, count):
        deadline = time.monotonic() + 60
        while not self.output.exists() or self.output.read_bytes().count(b"\n") < count:
            self.assertIsNone(process.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_the_same_command_goes_on_after_a_kill_and_a_stop(self):
        # Lengths differ, so that lines are complete before lines ahead of them.
        prompts = [{"prompt": "The quick brown"[:2 + i % 9], "number": i, "max_tokens": 240 if i % 70 == 5 else 4 + i % 5}
                   for i in range(400)]
        expected = [line["completion"] for line in self.answers(prompts, "--seed=3")]
        self.output.unlink()
        process = self.start("--seed=3")
        self.wait_for_lines(process, 2)
        process.kill()
        process.communicate()
        torn = self.output.read_bytes()
        complete = torn[:torn.rfind(b"\n") + 1]
        self.assertLess(complete.count(b"\n"), 400)
        self.output.write_bytes(complete + b'{"prompt": "The qu')  # as if it had been killed within a line
        process = self.start("--seed=3")
        self.wait_for_lines(process, complete.count(b"\n") + 3)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 75, log)
        done = re.search(r"stopped: (\d+) of 400 lines are complete in .*; to go on, use the same command", log)
        self.assertTrue(done, log)
        self.assertTrue(self.output.read_bytes().startswith(complete))
        log = self.run_batch("--seed=3")
        self.assertIn(f"{done[1]} of 400 lines are complete; going on with the others", log)
        self.assertEqual([line["number"] for line in self.lines()], list(range(400)))
        self.assertEqual([line["completion"] for line in self.lines()], expected)
        self.assertEqual(len(self.progress.read_text().splitlines()), 1)
        whole = self.output.read_bytes()
        self.assertIn("nothing to do: all 400 lines are complete", self.run_batch("--seed=3"))
        self.assertEqual(self.output.read_bytes(), whole)

    def test_lines_that_wait_for_others_are_not_lost(self):
        self.write([{"prompt": "The", "max_tokens": 250}, *[{"prompt": "The", "max_tokens": 2}] * 40])
        self.run_batch()
        expected = self.output.read_text().splitlines()
        # As after a kill when all but the first line were complete.
        settings = self.progress.read_text()
        ahead = "".join(json.dumps({"index": i, "line": json.loads(expected[i])}) + "\n" for i in range(1, 41))
        self.progress.write_text(settings + ahead + '{"index": 3, "li')
        self.output.write_text("")
        self.assertIn("40 of 41 lines are complete", self.run_batch())
        self.assertEqual(self.output.read_text().splitlines(), expected)

    def test_what_was_made_otherwise_is_refused_with_the_reason(self):
        self.write([{"prompt": "The quick"}] * 3)
        self.run_batch("--temperature=0")
        before = self.output.read_bytes()
        for flags, word in ((["--temperature=0.5"], "--temperature was 0, and now is 0.5"), (["--seed=1"], "--seed"),
                            (["--stop=x"], "--stop"), (["--quantize=int8"], "--quantize")):
            greedy = [] if "--temperature" in word else ["--temperature=0"]
            self.assertIn(word, self.run_batch(*greedy, *flags, expect=2))
        self.write([{"prompt": "The quick"}] * 4)
        self.assertIn("the content of --input", self.run_batch("--temperature=0", expect=2))
        self.progress.unlink()
        self.assertIn("the file exists", self.run_batch("--temperature=0", expect=2))
        self.assertEqual(self.output.read_bytes(), before)
        self.output.unlink()
        self.run_batch("--temperature=0")  # begins again
        self.assertEqual(len(self.lines()), 4)

    def test_one_process_at_a_time(self):
        self.write([{"prompt": "The", "max_tokens": 200}] * 200)
        process = self.start()
        self.wait_for_lines(process, 1)
        self.assertIn("another process is writing", self.run_batch(expect=2))
        process.kill()
        process.communicate()

    def test_a_full_disk_ends_it_and_it_goes_on(self):
        folder = self.mount_small("small", "64k")
        self.output = folder / "out.jsonl"
        self.write([{"prompt": "The", "note": "x" * 3000, "number": i} for i in range(40)])
        log = self.run_batch(expect=1)
        self.assertIn("cannot write", log)
        done = len(self.lines())
        self.assertGreater(done, 0)
        subprocess.run(["mount", "-o", "remount,size=4m", folder], check=True)
        self.run_batch()
        self.assertEqual([line["number"] for line in self.lines()], list(range(40)))

    def test_standard_input_and_output(self):
        prompts = [{"prompt": "The"}, {"prompt": "quick"}]
        expected = self.answers(prompts)
        done = subprocess.run([COLOSSAL, "generate", self.model, "--input=-", "--output=-", *FLAGS], capture_output=True,
                              text=True, input=self.input.read_text())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], expected)


class WhatALineSays(BatchTest):
    def test_fields_are_obeyed(self):
        greedy = {"prompt": "The quick", "temperature": 0}
        lines = self.answers([
            greedy, {**greedy, "max_tokens": 3}, {"prompt": "The quick", "seed": 5}, {"prompt": "The quick", "seed": 5},
            {**greedy, "logprobs": 2}, {**greedy, "min_tokens": 5, "stop": ["zzz"]}, {"prompt": "The quick", "top_k": 1}],
            "--temperature=1.5")
        self.assertEqual(lines[1]["completion_tokens"], 3)
        self.assertTrue(lines[0]["completion"].startswith(lines[1]["completion"]))
        self.assertEqual(lines[2]["completion"], lines[3]["completion"])
        self.assertEqual(len(lines[4]["logprobs"][0]["top"]), 2)
        self.assertEqual(lines[4]["input_logprobs"], 2)
        self.assertEqual(lines[6]["completion"], lines[0]["completion"])
        stop = lines[0]["completion"][2:4]
        stopped = self.answers([{**greedy, "stop": stop}])[0]
        self.assertEqual((stopped["completion"], stopped["finish_reason"]), (lines[0]["completion"].split(stop)[0], "stop"))

    def test_tools_and_template_variables_reach_the_template(self):
        template = ("{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}{{ mood }}"
                    "{% for document in documents or [] %}({{ document.text }}){% endfor %}"
                    "{% for m in messages %}{{ m.content }}{% endfor %}")
        (self.model / "chat_template.jinja").write_text(template)
        message = [{"role": "user", "content": "fox"}]
        lines = self.answers([
            {"messages": message, "tools": [TOOL], "chat_template_kwargs": {"mood": "lazy"}, "documents": [{"text": "dog"}],
             "temperature": 0},
            {"prompt": "[weather]lazy(dog)fox", "temperature": 0}])
        self.assertEqual(lines[0]["completion"], lines[1]["completion"])
        self.assertEqual(lines[0]["tools"], [TOOL])

    def test_fields_of_the_line_survive(self):
        self.write([{"prompt": "The", "completion": " gold", "answer": 42, "finish_reason": "?"}] * 2)
        log = self.run_batch()
        for line in self.lines():
            self.assertEqual((line["input_completion"], line["answer"], line["input_finish_reason"]), (" gold", 42, "?"))
            self.assertNotEqual(line["completion"], " gold")
            self.assertEqual(line["completion_tokens"], 8)
        self.assertEqual(log.count('"answer"'), 1, log)
        self.assertIn('keeps this one as "input_completion"', log)

    def test_errors_belong_to_their_lines(self):
        good = {"prompt": "The quick", "temperature": 0}
        bad = [({"prompt": "x " * POSITIONS}, "tokens"), ("nonsense\n", "JSON"), ({"prompt": 5}, "prompt"), ({"prompt": ""}, "empty"),
               ({"text": "x"}, "neither"), ({**good, "temperature": "hot"}, "temperature"), ({**good, "n": 2}, "n: not supported"),
               ({"messages": [{"role": "user"}], "prompt": "x"}, "both"), ({**good, "max_tokens": POSITIONS}, "tokens")]
        self.write([good, *[line for line, _ in bad], good])
        log = self.run_batch(expect=2)
        self.assertIn("in.jsonl:2", log)
        self.assertIn("9 of 11 lines cannot be answered", log)
        self.assertFalse(self.output.exists())
        self.run_batch("--invalid=skip")
        lines = self.lines()
        self.assertEqual(len(lines), 11)
        for (line, said), found in zip(bad, lines[1:-1]):
            self.assertIn(said, found["error"])
            self.assertNotIn("completion", found)
        self.assertEqual(lines[0]["completion"], lines[-1]["completion"])
        self.assertEqual(lines[2]["input"], "nonsense")
        self.assertIn("--invalid=some", self.run_batch("--invalid=some", expect=2))

    def test_truncate_keeps_the_end_of_a_prompt(self):
        text = "x " * POSITIONS
        whole = self.answers([{"prompt": text}], "--truncate", "--temperature=0")[0]
        self.assertGreater(whole["completion_tokens"], 0)
        self.assertEqual(whole["prompt"], text)
        self.write([{"prompt": text}])
        self.output.unlink()
        self.run_batch(expect=2)

    def test_what_is_missing_is_named(self):
        self.assertIn("no such file", self.run_batch(expect=2))
        self.write([{"prompt": "The"}])
        self.assertIn("folder", self.run_batch(expect=2, output=self.directory))

    def test_over_ranks(self):
        prompts = [{"prompt": "The quick"[:i + 1], "temperature": 0.9} for i in range(6)]
        expected = self.answers(prompts)
        for layout in ("--parallel.tp=2", "--parallel.pp=2"):
            self.assertEqual(self.answers(prompts, "--ranks=2", layout), expected)


class OpenAiForm(BatchTest):
    def line(self, name, url, **body):
        return {"custom_id": name, "method": "POST", "url": url, "body": body}

    def test_answers_are_those_of_the_server(self):
        chat = {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 6, "logprobs": True}
        text = {"prompt": ["The", "quick"], "max_tokens": 5, "seed": 4, "n": 2}
        embedding = {"input": ["The quick", "fox"]}
        lines = self.answers([self.line("a", "/v1/chat/completions", model="gpt-4", **chat),
                              self.line("b", "/v1/completions", **text), self.line("c", "/v1/embeddings", **embedding)])
        server = Server(self.model, "--precision.compute=fp32")
        self.addCleanup(server.stop)
        for line, path, body in zip(lines, ("chat/completions", "completions", "embeddings"), (chat, text, embedding)):
            self.assertIsNone(line["error"])
            self.assertEqual(line["response"]["status_code"], 200)
            found, expected = line["response"]["body"], server.post("/v1/" + path, body)
            for json_object in (found, expected):
                for name in ("id", "created", "model", "usage"):
                    json_object.pop(name, None)
            self.assertEqual(found, expected)
        self.assertEqual([line["custom_id"] for line in lines], ["a", "b", "c"])
        self.assertEqual(len({line["id"] for line in lines}), 3)

    def test_seeds_are_those_of_the_lines(self):
        lines = [self.line(str(i), "/v1/completions", prompt="The", max_tokens=8) for i in range(4)]
        texts = [[line["response"]["body"]["choices"][0]["text"] for line in self.answers(lines, "--seed=7")] for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], [line["completion"] for line in self.answers([{"prompt": "The"}] * 4, "--seed=7")])

    def test_errors_belong_to_their_lines(self):
        good = self.line("good", "/v1/completions", prompt="The", max_tokens=2)
        bad = [self.line("long", "/v1/completions", prompt="x " * POSITIONS), self.line("route", "/v1/images", prompt="x"),
               {**good, "body": 5}, {**good, "method": "GET"}, self.line("stream", "/v1/completions", prompt="x", stream=True)]
        self.write([*bad, good])
        self.run_batch(expect=2)
        self.run_batch("--invalid=skip")
        *failed, last = self.lines()
        self.assertEqual(last["response"]["status_code"], 200)
        for line, found in zip(bad, failed):
            self.assertEqual(found["custom_id"], line["custom_id"])
            self.assertEqual(found["response"]["status_code"], 400)
            self.assertTrue(found["error"]["message"])
            self.assertEqual(found["response"]["body"]["error"]["message"], found["error"]["message"])


if __name__ == "__main__":
    unittest.main()
