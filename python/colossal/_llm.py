"""LLM: a model of a Hugging Face folder that generates texts and embeds them, in this process."""
import atexit
import dataclasses
import json
import threading
import time
import weakref

import numpy
import torch

from ._engine import ConfigError, Error, LanguageModel, LanguageModelOptions

_WAIT = 0.1  # seconds between looks for an interrupt
_LONGEST_END = 5  # seconds that the end of the program waits for calls of other threads
_MOST_TEXTS = 512  # in one request for embeddings
_open = weakref.WeakSet()


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
    priority: int | None = None
    cache_salt: str | None = None

    def _fields(self):
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


class Piece(str):
    """A text that was added to an answer, in a stream."""
    index: int  # of the answer, if n > 1
    token_ids: list
    reasoning: str
    logprobs: list | None
    tool_calls: list  # what was added to calls: (index, id, name or None, arguments)
    finish_reason: str | None  # of the last piece of an answer


class Stream:
    """An iterator of the pieces of an answer as the model writes them. To close it, or to drop it, ends the request."""

    def __init__(self, llm, generation, has_logprobs):
        self._llm, self._generation, self._has_logprobs = llm, generation, has_logprobs
        self._parts = []

    def __iter__(self):
        return self

    def __next__(self):
        while not self._parts:
            if self._generation is None or self._generation.finished():
                raise StopIteration
            with self._llm._inside:
                self._generation.wait(_WAIT)
            self._parts = self._generation.take_parts()
        return self._piece(self._parts.pop(0))

    def _piece(self, part):
        piece = Piece(part.text)
        piece.index, piece.token_ids, piece.reasoning, piece.tool_calls = part.index, part.token_ids, part.reasoning, part.calls
        piece.logprobs = _logprobs(part.logprobs) if self._has_logprobs else None
        piece.finish_reason = part.finish_reason or None
        return piece

    def close(self):
        generation, self._generation = self._generation, None
        if generation is not None:
            self._llm._cancel([generation])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        self.close()


class LLM:
    """A model of a Hugging Face folder, such as a checkpoint of colossal.train, or the name of one in the Hub's cache.

        with colossal.LLM("DIR", dtype="bf16", quantization="int8") as llm:
            print(llm.generate("Hello", max_tokens=64).text)

    dtype               of weights and activations: "auto" (that of the folder), "fp32", "bf16" or "fp64"
    quantization        of linear layers: "auto" (as the folder stores them), "none", "int8", "int4", "fp8" or "int8-dynamic"
    quantization_group  inputs that share a scale; 0: all
    device              "auto", "cpu" or "gpu"
    offload             where weights are between their uses: "none", "host", "nvme", or fractions {"host": 0.5, "nvme": 0.25}
    nvme_path           a folder on a fast disk, if anything goes to "nvme"
    kv_dtype            of the KV cache: "auto" (that of activations) or "int8"
    kv_bytes            memory for the KV cache, such as "2GiB"; None: enough, at most a quarter of the free memory
    max_model_len       most tokens of a prompt and its answer; 0: the model's maximum, or what fits in memory
    max_num_seqs        most texts that are generated at once; others wait
    max_batch_tokens    most tokens of a forward pass
    prefix_cache        whether prompts that begin alike share their KV cache
    batch_invariant     whether each answer is bitwise independent of the other prompts
    generation_config   fields in the place of those of the folder's generation_config.json
    adapters            {name: peft folder}

    Functions may be called from several threads at once: the engine generates their texts together."""

    def __init__(self, folder, *, dtype="auto", quantization="auto", quantization_group=None, device="auto", offload="none",
                 nvme_path="", kv_dtype="auto", kv_bytes=None, max_model_len=0, max_num_seqs=64, max_batch_tokens=512,
                 prefix_cache=True, batch_invariant=False, generation_config=None, adapters=None):
        options = LanguageModelOptions()
        options.folder, options.dtype, options.device = str(folder), dtype, device
        options.quantization, options.quantization_group = quantization, quantization_group
        options.offload, options.nvme_path = offload, str(nvme_path)
        options.kv_dtype, options.kv_bytes = kv_dtype, "" if kv_bytes is None else str(kv_bytes)
        options.max_model_len, options.max_num_seqs, options.max_batch_tokens = max_model_len, max_num_seqs, max_batch_tokens
        options.prefix_cache, options.batch_invariant = prefix_cache, batch_invariant
        options.generation_config = "" if generation_config is None else json.dumps(generation_config)
        options.adapters = [(name, str(path)) for name, path in (adapters or {}).items()]
        self._inside = _Inside()
        self._model = LanguageModel(options)
        _open.add(self)

    def generate(self, prompts, sampling=None, *, adapter=None, **settings):
        """Continues prompts. Returns the Completion of one prompt, or a list of those of several.

        prompts   a text, or its tokens: a list, a numpy array or a torch tensor; or a list of these, or a matrix of tokens
        sampling  SamplingParams, or a list with one for each prompt; or give their fields as settings: max_tokens=64
        adapter   the name of an adapter"""
        prompts, is_one = _as_prompts(prompts)
        bodies = [{"prompt": prompt, **self._asked(one, adapter)}
                  for prompt, one in zip(prompts, _each(sampling, settings, len(prompts)))]
        found = self._answers(self._open_model().complete, bodies)
        return found[0] if is_one else found

    def chat(self, messages, sampling=None, *, tools=None, adapter=None, template=None, **settings):
        """Answers a conversation, by the model's chat template. Returns a Completion, or a list for several conversations.

        messages  a list of {"role": ..., "content": ...}, or a list of such lists
        tools     functions that the model may call, as in OpenAI's API; calls are in Completion.tool_calls
        template  variables of the chat template, such as {"enable_thinking": False}"""
        is_one = bool(messages) and isinstance(messages[0], dict)
        conversations = [messages] if is_one else list(messages)
        bodies = [self._chat_body(each, one, tools, adapter, template)
                  for each, one in zip(conversations, _each(sampling, settings, len(conversations)))]
        found = self._answers(self._open_model().chat, bodies)
        return found[0] if is_one else found

    def stream(self, prompt, sampling=None, *, tools=None, adapter=None, template=None, **settings):
        """The answer to a prompt or, if it is a list of messages, to a conversation, piece by piece: an iterator of texts."""
        sampling = _each(sampling, settings, 1)[0]
        has_logprobs = sampling.logprobs is not None
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
            body, start = self._chat_body(prompt, sampling, tools, adapter, template), self._open_model().chat
        else:
            prompts, is_one = _as_prompts(prompt)
            if not is_one:
                raise ConfigError(f"stream() takes one prompt, and got {len(prompts)}: generate() takes several")
            body, start = {"prompt": prompts[0], **self._asked(sampling, adapter)}, self._open_model().complete
        with self._inside:
            return Stream(self, start(json.dumps({**body, "stream": True})), has_logprobs)

    def embed(self, texts, *, pooling=None, normalize=True, dimensions=None, truncate=None, adapter=None):
        """Embeddings of texts or tokens, as a numpy array [texts, numbers] of float32; of one text, [numbers].

        pooling     "first", "last" or "mean" of the last hidden states; None: as the folder says, else the mean of an encoder
                    and the last of a decoder
        normalize   scales each embedding to the norm 1
        dimensions  how many of the numbers
        truncate    tokens that are kept of a longer text; None: it is an error"""
        texts, is_one = _as_prompts(texts)
        fields = {"pooling": pooling, "normalize": normalize, "dimensions": dimensions, "truncate_prompt_tokens": truncate,
                  "model": adapter}
        bodies = [{"input": texts[i:i + _MOST_TEXTS], **fields} for i in range(0, len(texts), _MOST_TEXTS)]
        found = numpy.concatenate(self._results(self._open_model().embed, bodies, _take_embeddings) or [numpy.zeros((0, 0), "float32")])
        return found[0] if is_one else found

    def encode(self, text):
        """The tokens of a text, as a prompt has them."""
        return self._open_model().encode(text)

    def decode(self, tokens):
        """The text of tokens."""
        return self._open_model().decode(_tokens(tokens))

    def load_adapter(self, name, folder):
        """Reads a LoRA adapter or a prefix from a peft folder. Calls with adapter=name use it."""
        self._open_model().load_adapter(name, str(folder))

    def unload_adapter(self, name):
        self._open_model().unload_adapter(name)

    @property
    def max_model_len(self):
        """Most tokens of a prompt and its answer together."""
        return self._open_model().max_model_len

    def close(self):
        """Ends what is being generated, and frees the model. Other calls then raise an error."""
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _open_model(self):
        if self._model is None:
            raise Error("this LLM is closed")
        return self._model

    def _cancel(self, generations):
        model = self._model
        if model is not None:
            for generation in generations:
                model.cancel(generation)

    def _asked(self, sampling, adapter):
        return {**sampling._fields(), "model": adapter}

    def _chat_body(self, messages, sampling, tools, adapter, template):
        fields = self._asked(sampling, adapter)
        if sampling.logprobs is not None:
            fields |= {"logprobs": True, "top_logprobs": sampling.logprobs}
        return {"messages": messages, "tools": tools, "chat_template_kwargs": template, **fields}

    def _answers(self, start, bodies):
        found = self._results(start, bodies, _take_answers)
        return [_completion(parts, body) for parts, body in zip(found, bodies)]

    def _results(self, start, bodies, take):
        """take() of the work of each request; if one fails or the user interrupts, all end."""
        generations = []
        with self._inside:
            try:
                for body in bodies:
                    generations.append(start(json.dumps(body)))
                return [take(generation) for generation in generations]
            except BaseException:
                self._cancel(generations)
                raise


class _Inside:
    """Counts the threads that are in a call of an LLM."""

    def __init__(self):
        self.count, self._lock = 0, threading.Lock()

    def __enter__(self):
        with self._lock:
            self.count += 1

    def __exit__(self, *error):
        with self._lock:
            self.count -= 1


def _take_answers(generation):
    parts = []
    while not generation.finished():
        generation.wait(_WAIT)
        parts += generation.take_parts()
    return parts + generation.take_parts()  # raises if it has failed


def _take_embeddings(generation):
    while not generation.finished():
        generation.wait(_WAIT)
    return generation.take_embeddings().numpy()


def _completion(parts, body):
    asked = body.get("logprobs")
    choices = [Choice(part.text, part.token_ids, part.finish_reason, part.stop_string, part.reasoning,
                      [ToolCall(id, name, arguments) for _, id, name, arguments in part.calls],
                      _logprobs(part.logprobs) if asked is not None else None, part.beam_score) for part in parts]
    prompt_logprobs = _logprobs(parts[0].prompt_logprobs) if body.get("prompt_logprobs") is not None else None
    return Completion(parts[0].prompt, choices, parts[0].cached_tokens, prompt_logprobs)


def _logprobs(tokens):
    return [token and Logprob(*token) for token in tokens]


def _each(sampling, settings, count):
    """SamplingParams of each of `count` prompts."""
    if sampling is None or settings:
        if sampling is not None:
            raise ConfigError("give either SamplingParams or their fields as settings, not both")
        sampling = SamplingParams(**settings)
    if isinstance(sampling, SamplingParams):
        return [sampling] * count
    if len(sampling) != count:
        raise ConfigError(f"{len(sampling)} SamplingParams for {count} prompts: give one, or as many as there are prompts")
    return list(sampling)


def _as_prompts(given):
    """(a list of texts and lists of tokens, whether one prompt was given)"""
    if isinstance(given, str):
        return [given], True
    if isinstance(given, (numpy.ndarray, torch.Tensor)):
        return ([_tokens(given)], True) if given.ndim == 1 else ([_tokens(row) for row in given], False)
    given = list(given)
    if given and all(isinstance(each, int) or (isinstance(each, (numpy.integer, torch.Tensor)) and each.ndim == 0) for each in given):
        return [_tokens(given)], True
    return [each if isinstance(each, str) else _tokens(each) for each in given], False


def _tokens(given):
    numbers = given.tolist() if isinstance(given, (numpy.ndarray, torch.Tensor)) else given
    try:
        if all(int(number) == number for number in numbers):
            return [int(number) for number in numbers]
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"a prompt is a text or the numbers of its tokens, and not {str(given)[:60]!r}")


@atexit.register
def _close_all():
    """Before Python ends: neither the engine's threads nor calls of daemon threads may outlive the interpreter."""
    closed = list(_open)
    for llm in closed:
        llm.close()
    deadline = time.monotonic() + _LONGEST_END
    while any(llm._inside.count for llm in closed) and time.monotonic() < deadline:
        time.sleep(0.001)
