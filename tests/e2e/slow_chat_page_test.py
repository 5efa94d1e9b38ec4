"""The chat page of `colossal serve`, in a browser."""
import pathlib
import re
import shutil
import tempfile
import time
import unittest

import torch
from transformers import AutoModelForCausalLM

from harness import EndToEndTest
from serve_test import Server, make_model
from slow_clients_test import need


class ChatPage(EndToEndTest):
    """The chat page as a person uses it in a browser."""

    @classmethod
    def setUpClass(cls):
        cls.model = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.model, ignore_errors=True)
        make_model(cls.model, positions=8192)
        # Answers are as long as they may be: the end of text is never the most likely token.
        model = AutoModelForCausalLM.from_pretrained(cls.model, dtype=torch.float32)
        with torch.no_grad():
            model.lm_head.weight[model.config.eos_token_id] = 0
        model.save_pretrained(cls.model)
        cls.server = Server(cls.model)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        super().setUp()
        need(self, "chromium", "chromedriver", modules=["selenium"])
        self.browser = self.start_browser()
        self.open_page()

    def start_browser(self, *flags):
        from selenium import webdriver
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,700",
                     f"--user-data-dir={tempfile.mkdtemp(dir=self.directory)}", *flags):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        self.addCleanup(browser.quit)
        browser.set_page_load_timeout(60)
        return browser

    def open_page(self):
        self.browser.get(f"http://127.0.0.1:{self.server.port}/")
        self.await_that(lambda: "tiny" in self.text("#model"), "the name of the model")
        self.choose("temperature", "0")

    def await_that(self, true, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def find(self, selector):
        return self.browser.find_elements("css selector", selector)

    def text(self, selector):
        """As it is in the page; what a browser shows has no space at its ends."""
        return "".join(element.get_property("textContent") for element in self.find(selector))

    def answer(self):
        """Text of the last answer as the model wrote it."""
        return self.browser.execute_script("return [...document.querySelectorAll('.turn.assistant')].at(-1).source")

    def choose(self, name, value):
        self.browser.execute_script("document.querySelector('#settings').open = true")
        [field] = self.find(f"#{name}")
        field.clear()
        field.send_keys(value)
        self.browser.execute_script("document.querySelector('#settings').open = false")

    def say(self, text):
        from selenium.webdriver.common.keys import Keys
        self.find("#text")[0].send_keys(text, Keys.ENTER)
        self.await_that(lambda: self.find(".turn.assistant"), "a turn for the answer")

    def await_end(self):
        self.await_that(lambda: self.text("#send") == "Send", "the end of the answer")

    def ended(self, reason):
        found = re.search(rf'finished_reason="{reason}"}} (\d+)', self.server.get("/metrics"))
        return int(found[1]) if found else 0

    def greedy(self, *messages, count):
        roles = ("user", "assistant")
        answer = self.server.client().chat.completions.create(
            model="tiny", temperature=0, max_tokens=count,
            messages=[{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)])
        return answer.choices[0].message.content

    def assert_no_errors(self):
        told = [line for line in self.browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(told, [])

    def test_a_conversation(self):
        self.choose("max_tokens", "24")
        first = self.greedy("The quick", count=24)
        self.assertTrue(first)
        self.say("The quick")
        self.await_end()
        self.assertEqual(self.answer(), first)
        self.assertEqual(self.text(".turn.user .content"), "The quick")
        self.assertIn("24 tokens", self.text(".turn.assistant small"))
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("The quick", first, "lazy dog", count=24))
        # A new page begins a new conversation.
        self.open_page()
        self.assertEqual(self.find(".turn"), [])
        self.say("The quick")
        self.await_end()
        self.assertEqual(self.answer(), first)
        self.assert_no_errors()

    def begin_a_long_answer(self):
        self.choose("max_tokens", "8000")
        self.say("The quick")
        self.await_that(self.answer, "the beginning of an answer")
        self.assertEqual(self.text("#send"), "Stop")

    def test_stop_cancels_the_request(self):
        aborted = self.ended("abort")
        self.begin_a_long_answer()
        self.find("#send")[0].click()
        self.await_end()
        self.await_that(lambda: self.ended("abort") == aborted + 1, "the request is cancelled")
        self.await_that(lambda: self.server.metric("kv_cache_pages_used") == 0, "its pages are free")
        self.assertIn("stopped", self.text(".turn.assistant small"))
        kept = self.answer()
        self.assertTrue(kept)
        self.assertEqual(self.find(".turn.error"), [])
        self.assert_no_errors()

    def test_a_closed_page_cancels_its_request(self):
        aborted = self.ended("abort")
        self.begin_a_long_answer()
        self.open_page()
        self.await_that(lambda: self.ended("abort") == aborted + 1, "the request is cancelled")
        self.assertEqual(self.find(".turn"), [])
        self.assert_no_errors()

    def test_the_next_message_is_typed_while_an_answer_comes(self):
        self.begin_a_long_answer()
        self.say("lazy dog")  # ends with Enter, which neither sends nor stops
        self.assertEqual(self.text("#send"), "Stop")
        self.assertEqual(self.find("#text")[0].get_property("value"), "lazy dog")
        self.find("#send")[0].click()
        self.await_end()
        self.assertEqual(self.find("#text")[0].get_property("value"), "lazy dog")
        self.assert_no_errors()

    def test_what_failed_is_not_asked_again(self):
        self.choose("max_tokens", "9000")
        self.say("The quick")
        self.await_end()
        self.assertIn("9000 more are requested", self.text(".turn.error"))
        self.choose("max_tokens", "24")
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("lazy dog", count=24))

    def labelled(self, label, within=""):
        return [each for each in self.find(f"{within} button") if each.text == label]

    def test_conversations_are_kept_until_they_are_deleted(self):
        self.choose("max_tokens", "24")
        for text in ("The quick", "lazy dog"):
            self.say(text)
            self.await_end()
            said = self.answer()
            self.find("#clear")[0].click()
            self.assertEqual(self.find(".turn"), [])
        titles = lambda: [each.text for each in self.find(".conversation .title")]
        self.assertEqual(titles(), ["lazy dog", "The quick"])
        self.open_page()
        self.assertEqual(titles(), ["lazy dog", "The quick"])
        self.find(".conversation .title")[0].click()
        self.assertEqual((self.text(".turn.user .content"), self.answer()), ("lazy dog", said))
        self.browser.refresh()  # the open conversation stays open
        self.await_that(lambda: self.find(".turn"), "the conversation")
        self.assertEqual(self.answer(), said)
        self.find(".conversation .delete")[0].click()
        self.browser.switch_to.alert.accept()
        self.assertEqual((titles(), self.find(".turn")), (["The quick"], []))
        self.open_page()
        self.assertEqual(titles(), ["The quick"])
        self.assert_no_errors()

    def test_edit_and_regenerate(self):
        self.choose("max_tokens", "24")
        self.say("The quick")
        self.await_end()
        self.say("lazy dog")
        self.await_end()
        first = self.greedy("The quick", count=24)
        second = self.greedy("The quick", first, "lazy dog", count=24)
        self.assertEqual(self.answer(), second)
        self.labelled("Regenerate")[-1].click()
        self.await_end()
        self.assertEqual(self.answer(), second)
        self.assertEqual(len(self.find(".turn")), 4)
        self.labelled("Edit")[0].click()
        [area] = self.find(".turn textarea")
        area.clear()
        area.send_keys("brown fox")
        self.labelled("Send", ".turn")[0].click()
        self.await_that(lambda: self.text("#send") == "Send" and len(self.find(".turn")) == 2, "a new answer")
        self.assertEqual(self.answer(), self.greedy("brown fox", count=24))
        self.assert_no_errors()

    def render(self, markdown):
        return self.browser.execute_script(
            "const place = document.createElement('div'); renderMarkdown(arguments[0], place); return place.innerHTML", markdown)

    def test_markdown_becomes_elements_and_html_stays_text(self):
        for markdown, html in {
                "# One\n\ntwo **three** *four* `five`": "<h1>One</h1>",
                "**a** and __init__": "<strong>a</strong> and __init__",
                "- a\n- b\n  - c": "<li>b<ul><li>c</li></ul></li>",
                "1. a\n2. b": "<ol start=\"1\"><li>a</li><li>b</li></ol>",
                "```py\nx < 1\n```": "<code>x &lt; 1</code>",
                "```py\nnot closed": "<code>not closed</code>",
                "|a|b|\n|-|-|\n|1|2|": "<td>1</td><td>2</td>",
                "[x](https://a.example)": "rel=\"noopener noreferrer\"",
                "<b>x</b><script>alert(1)</script>": "&lt;b&gt;x&lt;/b&gt;&lt;script&gt;"}.items():
            self.assertIn(html, self.render(markdown))
        for attack in ("[x](javascript:alert(1))", "<img src=x onerror=alert(1)>", "[x](data:text/html,y)", "![x](https://a.example)"):
            made = self.render(attack)
            for bad in ("<img", "<script", "href=\"javascript", "href=\"data"):
                self.assertNotIn(bad, made)
        start = time.monotonic()
        self.render("**" * 20000 + "\n" + "`" * 20000 + "[" * 20000 + "> " * 500)
        self.assertLess(time.monotonic() - start, 20)

    def test_a_key_is_asked_for(self):
        server = Server(self.model, "--api-key=secret")
        self.addCleanup(server.stop)
        self.browser.get(f"http://127.0.0.1:{server.port}/")
        self.await_that(lambda: self.find("#ask-key")[0].is_displayed(), "the question for the key")
        for key, shown in (("wrong", True), ("secret", False)):
            [field] = self.find("#asked-key")
            field.clear()
            field.send_keys(key)
            self.labelled("Use this key")[0].click()
            self.await_that(lambda: ("does not accept" in self.text("#wrong-key")) if shown else "tiny" in self.text("#model"), key)
            self.assertEqual(self.find("#ask-key")[0].is_displayed(), shown)
        self.choose("max_tokens", "8")
        self.say("The quick")
        self.await_end()
        self.assertEqual(self.find(".turn.error"), [])

    def test_it_fits_a_telephone(self):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
        self.open_page()
        self.choose("max_tokens", "24")
        self.say("The quick " * 20)
        self.await_end()
        self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 390)
        self.assertFalse(self.find("#side")[0].is_displayed())
        self.find("#menu")[0].click()
        self.await_that(lambda: self.find(".conversation .title")[0].is_displayed(), "the list")
        self.browser.execute_script("document.querySelector('#shade').click()")
        self.await_that(lambda: not self.find("#side")[0].is_displayed(), "the page without the list")

    def test_a_page_whose_name_was_made_to_mean_this_machine_cannot_use_the_server(self):
        """DNS rebinding: for the browser, evil.example is this machine."""
        self.browser.quit()
        self.browser = self.start_browser("--host-resolver-rules=MAP evil.example 127.0.0.1")
        self.browser.get(f"http://evil.example:{self.server.port}/")
        self.assertIn("not a name of this server", self.browser.page_source)
        status = self.browser.execute_async_script("""
            const done = arguments[0];
            fetch("/v1/completions", {method: "POST", headers: {"Content-Type": "application/json"},
                                      body: JSON.stringify({prompt: "a", max_tokens: 1})})
              .then(answer => done(answer.status)).catch(error => done(String(error)))""")
        self.assertEqual(status, 403)

    def test_new_during_an_answer_begins_anew(self):
        self.begin_a_long_answer()
        self.find("#clear")[0].click()
        self.await_end()
        self.assertEqual(self.find(".turn"), [])
        self.choose("max_tokens", "24")
        self.say("lazy dog")
        self.await_end()
        self.assertEqual(self.answer(), self.greedy("lazy dog", count=24))
        self.assert_no_errors()


if __name__ == "__main__":
    unittest.main()
