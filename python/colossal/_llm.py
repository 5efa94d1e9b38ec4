"""LLM: a model of a Hugging Face folder that generates texts and embeds them, in this process."""
import atexit
import contextlib
import json
import os
import tempfile
import threading
import time
import weakref
from typing import Any

import numpy
import torch

from ._completions import Choice, Completion, Labels, Logprob, Piece, SamplingParams, ToolCall
from ._engine import ConfigError, Error, LanguageModel, LanguageModelOptions, convert_gguf
from ._runs import flags_of

_WAIT = 0.1  # seconds between looks for an interrupt
_LONGEST_END = 5  # seconds that the end of the program waits for calls of other threads
_MOST_TEXTS = 512  # in one request for embeddings
_open: weakref.WeakSet[Any] = weakref.WeakSet()


class Stream:
    """An iterator of the pieces of an answer as the model writes them. To close it, or to drop it, ends the request."""

    def __init__(self, llm, generation, has_logprobs):
        self._llm, self._generation, self._has_logprobs = llm, generation, has_logprobs
        self._parts = []

    def __iter__(self):
        return self

    def __next__(self):
        while not self._parts:
            if self._generation is None:
                raise StopIteration
            if not self._generation.finished():
                with self._llm._inside:
                    self._generation.wait(_WAIT)
            self._parts = self._generation.take_parts()  # raises if it has failed
            if not self._parts and self._generation.finished():
                raise StopIteration
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
    """A model of a Hugging Face folder, such as a checkpoint of colossal.train, the name of one in the Hub's cache, or a GGUF
    file.

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
    draft               the folder of a smaller model with the same tokenizer, which proposes tokens; texts stay the same
    speculate           "none", "lookup" (proposes what followed the same tokens before) or "eagle" (`draft` is a head that
                        `colossal tune draft_head` has trained)
    num_drafts          most tokens that are proposed at a time
    parallel            how the ranks that torchrun or `colossal run` has started hold the model together, such as {"tp": 2}: the
                        keys of [parallel] of run.toml. All ranks make the LLM; calls are for the one that `leads`, and the
                        others wait in close(), or at the end of `with`, until it closes. None: each process has a whole model

    Functions may be called from several threads at once: the engine generates their texts together."""

    def __init__(self, folder, *, dtype="auto", quantization="auto", quantization_group=None, device="auto", offload="none",
                 nvme_path="", kv_dtype="auto", kv_bytes=None, max_model_len=0, max_num_seqs=64, max_batch_tokens=512,
                 prefix_cache=True, batch_invariant=False, generation_config=None, adapters=None, draft="", speculate="none",
                 num_drafts=4, parallel=None):
        options = LanguageModelOptions()
        options.folder, options.dtype, options.device = str(folder), dtype, device
        options.quantization, options.quantization_group = quantization, quantization_group
        options.offload, options.nvme_path = offload, str(nvme_path)
        options.kv_dtype, options.kv_bytes = kv_dtype, "" if kv_bytes is None else str(kv_bytes)
        options.max_model_len, options.max_num_seqs, options.max_batch_tokens = max_model_len, max_num_seqs, max_batch_tokens
        options.prefix_cache, options.batch_invariant = prefix_cache, batch_invariant
        options.generation_config = "" if generation_config is None else json.dumps(generation_config)
        options.draft, options.speculate, options.num_drafts = str(draft), speculate, num_drafts
        options.parallel = list(flags_of({"parallel": parallel or {}}))
        options.adapters = [(name, str(path)) for name, path in (adapters or {}).items()]
        self._inside = _Inside()
        with _as_folder(options) as options.folder:
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

    def chat(self, messages, sampling=None, *, tools=None, tool_choice=None, adapter=None, template=None, **settings):
        """Answers a conversation, by the model's chat template. Returns a Completion, or a list for several conversations.

        messages     a list of {"role": ..., "content": ...}, or a list of such lists
        tools        functions that the model may call, as in OpenAI's API; calls are in Completion.tool_calls
        tool_choice  "auto", "none", "required", or a function that it must call
        template     variables of the chat template, such as {"enable_thinking": False}"""
        is_one = bool(messages) and isinstance(messages[0], dict)
        conversations = [messages] if is_one else list(messages)
        bodies = [self._chat_body(each, one, tools, tool_choice, adapter, template)
                  for each, one in zip(conversations, _each(sampling, settings, len(conversations)))]
        found = self._answers(self._open_model().chat, bodies)
        return found[0] if is_one else found

    def stream(self, prompt, sampling=None, *, tools=None, tool_choice=None, adapter=None, template=None, **settings):
        """The answer to a prompt or, if it is a list of messages, to a conversation, piece by piece: an iterator of texts."""
        sampling = _each(sampling, settings, 1)[0]
        has_logprobs = sampling.logprobs is not None
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
            body, start = self._chat_body(prompt, sampling, tools, tool_choice, adapter, template), self._open_model().chat
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
        bodies = [{"input": part, **fields} for part in _parts(texts)]
        found = numpy.concatenate(self._results(self._open_model().embed, bodies, _take_embeddings) or [numpy.zeros((0, 0), "float32")])
        return found[0] if is_one else found

    def classify(self, texts, *, truncate=None, adapter=None):
        """What a model with labels says of texts, or of pairs of texts (tuples): the Labels of one, or a list for several."""
        is_one = isinstance(texts, (str, tuple))
        texts = [texts] if is_one else list(texts)
        field = "pairs" if texts and isinstance(texts[0], tuple) else "input"
        found = self._scored(self._open_model().classify, [{field: part} for part in _parts(texts)], truncate, adapter)
        found = [Labels(each.get("label"), each["probs"]) for each in found]
        return found[0] if is_one else found

    def score(self, query, texts, *, truncate=None, adapter=None):
        """The relevance of each text to a query, from 0 to 1, by a model with one score: an array."""
        bodies = [{"text_1": query, "text_2": part} for part in _parts(texts)]
        return numpy.array([each["score"] for each in self._scored(self._open_model().score, bodies, truncate, adapter)])

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
    def leads(self):
        """Whether calls are for this rank; True without `parallel`."""
        return self._open_model().leads

    @property
    def max_model_len(self):
        """Most tokens of a prompt and its answer together."""
        return self._open_model().max_model_len

    @property
    def statistics(self):
        """What the engine has done so far: prompt_tokens, generated_tokens, cached_tokens, steps, ...; and running, waiting."""
        return self._open_model().statistics()

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
        return {**sampling.fields(), "model": adapter}

    def _chat_body(self, messages, sampling, tools, tool_choice, adapter, template):
        fields = self._asked(sampling, adapter)
        if sampling.logprobs is not None:
            fields |= {"logprobs": True, "top_logprobs": sampling.logprobs}
        return {"messages": messages, "tools": tools, "tool_choice": tool_choice, "chat_template_kwargs": template, **fields}

    def _scored(self, start, bodies, truncate, adapter):
        bodies = [{**body, "truncate_prompt_tokens": truncate, "model": adapter} for body in bodies]
        return [each for answer in self._results(start, bodies, _take_answer) for each in answer["data"]]

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


@contextlib.contextmanager
def _as_folder(options):
    """The folder of the model; of a GGUF file, one that lasts until the weights are read."""
    if not options.folder.endswith(".gguf") or os.path.isdir(options.folder):
        yield options.folder
        return
    with tempfile.TemporaryDirectory(prefix="colossal-") as temporary:
        folder = os.path.join(temporary, os.path.basename(options.folder)[:-len(".gguf")])
        convert_gguf(options.folder, folder, options.dtype in ("fp32", "fp64"))
        yield folder


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


def _wait_for_end(generation):
    while not generation.finished():
        generation.wait(_WAIT)


def _take_embeddings(generation):
    _wait_for_end(generation)
    return generation.take_embeddings().numpy()


def _take_answer(generation):
    _wait_for_end(generation)
    return json.loads(generation.take_answer())


def _parts(texts):
    """Texts of one request after the other."""
    return [texts[i:i + _MOST_TEXTS] for i in range(0, len(texts), _MOST_TEXTS)]


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
