"""Renders answers with reasoning and tool calls by the chat templates that TRL ships. Usage: answer_oracle.py FILE.
Writes a line {"name", "template", "prompt", "answer", "reasoning", "content", "calls"} for each template and answer:
what a model of this template writes after the prompt, and what a parser must find in it."""
import json
import pathlib
import sys

import trl
from transformers.utils.chat_template_utils import render_jinja_template

TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "c"}, "days": {"type": "integer", "description": "d"},
        "more": {"type": "object", "description": "m", "properties": {}}}}}} for name in ("weather", "clock_2")]
CALLS = [("weather", {"city": "7", "days": 7, "more": {"a": [1, True]}}), ("clock_2", {"city": "Köln \"x\"\nü <b>"})]
# Templates that render calls, and how many of them in one message.
TEMPLATES = {"qwen2_5": 2, "qwen3": 2, "qwen3_instruct_2507": 2, "qwen3_5_think": 2, "qwen3_6": 2, "glm4moe": 2,
             "gptoss": 1, "deepseekv3": 2, "llama3_1": 1, "llama3_2": 1, "gemma4_v5": 2, "lfm2_2_5_v2": 2,
             "nemotron_3_ultra": 2}
REASONING = {"qwen3", "qwen3_5_think", "qwen3_6", "glm4moe", "gptoss", "nemotron_3_ultra"}
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<turn|>", "<｜end▁of▁sentence｜>", "<|call|>", "<|return|>", "<|tool_response>"]


def rendered(template, messages, **options):
    texts = render_jinja_template(conversations=[messages], chat_template=template, bos_token="<s>", eos_token="</s>",
                                  **options)
    return (texts[0] if isinstance(texts, tuple) else texts)[0]


def without_end(text):
    text = text.rstrip("\n")
    for end in ENDS:
        if text.endswith(end):
            return text[:-len(end)]
    return text


def cases(name, template, calls):
    user = {"role": "user", "content": "Weather?"}
    texts_only = name == "deepseekv3"
    called = [{"type": "function", "id": "abcdefghi", "function": {
        "name": tool, "arguments": json.dumps(arguments) if texts_only else arguments}} for tool, arguments in CALLS[:calls]]
    options = {} if texts_only else {"tools": TOOLS}
    prompt = rendered(template, [user], add_generation_prompt=True, **options)
    for content in ("", "I look."):
        for reasoning in ([None, "First\n<b> this."] if name in REASONING else [None]):
            if content and (name.startswith("llama3") or name == "gptoss"):
                continue
            answer = {"role": "assistant", "content": content, "tool_calls": called}
            if reasoning:
                answer["reasoning_content"] = answer["thinking"] = reasoning
            text = rendered(template, [user, answer], **options)
            # The reasoning's marker may stand in the prompt already.
            start = prompt if text.startswith(prompt) else prompt[:-len("<think>\n")] if prompt.endswith("<think>\n") else prompt
            if not text.startswith(start):
                raise SystemExit(f"{name}: the answer does not follow its prompt:\n{prompt!r}\n{text!r}")
            yield {"name": name, "template": template, "prompt": start, "answer": without_end(text[len(start):]),
                   "reasoning": reasoning or "", "content": content,
                   "calls": [[tool, arguments] for tool, arguments in CALLS[:calls]], "tools": TOOLS}


with open(sys.argv[1], "w", encoding="utf-8") as file:
    folder = pathlib.Path(trl.__file__).parent / "chat_templates"
    for name, calls in TEMPLATES.items():
        template = (folder / f"{name}.jinja").read_text(encoding="utf-8")
        for case in cases(name, template, calls):
            file.write(json.dumps(case) + "\n")
