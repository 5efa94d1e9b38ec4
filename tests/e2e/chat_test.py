"""`colossal generate --chat`: a conversation in a terminal, and one through a pipe."""
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
import unittest

from harness import COLOSSAL, EndToEndTest
from serve_test import POSITIONS, make_model

FLAGS = ["--temperature=0", "--train.threads=1", "--precision.compute=fp32"]


class ChatTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "tiny"
        make_model(self.model)

    def command(self, *flags):
        return list(map(str, [COLOSSAL, "generate", self.model, *FLAGS, *flags]))

    def answer(self, *messages, system=None, tokens=6):
        """What the model answers to the last of these messages: of the user, the assistant, the user ..."""
        said = [{"role": "system", "content": system}] if system else []
        said += [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(messages)]
        source, output = self.directory / "in.jsonl", self.directory / "out.jsonl"
        source.write_text(json.dumps({"messages": said, "max_tokens": tokens}) + "\n")
        output.unlink(missing_ok=True)
        subprocess.run(self.command(f"--input={source}", f"--output={output}"), check=True, capture_output=True)
        return json.loads(output.read_text())["completion"]


class ThroughAPipe(ChatTest):
    def talk(self, *lines, flags=("--max-new-tokens=6",)):
        """stdout and stderr."""
        done = subprocess.run(self.command("--chat", *flags), input="".join(line + "\n" for line in lines).encode(),
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def test_commands(self):
        one = self.answer("Hello")
        two = self.answer("Hello", one, "fox")
        saved = self.directory / "saved.jsonl"
        found, told = self.talk("Hello", "fox", "/undo", "fox", "/edit dog", "/clear", "Hello", "/retry", f"/save {saved}",
                                "/bogus", "/help", "/system", "/exit", "unheard")
        dog = self.answer("Hello", one, "dog")
        self.assertEqual(found, "".join(text + "\n" for text in (one, two, two, dog, one, one)))
        self.assertEqual(json.loads(saved.read_text())["messages"],
                         [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": one}])
        self.assertIn("/bogus: no such command", told)
        for command in ("/system", "/reset", "/retry", "/undo", "/edit", "/save", "/exit"):
            self.assertIn(command + " ", told)
        self.assertIn("no system message", told)

    def test_the_system_message(self):
        found, _ = self.talk("Hello", "/system fox", "/reset", "Hello", flags=("--max-new-tokens=6", "--system=lazy dog"))
        self.assertEqual(found, self.answer("Hello", system="lazy dog") + "\n" + self.answer("Hello", system="fox") + "\n")

    def test_messages_of_several_lines(self):
        found, _ = self.talk('"""The', 'quick', 'fox"""', "/reset", "The\\", "quick\\", "fox", "/reset", " /home")
        expected = self.answer("The\nquick\nfox")
        self.assertEqual(found, expected + "\n" + expected + "\n" + self.answer("/home") + "\n")

    def test_a_cut_is_told_and_a_refusal_changes_nothing(self):
        found, told = self.talk("Hello", "x " * POSITIONS, "/retry")
        self.assertIn("(cut after --max-new-tokens=6)", told)
        self.assertIn("maximum of 256", told)
        one = self.answer("Hello")
        self.assertEqual(found, f"{one}\n{one}\n")
        # By default an answer may take all the room there is.
        found, told = self.talk("Hello", flags=())
        longest = self.answer("Hello", tokens=POSITIONS // 2)
        self.assertGreaterEqual(len(found), len(longest))

    def test_stop_strings_end_answers(self):
        one = self.answer("Hello")
        self.assertEqual(self.talk("Hello", flags=("--max-new-tokens=6", f"--stop={one[2:4]}"))[0], one.split(one[2:4])[0] + "\n")

    def test_what_is_for_a_chat_only(self):
        done = subprocess.run(self.command("--prompt=x", "--system=y"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--system is for --chat", done.stderr)


class TerminalTest(ChatTest):
    def setUp(self):
        super().setUp()
        self.terminal, other = pty.openpty()
        self.addCleanup(os.close, self.terminal)
        self.process = subprocess.Popen(self.command("--chat", "--max-new-tokens=6"), stdin=other, stdout=other, stderr=other,
                                        start_new_session=True, env={**os.environ, "TERM": "xterm"},
                                        preexec_fn=lambda: fcntl.ioctl(other, termios.TIOCSCTTY, 0))
        os.close(other)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.shown = b""

    def wait_for(self, text, count=1):
        deadline = time.monotonic() + 60
        while self.shown.decode(errors="replace").count(text) < count:
            self.assertLess(time.monotonic(), deadline, self.shown)
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.shown += os.read(self.terminal, 65536)

    def type(self, text):
        os.write(self.terminal, text.encode())


class BeforeItReads(TerminalTest):
    def test_the_end_is_heard(self):
        self.type("\x04")
        self.assertEqual(self.process.wait(30), 0)


class InATerminal(TerminalTest):
    def setUp(self):
        super().setUp()
        self.wait_for("> ")

    def test_lines_are_edited_and_remembered(self):
        one = self.answer("Hello")
        self.type("Hellp\x7fo\r")  # a backspace
        self.wait_for(one)
        self.wait_for("(cut after")
        self.wait_for("> ", 2)
        self.type("/reset\r")
        self.wait_for("> ", 3)
        self.type("\x1b[A\x1b[A\r")  # two lines back
        self.wait_for(one, 2)
        self.type("/exit\r")
        self.assertEqual(self.process.wait(30), 0)

    def test_long_and_pasted_lines_are_whole(self):
        saved = self.directory / "saved.jsonl"
        line = "naïve " * 900  # longer than a terminal's line
        for i in range(0, len(line), 500):
            self.type(line[i:i + 500])
            self.wait_for("na", (i + 500) // 6 * 9 // 10)  # as a person types, who sees what is read
        self.type("\r")
        self.wait_for("the prompt has ")  # too long for the model, but read
        self.assertRegex(self.shown.decode(), rf"the prompt has {len(line.encode()) // 100}\d\d bytes")
        self.type("first\rsecond\r")
        self.wait_for("(cut after")
        self.type(f"/save {saved}\r")
        self.wait_for("(saved as")
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "first\nsecond")

    def test_interrupts_stop_answers_but_not_the_program(self):
        self.type("half a li\x03")
        self.wait_for("/exit or Ctrl-D ends")
        self.type("Hello\r")
        self.wait_for("(cut after --max-new-tokens=6)\r\n> ")
        self.type("\x04")
        self.assertEqual(self.process.wait(30), 0)

    def test_a_signal_that_ends_it_restores_the_terminal(self):
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(30), -signal.SIGTERM)
        self.assertTrue(termios.tcgetattr(self.terminal)[3] & termios.ICANON)


if __name__ == "__main__":
    unittest.main()
