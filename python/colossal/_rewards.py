"""Functions as rewards of tune(): a server of this process on the loopback answers with what they return."""
import contextlib
import http.server
import inspect
import json
import os
import re
import secrets
import threading

from ._engine import ConfigError


@contextlib.contextmanager
def served(sections):
    """The sections with addresses in the place of the functions in tune.reward, and a function that raises what one has
    raised. The addresses answer while the context lasts."""
    rewards = _rewards_of(sections)
    functions = [each for each in rewards if callable(each)]
    if not functions:
        yield sections, lambda: None
        return
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError("tune.reward has a function, which works on one rank only; give the address of a server, \"http://...\"")
    server = _Server(functions)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        addresses = [server.address_of(each) if callable(each) else each for each in rewards]
        yield {**sections, "tune": {**sections["tune"], "reward": addresses}}, server.raise_error
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _rewards_of(sections):
    tune = sections.get("tune")
    rewards = tune.get("reward") if isinstance(tune, dict) else None
    return rewards if isinstance(rewards, (list, tuple)) else [rewards]


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, functions):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.functions = {f"/{secrets.token_hex(8)}": function for function in functions}  # others of this machine know no path
        self.error = None  # the first that a function has raised

    def address_of(self, function):
        path = next(path for path, each in self.functions.items() if each is function)
        name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__))
        return f"{name}=http://127.0.0.1:{self.server_address[1]}{path}"

    def raise_error(self):
        if self.error is not None:
            raise self.error


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        function = self.server.functions.get(self.path)
        if function is None:
            return self.send_error(404)
        completions = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["completions"]
        try:
            answer = json.dumps({"rewards": _call(function, completions)}).encode()
        except Exception as error:
            self.server.error = self.server.error or error
            return self.send_error(500)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


def _call(function, completions):
    """The rewards of completions: function(prompts, completions, FIELD, ...), with those that it takes."""
    lists = {name: [each.get(name) for each in completions] for each in completions for name in each}
    lists |= {"prompts": lists.get("prompt"), "completions": lists["completion"]}
    parameters = inspect.signature(function).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        names = {parameter.name for parameter in parameters}
        lists = {name: values for name, values in lists.items() if name in names}
    rewards = [None if reward is None else float(reward) for reward in function(**lists)]
    if len(rewards) != len(completions):
        raise ConfigError(f"the reward {function.__name__} has returned {len(rewards)} numbers for {len(completions)} completions")
    return rewards
