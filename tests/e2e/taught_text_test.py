"""What a model was taught about the form of texts travels with it: chat template, end tokens, settings of generation."""
import json
import unittest

from serve_test import Server
from taught_text import LORA, MINE, PROMPT, QUESTION, TaughtTextTest


class TaughtText(TaughtTextTest):
    def test_the_template_of_a_run_is_saved_and_served(self):
        tuned = self.tune("sft", self.make_base(in_file=False))
        self.assertIn("the chat template ends turns with <|im_end|> (2), not with <|endoftext|> (0)", self.log)
        self.expect_files_of(tuned)
        self.expect_generation_of(tuned)
        self.expect_service_of(tuned)
        # Through a GGUF file and back.
        file, back = self.directory / "m.gguf", self.directory / "back"
        self.call("convert", tuned, file, "--type=f32")
        self.expect_service_of(file)
        self.call("convert", file, back)
        self.expect_files_of(back)
        self.call("convert", tuned, self.directory / "int8", "--quantize=int8")
        self.expect_files_of(self.directory / "int8")

    def test_an_adapter_has_what_it_was_taught(self):
        base = self.make_base(template=None)
        tuned = self.tune("dpo", base, *LORA)
        self.expect_files_of(tuned, adapter=True)
        self.expect_generation_of(base, f"--adapter={tuned}")
        self.expect_service_of(base, f"--adapter=mine={tuned}", name="mine")
        merged = self.directory / "merged"
        self.call("convert", base, merged, f"--merge-adapter={tuned}")
        self.expect_files_of(merged)

    def test_the_sampler_of_a_run_stops_where_turns_end(self):
        base = self.make_base()
        config = json.loads((base / "generation_config.json").read_text())
        (base / "generation_config.json").write_text(json.dumps({**config, "sequence_bias": [[[2], 100.0]]}))
        tuned = self.tune("grpo", base)
        metrics = json.loads(self.metrics_file.read_text().splitlines()[0])
        self.assertEqual(metrics["completions/clipped_ratio"], 0)
        self.assertEqual(metrics["completions/max_length"], 1)
        self.expect_files_of(tuned)

    def test_the_end_token_that_texts_were_taught_is_saved(self):
        # The tokenizer ends texts with <|endoftext|>; the model's files name another token.
        base = self.make_base(template=None)
        for name in ("config.json", "generation_config.json"):
            fields = json.loads((base / name).read_text())
            (base / name).write_text(json.dumps({**fields, "eos_token_id": 1}))
        row = {"prompt": "what?", "completion": " the answer"}
        tuned = self.tune("sft", base, row=row, template=None)
        for name in ("config.json", "generation_config.json"):
            self.assertEqual(json.loads((tuned / name).read_text())["eos_token_id"], [0, 1])
        # A run may name the token itself.
        named = self.tune("sft", base, "--data.eos_token=<|im_end|>", name="named", row=row, template=None)
        self.assertEqual(json.loads((named / "config.json").read_text())["eos_token_id"], [2, 1])
        self.assertEqual(json.loads((named / "tokenizer_config.json").read_text())["eos_token"], "<|im_end|>")
        refused = self.refused_tune("sft", base, "--data.eos_token=<|none|>", row=row)
        self.assertIn('data.eos_token = "<|none|>"', refused)

    def refused_tune(self, method, base, *flags, row):
        with self.assertRaises(AssertionError) as refused:
            self.tune(method, base, *flags, name="refused", row=row, template=None)
        return str(refused.exception)

    def test_a_template_that_writes_the_end_token_keeps_it(self):
        writes_end = MINE.replace("<|im_end|>\n{% endfor %}", "<|im_end|>\n{% endfor %}{{ eos_token }}")
        tuned = self.tune("sft", self.make_base(), template=writes_end)
        self.assertEqual(json.loads((tuned / "tokenizer_config.json").read_text())["eos_token"], "<|endoftext|>")
        self.assertEqual(json.loads((tuned / "generation_config.json").read_text())["eos_token_id"], [2, 0])
        self.expect_generation_of(tuned)

    def test_named_templates_are_used_and_kept(self):
        base = self.make_base(template=MINE, in_file=False)
        file, back = self.directory / "m.gguf", self.directory / "back"
        self.call("convert", base, file, "--type=f32")
        self.call("convert", file, back)
        self.assertEqual((back / "chat_template.jinja").read_text(), MINE)
        self.assertIn("t.name", (back / "additional_chat_templates" / "tool_use.jinja").read_text())
        tools = [{"type": "function", "name": "find", "function": {"name": "find", "parameters": {}}}]
        for folder in (base, back):
            server = Server(folder)
            self.addCleanup(server.stop)
            tokens = server.post("/tokenize", {"messages": QUESTION, "tools": tools})["tokens"]
            self.assertEqual(server.post("/detokenize", {"tokens": tokens})["prompt"], "find;" + PROMPT)


if __name__ == "__main__":
    unittest.main()
