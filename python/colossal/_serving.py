"""serve(): the server of the command, as long as the call lasts."""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from ._engine import ConfigError, Error
from ._runs import text_of

_BAD_USAGE = 2
_LINES_OF_ERROR = 20
# What LLM calls settings, by the flags of `colossal serve`.
_FLAGS = {"dtype": "precision.compute", "device": "parallel.device", "quantization": "quantize", "quantization_group": "quantize-group",
          "offload": "memory.offload_parameters", "nvme_path": "memory.nvme_path", "kv_dtype": "kv-type",
          "generation_config": "override-generation-config"}


def serve(folder, **settings):
    """Serves a model over the APIs of OpenAI, Anthropic and ollama until Ctrl-C or SIGTERM, as `colossal serve` does.

        colossal.serve("DIR", port=8000, dtype="bf16", ranks=2, **{"parallel.tp": 2})

    The settings are those of LLM, and the flags of `colossal serve --help`: host, port, ranks, api_key_file, served_name,
    draft, tool_call_parser, drain_timeout, ... A flag without a value is True."""
    said, command = [], [find_program(), "serve", os.fspath(folder), *_arguments(settings)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_end_with_parent) as program:
        try:
            for line in program.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                said = [*said[-_LINES_OF_ERROR:], line]
            code = program.wait()
        except KeyboardInterrupt:  # the program has got it, too, if a terminal sent it
            program.send_signal(signal.SIGINT)
            print(program.stderr.read(), end="", file=sys.stderr)
            code = program.wait()
        finally:
            program.kill()
    if code:
        raise (ConfigError if code == _BAD_USAGE else Error)("".join(said).strip() or f"colossal serve ended with {code}")


def find_program():
    """The path of the command."""
    package = pathlib.Path(__file__).parent
    for path in (package / "bin" / "colossal", package.parents[1] / "colossal"):  # of a wheel; of a build
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("colossal")
    if found is None:
        raise ConfigError("the command colossal is neither in the package nor on the path: install it, or add it to PATH")
    return found


def _arguments(settings):
    for name, value in settings.items():
        if name == "prefix_cache":
            yield from [] if value else ["--no-prefix-cache"]
        elif name == "adapters":
            yield from (f"--adapter={adapter}={path}" for adapter, path in (value or {}).items())
        elif value is not None and value is not False:
            flag = "--" + _FLAGS.get(name, name if "." in name else name.replace("_", "-"))
            yield flag if value is True else f"{flag}={_text(name, value)}"


def _text(name, value):
    return json.dumps(value) if name == "generation_config" else text_of(value)


def _end_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
