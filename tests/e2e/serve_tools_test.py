"""Tools in chat: calls that the openai package reads, whole and streamed, in the forms of the common templates."""
import json
import pathlib
import shutil
import tempfile
import unittest

import openai
import torch
from transformers import AutoTokenizer

from harness import EndToEndTest
from serve_test import Server, make_model

TEMPLATES = {
    "hermes": """{% if tools %}<|system|>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call by <tool_call>{"name": <name>, "arguments": <arguments>}</tool_call><|end|>
{% endif %}{% for message in messages %}<|{{ message.role if message.role != 'tool' else 'user' }}|>
{{ message.content or '' }}{% for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}""",
    "llama": """{% if tools %}Environment: ipython
Answer by {"name": function, "parameters": object}. {{ tools | tojson }}{% endif %}{% for message in messages %}
<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}""",
    "mistral": """{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{% for message in messages %}[INST]{{ message.content }}[/INST]{% if message.tool_calls %}[TOOL_CALLS]{% endif %}
{% endfor %}""",
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"]}}}
TREE = {"type": "function", "function": {"name": "tree", "parameters": {
    "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "required": ["root"],
    "$defs": {"node": {"type": "object", "properties": {"name": {"enum": ["a", "b"]}, "next": {
        "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["name", "next"]}}}}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
ARGUMENTS = r'\{"city": "[a-z]{3}"\}'
FORMS = {
    "hermes": (r'<tool_call>\n\{"name": "weather", "arguments": ' + ARGUMENTS + r'\}\n</tool_call>'),
    "llama": r'\{"name": "weather", "parameters": ' + ARGUMENTS + r'\}',
    "mistral": r'\[TOOL_CALLS\] ?\[\{"name": "weather", "arguments": ' + ARGUMENTS + r'\}\]',
}


class ServeTools(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.servers = {}
        for name, template in TEMPLATES.items():
            make_model(cls.root / name, positions=2048)
            (cls.root / name / "chat_template.jinja").write_text(template)
            cls.servers[name] = Server(cls.root / name)
            cls.addClassCleanup(cls.servers[name].stop)

    def chat(self, form="hermes", messages=None, **options):
        return self.servers[form].client().chat.completions.create(
            model="tiny", messages=messages or [{"role": "user", "content": "Weather?"}],
            **{"max_tokens": 400, "seed": 1, **options})

    def streamed(self, form="hermes", **options):
        """The message that the events of a stream make, as clients put it together."""
        content, calls, reasons = "", [], []
        for event in self.chat(form, stream=True, **options):
            choice = event.choices[0]
            content += choice.delta.content or ""
            for part in choice.delta.tool_calls or []:
                if part.index == len(calls):
                    self.assertEqual(part.type, "function")
                    calls.append([part.id, part.function.name, ""])
                    self.assertTrue(part.id)
                self.assertEqual(part.index, len(calls) - 1)
                calls[-1][2] += part.function.arguments
            reasons.append(choice.finish_reason)
        self.assertTrue(all(reason is None for reason in reasons[:-1]))
        return content, [tuple(call[1:]) for call in calls], reasons[-1]

    def whole(self, form="hermes", **options):
        choice = self.chat(form, **options).choices[0]
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        return choice.message.content, calls, choice.finish_reason

    def both(self, form="hermes", **options):
        content, calls, reason = self.whole(form, **options)
        self.assertEqual(self.streamed(form, **options), (content or "", calls, reason))
        return content, calls, reason

    def test_calls_in_the_forms_of_templates(self):
        for form, text in FORMS.items():
            with self.subTest(form):
                content, calls, reason = self.both(form, tools=[WEATHER, CLOCK], extra_body={
                    "structured_outputs": {"regex": text}})
                self.assertIsNone(content)
                self.assertEqual([name for name, _ in calls], ["weather"])
                self.assertEqual(set(json.loads(calls[0][1])), {"city"})
                self.assertEqual(reason, "tool_calls")
                # Text, where nothing is to be called, or where it is no call.
                for more in ({"tool_choice": "none", "tools": [WEATHER]}, {}):
                    content, calls, reason = self.both(form, extra_body={"structured_outputs": {"regex": text}}, **more)
                    self.assertIn("weather", content)
                    self.assertEqual((calls, reason), ([], "stop"))
        content, calls, _ = self.both(tools=[WEATHER], extra_body={"structured_outputs": {
            "regex": "I look[.]\n" + FORMS["hermes"] + "\n" + FORMS["hermes"]}})
        self.assertEqual((content, len(calls)), ("I look.", 2))
        content, calls, reason = self.both(tools=[WEATHER], parallel_tool_calls=False, extra_body={
            "structured_outputs": {"regex": FORMS["hermes"] + "\n" + FORMS["hermes"]}})
        self.assertEqual((len(calls), reason), (1, "tool_calls"))

    def test_required_calls_fit_their_schema(self):
        for form in FORMS:
            for seed in range(3):
                options = dict(tools=[WEATHER, TREE], tool_choice="required", seed=seed, parallel_tool_calls=False)
                content, calls, reason = self.both(form, **options)
                self.assertIsNone(content)
                self.assertEqual((len(calls), reason), (1, "tool_calls"))
                self.check(*calls[0])
        calls = self.whole(tools=[WEATHER, CLOCK], tool_choice="required", extra_body={"min_tokens": 200})[1]
        self.assertGreaterEqual(len(calls), 1)

    def check(self, name, arguments):
        arguments = json.loads(arguments)
        if name == "weather":
            self.assertEqual(set(arguments), {"city", "unit"})
            self.assertIn(arguments["unit"], ("C", "F"))
        else:
            self.assertEqual(name, "tree")
            self.assertIn(arguments["root"]["name"], ("a", "b"))

    def test_a_named_tool_is_called(self):
        for tool in (WEATHER, TREE):
            name = tool["function"]["name"]
            content, calls, reason = self.both(tools=[WEATHER, TREE], tool_choice={
                "type": "function", "function": {"name": name}})
            self.assertIsNone(content)
            self.assertEqual((calls[0][0], len(calls), reason), (name, 1, "stop"))
            self.check(*calls[0])

    def test_the_conversation_goes_on_with_the_tool_s_answer(self):
        messages = [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [{
                "id": "abcdefghi", "type": "function",
                "function": {"name": "weather", "arguments": "{\"city\": \"Ulm\", \"unit\": \"C\"}"}}]},
            {"role": "tool", "tool_call_id": "abcdefghi", "content": "7"}]
        tokens = self.servers["hermes"].post("/tokenize", {"messages": messages, "tools": [WEATHER]})["tokens"]
        tokenizer = AutoTokenizer.from_pretrained(self.root / "hermes")
        parsed = json.loads(json.dumps(messages))
        call = parsed[1]["tool_calls"][0]["function"]
        call["arguments"] = json.loads(call["arguments"])
        self.assertEqual(tokens, tokenizer.apply_chat_template(
            parsed, tools=[WEATHER], add_generation_prompt=True, return_dict=False))
        self.assertEqual(self.chat(messages=messages, tools=[WEATHER]).usage.prompt_tokens, len(tokens))

    def test_wrong_requests_are_named(self):
        cases = [
            ({"tool_choice": "required"}, "no tools"), ({"tools": [WEATHER], "tool_choice": "any"}, "tool_choice"),
            ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "not among"),
            ({"tools": [{"type": "function"}]}, "tools"), ({"tools": "weather"}, "tools"),
            ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"x": {"not": {}}}}}}],
              "tool_choice": "required"}, "not"),
            ({"tools": [WEATHER], "tool_choice": "required", "response_format": {"type": "json_object"}}, "forced"),
            ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "tool_calls")]
        for options, message in cases:
            with self.assertRaises(openai.BadRequestError) as caught:
                body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], **options}
                self.servers["hermes"].client().post("/chat/completions", body=body, cast_to=object)
            self.assertIn(message, str(caught.exception), options)


if __name__ == "__main__":
    unittest.main()
