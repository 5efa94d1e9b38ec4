"""How LLM generates texts, and what it returns."""
import dataclasses


@dataclasses.dataclass
class SamplingParams:
    """How a text is generated. None: as the model's folder says (generation_config.json), or as the server does without it.
    The names and the ranges are those of the fields of POST /v1/completions."""
    max_tokens: int | None = None  # 16, or in a chat as many as there is room for
    min_tokens: int | None = None
    temperature: float | None = None  # 0: the most likely token
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None  # None: another one for each call
    n: int | None = None  # answers for each prompt, in Completion.choices
    best_of: int | None = None  # answers that are generated, of which the n most likely are returned
    use_beam_search: bool | None = None  # with best_of beams
    length_penalty: float | None = None
    early_stopping: bool | str | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    logit_bias: dict | None = None  # token -> bias
    allowed_token_ids: list | None = None
    suppress_tokens: list | None = None
    bad_words: list | None = None
    stop: str | list | None = None  # texts that end the answer
    stop_token_ids: list | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    logprobs: int | None = None  # how many of the most likely tokens, too; 0: of the generated tokens alone
    prompt_logprobs: int | None = None
    response_format: dict | None = None  # {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": ...}}
    structured_outputs: dict | None = None  # {"json": schema}, {"regex": text}, {"choice": texts} or {"grammar": GBNF}
    add_special_tokens: bool | None = None  # of prompts that are texts
    truncate_prompt_tokens: int | None = None  # keeps the last tokens of a longer prompt
    parallel_tool_calls: bool | None = None  # of a chat: whether an answer may have several calls
    include_reasoning: bool | None = None  # of a chat: whether Completion.reasoning has what the model wrote for itself
    reasoning_effort: str | None = None  # of a chat: a variable of some templates
    priority: int | None = None  # requests with lower values come first
    cache_salt: str | None = None

    def fields(self):
        """Those of the request."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclasses.dataclass
class Logprob:
    """The natural logarithm of a token's probability, before sampling."""
    token_id: int
    logprob: float
    rank: int  # 1: the most likely token
    top: list  # (token, logprob) of the most likely tokens


@dataclasses.dataclass
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON


@dataclasses.dataclass
class Choice:
    """One answer to a prompt."""
    text: str
    token_ids: list  # without the token that ended the answer
    finish_reason: str  # "stop", "length" or "tool_calls"
    stop_string: str  # that ended the answer; "": none did
    reasoning: str  # of a chat: what the model wrote for itself
    tool_calls: list
    logprobs: list | None  # a Logprob for each token
    beam_score: float


@dataclasses.dataclass
class Completion:
    """The answers to a prompt. Its text, token_ids, ... are those of the first of `choices`."""
    prompt_token_ids: list
    choices: list
    cached_tokens: int  # of the prompt: found in the prefix cache
    prompt_logprobs: list | None  # a Logprob for each token of the prompt; None for the first

    def __getattr__(self, name):
        if name.startswith("_") or name not in Choice.__dataclass_fields__:
            raise AttributeError(f"Completion has no {name}")
        return getattr(self.choices[0], name)


@dataclasses.dataclass
class Labels:
    label: str | list | None  # the most likely class, or the likely tags; None: the model gives numbers
    probabilities: list  # of each label; of a model that gives numbers, these


class Piece(str):
    """A text that was added to an answer, in a stream."""
    index: int  # type: ignore[assignment]  # of the answer, if n > 1
    token_ids: list
    reasoning: str
    logprobs: list | None
    tool_calls: list  # what was added to calls: (index, id, name or None, arguments)
    finish_reason: str | None  # of the last piece of an answer
