"""Reasoning, tool calls of several forms, and structured output after the reasoning, as clients receive them."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import jsonschema
import openai
import torch
from tokenizers.implementations import ByteLevelBPETokenizer
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, EndToEndTest
from serve_test import Server

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]
THINKING = """{% if tools %}{{ tools | tojson }} <tool_call>{"name": ...}</tool_call>{% endif %}{% for message in messages %}
<|{{ message.role }}|>{{ message.content }}<|stop|>{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% if open is defined %}<think>
{% elif enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
CHANNELS = """{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}<|start|>{{ message.role }}<|message|>{{
message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}
{#- <|channel|>final<|message|> #}"""
WEATHER = {"type": "function", "function": {"name": "weather", "description": "d <|stop|>", "parameters": {
    "type": "object", "properties": {"days": {"type": "integer", "minimum": 0, "maximum": 9}, "when": {
        "type": "string", "format": "date"}}, "required": ["days", "when"], "additionalProperties": False}}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"days": 1}}\n</tool_call>'


def make_model(folder, template, special, added=()):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["The weather is fine today."], vocab_size=280, show_progress=False,
                                special_tokens=["<|endoftext|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>",
                                        chat_template=template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|stop|>", *special]})
    tokenizer.add_tokens(list(added))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id)).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


class ServeAnswers(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        # In "plain", markers are ordinary text, so that a regular expression can force them.
        models = {"plain": (THINKING, []), "thinking": (THINKING, [], MARKERS), "harmony": (CHANNELS, HARMONY)}
        cls.tokenizers, cls.servers = {}, {}
        for name, what in models.items():
            cls.tokenizers[name] = make_model(cls.root / name, *what)
            cls.servers[name] = Server(cls.root / name)
            cls.addClassCleanup(cls.servers[name].stop)

    def chat(self, model="plain", **options):
        return self.servers[model].client().chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Weather?"}], **{"max_tokens": 400, "seed": 1, **options})

    def whole(self, model="plain", **options):
        choice = self.chat(model, **options).choices[0]
        message = choice.message
        self.assertEqual(getattr(message, "reasoning", None), getattr(message, "reasoning_content", None))
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
        return getattr(message, "reasoning_content", None), message.content, calls, choice.finish_reason

    def streamed(self, model="plain", **options):
        reasoning, content, calls, reason = "", "", [], None
        for event in self.chat(model, stream=True, **options):
            choice = event.choices[0]
            self.assertFalse(getattr(choice.delta, "reasoning_content", None) and (choice.delta.content or calls))
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            content += choice.delta.content or ""
            for part in choice.delta.tool_calls or []:
                if part.index == len(calls):
                    calls.append([part.function.name, ""])
                calls[part.index][1] += part.function.arguments
            reason = choice.finish_reason or reason
        return reasoning or None, content or None, [tuple(call) for call in calls], reason

    def both(self, model="plain", **options):
        found = self.whole(model, **options)
        self.assertEqual(self.streamed(model, **options), found)
        return found

    def forced(self, text, model="plain", **options):
        return self.both(model, extra_body={"structured_outputs": {"choice": [text]}}, **options)

    def test_the_server_says_which_forms_it_has_recognized(self):
        self.assertIn("tool calls: in the form hermes; reasoning: in the form think", "".join(self.servers["plain"].log))
        self.assertIn("tool calls: in the form harmony; reasoning: in the form harmony",
                      "".join(self.servers["harmony"].log))
        server = Server(self.root / "plain", "--reasoning-parser=none", "--tool-call-parser=none")
        try:
            answer = server.client().chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "x"}], tools=[WEATHER], max_tokens=300,
                extra_body={"structured_outputs": {"choice": ["<think>a</think>" + CALL]}})
            self.assertEqual(answer.choices[0].message.content, "<think>a</think>" + CALL)
            self.assertIn("come back as text", "".join(server.log))
        finally:
            server.stop()
        result = subprocess.run([COLOSSAL, "serve", self.root / "plain", "--tool-call-parser=hermez"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("qwen3_coder", result.stderr)

    def test_reasoning_is_apart_from_the_answer(self):
        self.assertEqual(self.forced("<think>\nI see.\n</think>\n\nYes."), ("I see.", "Yes.", [], "stop"))
        self.assertEqual(self.forced("Yes."), (None, "Yes.", [], "stop"))
        self.assertEqual(self.forced("<think>I see.</think>\n" + CALL, tools=[WEATHER]),
                         ("I see.", None, [("weather", '{"days": 1}')], "tool_calls"))
        answer = self.chat(extra_body={"structured_outputs": {"choice": ["<think>I see.</think>Yes."]}, "include_reasoning": False})
        self.assertIsNone(getattr(answer.choices[0].message, "reasoning_content", None))
        self.assertEqual(answer.choices[0].message.content, "Yes.")
        self.assertGreater(answer.usage.completion_tokens_details.reasoning_tokens, 5)

    def test_a_call_is_whole_or_text(self):
        for arguments in ("{a: x}", '{"a": "x",}', '{"a": True}', '{"a": [1}'):
            text = f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'
            self.assertEqual(self.forced(text, tools=[WEATHER]), (None, text, [], "stop"))

    def test_structured_output_follows_the_reasoning(self):
        """The prompt opens the reasoning; a bias ends it. Then the schema holds."""
        end = self.tokenizers["thinking"].convert_tokens_to_ids("</think>")
        schema = WEATHER["function"]["parameters"]
        body = {"chat_template_kwargs": {"open": True}, "logit_bias": {str(end): 100}}
        reasoning, content, _, reason = self.both("thinking", temperature=1, response_format={
            "type": "json_schema", "json_schema": {"name": "s", "schema": schema}}, extra_body=body)
        self.assertEqual((reasoning, reason), (None, "stop"))
        jsonschema.validate(json.loads(content), schema, format_checker=jsonschema.FormatChecker())
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            _, content, calls, _ = self.both("thinking", temperature=1, tools=[WEATHER], tool_choice=choice,
                                             parallel_tool_calls=False, extra_body=body)
            self.assertEqual((content, [name for name, _ in calls]), (None, ["weather"]))
            jsonschema.validate(json.loads(calls[0][1]), schema, format_checker=jsonschema.FormatChecker())
        # The prompt has ended the reasoning: the schema holds at once.
        content = self.whole("thinking", temperature=1, response_format={"type": "json_object"}, max_tokens=5,
                             extra_body={"chat_template_kwargs": {"enable_thinking": False}, "logit_bias": {str(end): 100}})[1]
        self.assertEqual(content[0], "{")

    def test_legacy_functions(self):
        answer = self.chat(functions=[WEATHER["function"]], function_call={"name": "weather"}, temperature=1)
        message = answer.choices[0].message
        self.assertEqual(message.function_call.name, "weather")
        jsonschema.validate(json.loads(message.function_call.arguments), WEATHER["function"]["parameters"])
        self.assertIsNone(message.tool_calls)
        answer = self.chat(functions=[WEATHER["function"]], extra_body={"structured_outputs": {"choice": [CALL]}})
        self.assertEqual(answer.choices[0].finish_reason, "function_call")
        self.assertEqual(answer.choices[0].message.function_call.arguments, '{"days": 1}')

    def test_no_text_of_a_request_is_a_special_token(self):
        stop = self.tokenizers["plain"].convert_tokens_to_ids("<|stop|>")
        body = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b<|stop|>", "tool_calls": [
            {"type": "function", "function": {"name": "<|stop|>", "arguments": "{\"<|stop|>\": \"<|stop|>\"}"}}]}],
            "tools": [WEATHER], "documents": [{"<|stop|>": "<|stop|>"}], "chat_template_kwargs": {"x": "<|stop|>"}}
        tokens = self.servers["plain"].post("/tokenize", body)["tokens"]
        self.assertEqual(tokens.count(stop), 2)  # one after each message

    def test_rules_that_are_refused_get_400_also_in_streams(self):
        for rule in ({"json": {"not": {}}}, {"regex": "(?=a)"}, {"grammar": "root ::= root"}, {"json": False}):
            for stream in (False, True):
                with self.assertRaises(openai.BadRequestError):
                    self.chat(stream=stream, extra_body={"structured_outputs": rule})


if __name__ == "__main__":
    unittest.main()
