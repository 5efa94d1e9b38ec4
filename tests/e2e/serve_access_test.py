"""`colossal serve`: who may use it."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import time
import unittest
import urllib.request

import openai

from harness import COLOSSAL
from serve_test import Server, ServesModel


def ask(port, method, path, body=None, headers=None):
    """Status, header fields and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


COMPLETION = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
JSON = {"Content-Type": "application/json"}


class Access(ServesModel):
    def test_pages_whose_name_was_made_to_mean_this_machine_are_refused(self):
        """DNS rebinding: the page's site and the server have the same name, of an attacker."""
        site = f"evil.example:{self.server.port}"
        for headers in ({"Host": site}, {"Host": site, "Origin": f"http://{site}"}, {"Host": "evil.example"}):
            for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/"), ("POST", "/api/chat")):
                status, fields, body = ask(self.server.port, method, path, COMPLETION, {**JSON, **headers})
                self.assertEqual(status, 403, (path, headers))
                self.assertIn(b"--allowed-host", body)
        for host in ("localhost", f"LOCALHOST:{self.server.port}", "127.0.0.1", "[::1]:80"):
            own = {"Host": host, "Origin": f"http://{host}"}
            self.assertEqual(ask(self.server.port, "POST", "/v1/completions", COMPLETION, {**JSON, **own})[0], 200, host)

    def test_bodies_are_json_but_for_programs_that_use_ollama_s_api(self):
        chat = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "a"}], "options": {"num_predict": 1}}).encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # as curl -d sends it
        own = {"Origin": f"http://127.0.0.1:{self.server.port}"}
        for path, headers, status in (("/v1/chat/completions", form, 415), ("/api/chat", form, 200), ("/api/chat", {}, 200),
                                      ("/api/chat", {**form, **own}, 415), ("/api/chat", {**JSON, **own}, 200),
                                      ("/api/chat", {**form, "Origin": "http://evil.example"}, 403)):
            self.assertEqual(ask(self.server.port, "POST", path, chat, headers)[0], status, (path, headers))

    def test_other_names_and_sites_are_allowed_by_name(self):
        server = Server(self.model, "--allowed-host=Chat.Example", "--allowed-origin=https://site.example")
        self.addCleanup(server.stop)
        self.assertEqual(ask(server.port, "GET", "/health", headers={"Host": "chat.example:80"})[0], 200)
        self.assertEqual(ask(server.port, "GET", "/health", headers={"Host": "other.example"})[0], 403)
        site = {"Origin": "https://site.example"}
        status, fields, _ = ask(server.port, "OPTIONS", "/v1/chat/completions", headers={
            **site, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"})
        self.assertEqual(status, 204)
        self.assertEqual(fields["Access-Control-Allow-Origin"], site["Origin"])
        self.assertEqual(fields["Access-Control-Allow-Headers"], "authorization, content-type")
        for body in (COMPLETION, b"{}", json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}).encode()):
            status, fields, _ = ask(server.port, "POST", "/v1/completions", body, {**JSON, **site})
            self.assertEqual((status, fields["Access-Control-Allow-Origin"]), (400 if body == b"{}" else 200, site["Origin"]))
        status, fields, _ = ask(server.port, "OPTIONS", "/v1/chat/completions", headers={
            "Origin": "https://other.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(status, 403)
        self.assertNotIn("Access-Control-Allow-Origin", fields)

    def refusal(self, *flags, **environment):
        done = subprocess.run([COLOSSAL, "serve", self.model, "--port=0", *flags], capture_output=True, text=True, timeout=30,
                              env={**os.environ, **environment})
        self.assertNotEqual(done.returncode, 0, flags)
        self.assertNotIn("serving tiny", done.stderr)
        return done.stderr

    def test_keys_that_protect_nothing_are_refused(self):
        empty = self.directory / "empty"
        empty.write_text("\n")
        for flags, message in {("--api-key=",): "empty", ("--admin-key=",): "empty", (f"--api-key-file={empty}",): "empty",
                               ("--api-key-file=/nowhere",): "cannot read", ("--api-key=two words",): "spaces",
                               ("--api-key=a", f"--api-key-file={empty}"): "one of them",
                               ("--allowed-origin=site.example",): "scheme", ("--allowed-origin=http://a/b",): "path",
                               ("--allowed-host=a:80",): "port"}.items():
            self.assertIn(message, self.refusal(*flags), flags)
        self.assertIn("COLOSSAL_API_KEY", self.refusal(COLOSSAL_API_KEY=""))

    def test_keys_from_files_and_the_environment(self):
        file = self.directory / "key"
        file.write_text("from-a-file\n")
        os.environ["COLOSSAL_ADMIN_KEY"] = "of-the-administrator"
        self.addCleanup(os.environ.pop, "COLOSSAL_ADMIN_KEY", None)
        server = Server(self.model, f"--api-key-file={file}", "--allow-adapter-loading")
        self.addCleanup(server.stop)
        self.assertNotIn("from-a-file", pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_text())
        self.assertEqual(server.client("from-a-file").models.list().data[0].id, "tiny")
        with self.assertRaises(openai.AuthenticationError):
            server.client("other").models.list()

        def status(key, scheme="Bearer"):
            body = json.dumps({"lora_name": "x"}).encode()
            return ask(server.port, "POST", "/v1/unload_lora_adapter", body, {**JSON, "Authorization": f"{scheme} {key}"})[0]
        self.assertEqual(status("from-a-file"), 401)
        self.assertEqual(status("of-the-administrator", "bearer"), 404)  # no such adapter

    def test_an_open_server_on_all_addresses_says_so(self):
        process = subprocess.Popen([COLOSSAL, "serve", self.model, "--port=0", "--host=0.0.0.0", "--train.threads=1"],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "serving" in line:
                break
        process.terminate()
        process.wait(30)
        self.assertTrue(any("no API key" in line for line in lines), lines)

    def test_monitors(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        self.addCleanup(connection.close)
        for method in ("HEAD", "GET", "HEAD", "GET"):  # on one connection
            connection.request(method, "/health")
            answer = connection.getresponse()
            body = answer.read()
            self.assertEqual((answer.status, body), (200, b"" if method == "HEAD" else b'{"status":"ok"}'))
        for path in ("/", "/metrics", "/v1/models", "/v1/models/tiny", "/api/tags"):
            self.assertEqual(ask(self.server.port, "HEAD", path)[0], 200, path)
        status, fields, _ = ask(self.server.port, "GET", "/v1/completions")
        self.assertEqual((status, fields["Allow"]), (405, "POST"))
        received = self.server.raw(f"GET http://localhost:{self.server.port}/health HTTP/1.1\r\nHost: x\r\n"
                                   "Connection: close\r\n\r\n".encode())
        self.assertTrue(received.startswith(b"HTTP/1.1 200"), received)

    def test_health_is_answered_when_all_connections_are_in_use(self):
        server = Server(self.model)
        self.addCleanup(server.stop)
        idle = []
        try:
            for _ in range(1100):
                idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        except OSError:
            pass
        self.addCleanup(lambda: [connection.close() for connection in idle])
        if len(idle) < 1050:
            self.skipTest("this machine lets a process open fewer connections")
        # A reserved connection that asks for nothing is closed after a second.
        deadline = time.monotonic() + 5
        while True:
            try:
                self.assertEqual(ask(server.port, "GET", "/health")[0], 200)
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)

    def test_names_in_paths(self):
        server = Server(self.model, "--served-name=org/my model")
        self.addCleanup(server.stop)
        self.assertEqual(server.client().models.retrieve("org/my model").id, "org/my model")
        self.assertEqual(urllib.request.urlopen(
            f"http://127.0.0.1:{server.port}/v1/models/org/my%20model", timeout=10).status, 200)
        with self.assertRaises(openai.NotFoundError):
            server.client().models.retrieve("org/other")

    def test_prompts_that_are_too_long_have_openai_s_code(self):
        client = self.server.client()
        for ask_for in (lambda: client.completions.create(model="tiny", prompt="a " * 300, max_tokens=5),
                        lambda: client.completions.create(model="tiny", prompt="a " * 3000, max_tokens=5),
                        lambda: client.completions.create(model="tiny", prompt=[1] * 300, max_tokens=5),
                        lambda: client.embeddings.create(model="tiny", input="a " * 300)):
            with self.assertRaises(openai.BadRequestError) as caught:
                ask_for()
            self.assertEqual(caught.exception.code, "context_length_exceeded")


if __name__ == "__main__":
    unittest.main()
