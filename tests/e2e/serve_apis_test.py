"""`colossal serve`: the Responses API as the openai package uses it, and the forms of Anthropic's and ollama's APIs.
slow_clients_test.py has these companies' own clients."""
import json
import pathlib
import shutil
import tempfile
import unittest
import urllib.error
import urllib.request

import openai
import pydantic
import torch

from harness import EndToEndTest
from serve_test import Server, make_model
from serve_tools_test import TEMPLATES, WEATHER

FUNCTION = {"type": "function", **WEATHER["function"]}
CUSTOM = {"name": "weather", "description": "of a city", "input_schema": WEATHER["function"]["parameters"]}
HELLO = [{"role": "user", "content": "Hello"}]


class ServesTools(EndToEndTest):
    """A server of a model with a template that has tools."""

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.model = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.model, ignore_errors=True)
        make_model(cls.model, positions=1024)
        (cls.model / "chat_template.jinja").write_text(TEMPLATES["hermes"])
        cls.server = Server(cls.model)
        cls.addClassCleanup(cls.server.stop)

    def chat(self, messages=HELLO, **options):
        return self.server.client().chat.completions.create(
            model="tiny", messages=messages, **{"temperature": 0, "max_tokens": 16, **options}).choices[0].message

    def check_weather(self, arguments):
        self.assertEqual(set(arguments), {"city", "unit"})
        self.assertIn(arguments["unit"], ("C", "F"))


class Responses(ServesTools):
    def respond(self, **options):
        return self.server.client().responses.create(
            model="tiny", **{"input": "Hello", "temperature": 0, "max_output_tokens": 16, **options})

    def test_texts_are_those_of_chats(self):
        answer = self.respond()
        expected = self.chat()
        self.assertEqual(answer.output_text, expected.content)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(answer.usage.output_tokens, 16)
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + 16)
        logged = self.respond(include=["message.output_text.logprobs"], top_logprobs=2).output[0].content[0].logprobs
        self.assertEqual((len(logged), {len(entry.top_logprobs) for entry in logged}), (16, {2}))
        system = [{"role": "system", "content": "Be brief."}]
        self.assertEqual(self.respond(instructions="Be brief.").output_text, self.chat(system + HELLO).content)
        self.assertEqual(self.respond(input=[{"role": "developer", "content": "Be brief."}, *HELLO]).output_text,
                         self.chat(system + HELLO).content)
        # What was answered is part of the next input.
        more = [*HELLO, *answer.output, {"role": "user", "content": "fox"}]
        self.assertEqual(self.respond(input=more).output_text, self.chat([
            *HELLO, {"role": "assistant", "content": answer.output_text}, {"role": "user", "content": "fox"}]).content)

    def test_streams_are_the_whole_response(self):
        whole = self.respond(max_output_tokens=40)
        with self.server.client().responses.stream(model="tiny", input="Hello", temperature=0, max_output_tokens=40) as stream:
            events = list(stream)
            final = stream.get_final_response() if whole.status == "completed" else events[-1].response
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        types = [event.type for event in events]
        self.assertEqual(types[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(types[-4:-1], ["response.output_text.done", "response.content_part.done", "response.output_item.done"])
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(final.output_text, text)
        self.assertEqual(final.status, whole.status)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_functions(self):
        options = {"tools": [FUNCTION], "tool_choice": "required", "max_output_tokens": 400, "temperature": 1,
                   "parallel_tool_calls": False, "input": "Weather?"}
        [call] = self.respond(**options).output
        self.assertEqual((call.type, call.name, call.status), ("function_call", "weather", "completed"))
        self.check_weather(json.loads(call.arguments))
        with self.server.client().responses.stream(model="tiny", **options) as stream:
            events = list(stream)
            [streamed] = stream.get_final_response().output
        self.assertEqual("".join(event.delta for event in events
                                 if event.type == "response.function_call_arguments.delta"), streamed.arguments)
        self.check_weather(json.loads(streamed.arguments))
        named = self.respond(**{**options, "tool_choice": {"type": "function", "name": "weather"}})
        self.check_weather(json.loads(named.output[0].arguments))
        after = [{"role": "user", "content": "Weather?"}, call,
                 {"type": "function_call_output", "call_id": call.call_id, "output": "7"}]
        expected = self.server.post("/tokenize", {"tools": [WEATHER], "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [{
                "id": call.call_id, "type": "function", "function": {"name": "weather", "arguments": call.arguments}}]},
            {"role": "tool", "tool_call_id": call.call_id, "content": "7"}]})["count"]
        self.assertEqual(self.respond(input=after, tools=[FUNCTION]).usage.input_tokens, expected)

    def test_structured_output(self):
        class Thing(pydantic.BaseModel):
            kind: str = pydantic.Field(max_length=5)
            tags: list[bool] = pydantic.Field(max_length=3)

        answer = self.server.client().responses.parse(model="tiny", input="Hello", text_format=Thing, max_output_tokens=400)
        self.assertIsInstance(answer.output_parsed, Thing)

    def test_what_is_not_there_is_refused_by_name(self):
        for options, message in [({"previous_response_id": "resp_1"}, "stores no responses"), ({"background": True}, "background"),
                                 ({"tools": [{"type": "web_search"}]}, "no tools of its own"), ({"temperature": 999}, "temperature"),
                                 ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "text only")]:
            with self.assertRaisesRegex(openai.BadRequestError, message):
                self.respond(**options)
        with self.assertRaises(openai.NotFoundError):
            self.server.client().responses.create(model="other", input="a")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.respond(input="a " * 2000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")


class Forms(ServesTools):
    """Anthropic's and ollama's APIs, without their clients."""

    def fail_at(self, path, body):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.server.post(path, body)
        with caught.exception as error:
            return error.code, json.load(error)

    def lines(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["Content-Type"], answer.read().decode().splitlines()

    def test_messages_of_anthropic(self):
        body = {"model": "tiny", "max_tokens": 16, "temperature": 0, "messages": HELLO}
        answer = self.server.post("/v1/messages", body)
        self.assertEqual(answer["content"], [{"type": "text", "text": self.chat().content}])
        self.assertEqual((answer["type"], answer["role"], answer["stop_reason"]), ("message", "assistant", "max_tokens"))
        count = self.server.post("/v1/messages/count_tokens", {"model": "tiny", "messages": HELLO})["input_tokens"]
        usage = answer["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], count)
        self.assertEqual(usage["output_tokens"], 16)
        # max_tokens is required and so may be more than there is room for.
        self.assertEqual(self.server.post("/v1/messages", {**body, "max_tokens": 32000})["content"][0]["type"], "text")
        kind, lines = self.lines("/v1/messages", {**body, "stream": True})
        self.assertTrue(kind.startswith("text/event-stream"))
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        self.assertEqual([line[7:] for line in lines if line.startswith("event: ")], [event["type"] for event in events])
        self.assertEqual("".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta"),
                         answer["content"][0]["text"])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "max_tokens")

    def test_stop_sequences_of_anthropic(self):
        text = self.chat(max_tokens=40).content
        stop = text[5:8]
        answer = self.server.post("/v1/messages", {"model": "tiny", "max_tokens": 40, "temperature": 0, "messages": HELLO,
                                                   "stop_sequences": ["never there", stop]})
        self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("stop_sequence", stop))

    def test_errors_have_the_form_of_their_api(self):
        status, error = self.fail_at("/v1/messages", {"messages": HELLO})
        self.assertEqual((status, error["type"], error["error"]["type"]), (400, "error", "invalid_request_error"))
        status, error = self.fail_at("/v1/messages", {"model": "x", "max_tokens": 1, "messages": HELLO})
        self.assertEqual((status, error["error"]["type"]), (404, "not_found_error"))
        status, error = self.fail_at("/api/chat", {"model": "x", "messages": HELLO})
        self.assertEqual((status, list(error)), (404, ["error"]))
        self.assertIn("not served", error["error"])

    def test_ollama(self):
        options = {"temperature": 0, "num_predict": 16}
        expected = self.chat().content
        body = {"model": "tiny:latest", "messages": HELLO, "options": options}
        answer = self.server.post("/api/chat", {**body, "stream": False})
        self.assertEqual(answer["message"]["content"], expected)
        self.assertEqual((answer["done"], answer["done_reason"], answer["eval_count"]), (True, "length", 16))
        kind, lines = self.lines("/api/chat", body)
        self.assertEqual(kind, "application/x-ndjson")
        pieces = [json.loads(line) for line in lines]
        self.assertEqual("".join(piece["message"]["content"] for piece in pieces), expected)
        self.assertEqual([piece["done"] for piece in pieces], [False] * (len(pieces) - 1) + [True])
        self.assertEqual(self.server.post("/api/generate", {"model": "tiny", "prompt": "Hello", "options": options,
                                                            "stream": False})["response"], expected)
        raw = self.server.client().completions.create(model="tiny", prompt="The quick", temperature=0, max_tokens=16)
        self.assertEqual(self.server.post("/api/generate", {"model": "tiny", "prompt": "The quick", "raw": True, "stream": False,
                                                            "options": options})["response"], raw.choices[0].text)
        for path, prompt in (("chat", {"messages": HELLO}), ("generate", {"prompt": "Hello"}), ("generate", {"prompt": "a", "raw": True})):
            logged = self.server.post(f"/api/{path}", {"model": "tiny", **prompt, "stream": False, "logprobs": True,
                                                       "top_logprobs": 2, "options": options})["logprobs"]
            self.assertEqual({len(entry["top_logprobs"]) for entry in logged}, {2})
            self.assertEqual(len(logged), 16)
        self.assertEqual(self.server.post("/api/generate", {"model": "tiny"})["done_reason"], "load")
        self.assertEqual(json.loads(self.server.get("/api/tags"))["models"][0]["name"], "tiny")
        self.assertIn("tools", self.server.post("/api/show", {"model": "tiny"})["capabilities"])
        self.assertIn("version", json.loads(self.server.get("/api/version")))
        vector = self.server.client().embeddings.create(model="tiny", input="Hello").data[0].embedding
        [found] = self.server.post("/api/embed", {"model": "tiny", "input": "Hello"})["embeddings"]
        self.assertLess(max(abs(a - b) for a, b in zip(found, vector)), 1e-5)

    def test_structured_output_of_ollama(self):
        schema = {"type": "object", "properties": {"kind": {"enum": ["fox", "dog"]}}, "required": ["kind"]}
        for form in (schema, "json"):
            answer = self.server.post("/api/chat", {"model": "tiny", "messages": HELLO, "stream": False, "format": form,
                                                    "options": {"seed": 1, "num_predict": 200}})
            if answer["done_reason"] == "stop":
                self.assertIsInstance(json.loads(answer["message"]["content"]), dict)
        self.assertIn(json.loads(self.server.post("/api/chat", {
            "model": "tiny", "messages": HELLO, "stream": False, "format": schema})["message"]["content"])["kind"], ("fox", "dog"))


if __name__ == "__main__":
    unittest.main()
