"""Renders chat templates with `transformers` and writes what it gives.

    chat_template_oracle.py OUTPUT_FILE

Of every template that TRL ships, and of short ones for what those do not use, with conversations of many
kinds. A line of JSON for each: {"name", "template", "messages", "options", "text", "spans"}, or "error" in
place of the last two; spans of {% generation %} are counted in bytes of UTF-8.
"""
import importlib.util
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

TOOL = {"type": "function", "function": {
    "name": "find_city", "description": "Finds a city <by> \"name\" & country.\nSecond line.",
    "parameters": {"type": "object", "properties": {
        "name": {"type": "string", "description": "Its name"},
        "zip": {"type": ["integer", "null"], "minimum": 0, "default": None},
        "kind": {"type": "string", "enum": ["small", "größte"]},
        "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["name"]},
    "return": {"type": "string"}}}
SYSTEM = {"role": "system", "content": "You are brief."}
USER = {"role": "user", "content": "Hello there"}
ANSWER = {"role": "assistant", "content": "General\nKenobi"}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call12345", "type": "function", "function": {
        "name": "find_city", "arguments": {"name": "Zürich", "zip": 8001, "tags": ["a", "b"], "deep": {"x": [1.5, True, None]}}}}]}
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "find_city", "content": "{\"found\": true}"}
CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, {"role": "user", "content": "  and\tthen?  \n"}, {"role": "assistant", "content": " it ends. "}],
    "unicode": [{"role": "user", "content": "日本語 🎉 e\u0301 \u00a0\u2003 naïve <|im_end|> {{ x }} {% y %}\r\n"},
                {"role": "assistant", "content": "ß straße \x1f \"quoted\" 'single' \\n"}, USER],
    "empty": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    "none": [],
    "thinking": [USER, {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nyes", "reasoning_content": "hmm"}, USER,
                 {"role": "assistant", "reasoning_content": "well\n", "content": "no"}],
    "tools": [USER, CALL, RESULT, {"role": "assistant", "content": "Found."}],
    "parallel": [SYSTEM, USER, {**CALL, "content": "Let me see.", "tool_calls": CALL["tool_calls"] * 2}, RESULT, RESULT, USER],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "image"}, {"type": "text", "text": "this?"}]},
              {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}],
}
OPTIONS = {"plain": {}, "prompt": {"add_generation_prompt": True}, "tools": {"tools": [TOOL, TOOL], "add_generation_prompt": True},
           "continued": {"continue_final_message": True}}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
# What the templates of TRL leave out.
SHORT = [
    "{% raw %}{{ no }}{% endraw %}|{# gone #}\n{%- if true -%}  a  {%- endif %}\n  {% set x = 1 %}  \n\tb {{ x }}\n",
    "{% for a in [3, 1, 2] | sort %}{{ loop.index }}{{ loop.first }}{{ loop.revindex }}{{ a }},{% else %}none{% endfor %}\n",
    "{% for a in [] %}x{% else %}none{% endfor %}{% for a in range(9) if a % 2 %}{{ a }}{{ loop.length }}{% if a > 4 %}{% break %}{% endif %} {% endfor %}",
    "{% for a in range(5) %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{{ loop.cycle('x', 'y') }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    "{{ [1, 2.0, 1e16, 1e-5, 0.1, -3, True, None, 'a', \"it's\", 'q\"', '\\n\\t\\x07é', (1,), (), {'k': [1]}] }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1 + 2.5 }} {{ -2 ** 2 }} {{ 10 / 5 }} {{ 3 * 'ab' }} {{ [1] * 2 + [3] }}",
    "{{ 'abcdef'[1:4] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][-1] }} {{ 'é日x'[1] }} {{ [1, 2, 3][5] }}|{{ (1, 2, 3)[:2] }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'xxaxx'.strip('x') }} {{ 'abc'.replace('b', 'BB') }} {{ 'aaa'.replace('', '-') }}",
    "{{ 'hello wORLD, it\\'s'.title() }} {{ 'hELLO'.capitalize() }} {{ 'ß'.upper() }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'abc'.find('c') }} {{ '12'.isdigit() }} {{ 'abcabc'.count('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'ǅ'.isupper() }}{{ 'ǅ'.islower() }}{{ 'AB1'.isupper() }}{{ 'ab'.islower() }}{{ 'aB'.islower() }}",
    "{% macro f(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% if caller %}{{ caller() }}{% endif %}]{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, 4) }}{{ f(c=1, a=2, z=3) }}{% call f(9) %}in{{ 1 }}{% endcall %}",
    "{% macro g(n) %}{{ n }}{% if n %}{{ g(n - 1) }}{% endif %}{% endmacro %}{{ g(3) }}{% macro h() %}{{ late }}{% endmacro %}{% set late = 'L' %}{{ h() }}",
    "{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% set x = i %}{% endfor %}{{ ns.a }}{{ x is defined }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set t %} body {{ 1 + 1 }} {% endset %}[{{ t }}]{% set u | trim | upper %} body {% endset %}[{{ u }}]{% filter upper %}f{{ 'g' }}{% endfilter %}{% with a=1, b='x' %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{{ missing }}|{{ missing is defined }}|{{ messages[99] }}|{{ missing | default('d') }}|{{ '' | default('e', true) }}|{{ none | default('n') }}|{{ missing ~ 'x' }}|{{ missing | length }}|{{ missing == missing2 }}|{{ not missing }}",
    "{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}{{ {'items': 5}['items'] }}{{ {'a': 1}.get('b', 2) }}{{ {'b': 1, 'a': 2} | dictsort }}{{ {'a': 1} | items | list }}{{ {'a': 1}.items() | list }}{{ {'a': 1, 'b': 2} | list }}",
    "{{ {'a': [1, {'é': none}], 'b': '\\u007f<&>\\'\"\\\\'} | tojson }} {{ [1, {'a': [], 'b': {}}] | tojson(indent=2) }} {{ 'é🎉' | tojson(ensure_ascii=True) }} {{ {'b': 1.0, 'a': 1e20} | tojson(sort_keys=True, separators=(',', ':')) }}",
    "{{ 1 < 2 < 3 }}{{ 1 in [1] }}{{ 'a' not in 'abc' }}{{ 'x' if false }}|{{ 'x' if true else 'y' }}{{ 1 is odd }}{{ 4 is divisibleby 2 }}{{ 'a' is string and [] is iterable }}{{ {} is mapping }}{{ 1 is not none }}{{ 2 is eq 2 }}{{ true is boolean }}",
    "{{ [3, 1, 2] | sort(reverse=true) }}{{ ['b', 'A'] | sort }}{{ [1, 1, 2] | unique | list }}{{ [1, 2] | sum }}{{ [1, 5, 2] | max }}{{ 'a b' | wordcount }}{{ [1, 2, 3] | batch(2) | list }}{{ 3.7 | int }}{{ '4' | int }}{{ 'x' | int(7) }}{{ 2.5 | round }}{{ [1, 2] | reverse | list }}{{ 'ab' | reverse }}",
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'in', ['user']) | list | length }}{{ [0, 1, 2] | select | list }}{{ ['a'] | map('upper') | first }}",
    "{{ 'a\\nb' | indent(2) }}|{{ 'x%sy%d' | format('S', 3) }}|{{ '%05.2f|%-4s|%x' % (3.14159, 'ab', 255) }}|{{ 'the quick brown fox' | truncate(10) }}|{{ '<a href=\"x\">' | e }}|{{ 'a' 'b' }}|{{ 1_000 }}",
    "{% generation %}a{{ 'é' }}{% endgeneration %}日{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "{{ raise_exception('No <reason>') }}", "{{ missing.attribute }}", "{{ 1 + 'a' }}", "{{ missing() }}", "{{ [1].append(2) }}", "{{ 'a' < 1 }}",
    "{% if x %}", "{{ 1 +", "{% for %}", "{{ 'a' | nothing }}", "{{ 1 is nothing }}", "{% unknown %}", "{{ (1 }}", "{{ range(1000000) | length }}",
    "  {%+ if true %}\n x{% endif +%}\n y\n", "a  {{- ' b ' -}}  c {%- raw -%} {{ }} {%- endraw -%}  d\n\n", "{% set x = 5 %}{{ x }}\r\n{% if x %}\r\ny\r\n{% endif %}\r\n",
]


def templates():
    folder = pathlib.Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    for file in sorted(folder.glob("*.jinja")):
        yield file.stem, file.read_bytes().decode(), CONVERSATIONS, OPTIONS
    few = {name: CONVERSATIONS[name] for name in ("turns", "unicode")}
    for number, text in enumerate(SHORT):
        yield f"short {number}", text, few, {"plain": {}}


def in_bytes(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def render(template, messages, options):
    (text,), *spans = render_jinja_template(
        [messages], chat_template=template, return_assistant_tokens_mask="generation" in template, **options, **TOKENS)
    return {"text": text, "spans": in_bytes(text, spans[0][0]) if spans[0] else []}


def cases():
    for name, template, conversations, all_options in templates():
        for kind, messages in conversations.items():
            for option, options in all_options.items():
                case = {"name": f"{name}, {kind}, {option}", "template": template, "messages": messages, "options": options}
                try:
                    case |= render(template, messages, options)
                    text = case["text"].encode()  # lone surrogates and clocks have no place here
                except Exception as error:
                    case["error"] = f"{type(error).__name__}: {error}"
                yield case


def main():
    with open(sys.argv[1], "w") as output:
        for case in cases():
            output.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
