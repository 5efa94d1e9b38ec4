"""Adapters by request: `colossal serve --adapter`, and loading and unloading while it runs."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request

import openai
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness import COLOSSAL, EndToEndTest
from serve_test import Server, make_model

TARGETS = {"a": (["q_proj", "v_proj", "down_proj"], 3), "b": ("all-linear", 8), "c": (["gate_proj", "k_proj"], 2)}
WITH_MAGNITUDES = {"c"}  # DoRA


def make_adapter(model, folder, targets, rank, seed, dora=False):
    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    adapted = get_peft_model(base, LoraConfig(r=rank, lora_alpha=4 * rank, target_modules=targets, use_dora=dora,
                                              init_lora_weights=False, task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "magnitude" in name:
            parameter.data *= 1 + torch.rand_like(parameter)
    adapted.save_pretrained(folder)


class ServeAdapters(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="colossal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.model = cls.root / "model"
        make_model(cls.model)
        for seed, (name, (targets, rank)) in enumerate(TARGETS.items()):
            make_adapter(cls.model, cls.root / name, targets, rank, seed, name in WITH_MAGNITUDES)
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.model)
        cls.server = Server(cls.model, f"--adapter=a={cls.root / 'a'}", f"--adapter=b={cls.root / 'b'}",
                            "--allow-adapter-loading", "--max-adapters=4")
        cls.addClassCleanup(cls.server.stop)
        cls.client = cls.server.client()

    def expected(self, name, prompt, count=24):
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        if name != "tiny":
            model = PeftModel.from_pretrained(model, self.root / name)
        ids = self.tokenizer(prompt, return_tensors="pt").input_ids
        made = model.generate(ids, max_new_tokens=count, do_sample=False)[0, ids.shape[1]:].tolist()
        return [token for token in made if token != self.tokenizer.eos_token_id]

    def complete(self, name, prompt, count=24, server=None, **options):
        client = server.client() if server else self.client
        answer = client.completions.create(model=name, prompt=prompt, max_tokens=count, temperature=0,
                                           extra_body={"return_token_ids": True}, **options)
        self.assertEqual(answer.model, name)
        return answer.choices[0].token_ids

    def post(self, path, body, server=None):
        request = urllib.request.Request(f"http://127.0.0.1:{(server or self.server).port}{path}",
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["error"]["message"]

    def load(self, name, folder, **more):
        return self.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder), **more})

    def unload(self, name):
        return self.post("/v1/unload_lora_adapter", {"lora_name": name})

    def test_each_gets_peft_s_tokens_alone_and_beside_others(self):
        cases = [(name, prompt) for name in ("tiny", "a", "b") for prompt in ("The quick", "naïve", "lazy dog.")]
        expected = {case: self.expected(*case) for case in cases}
        self.assertEqual(len({tuple(tokens) for tokens in expected.values()}), len(cases))
        for case in cases:
            self.assertEqual(self.complete(*case), expected[case], case)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for _ in range(3):
                for case, tokens in zip(cases, pool.map(lambda case: self.complete(*case), cases)):
                    self.assertEqual(tokens, expected[case], case)
        merged = self.root / "merged"
        subprocess.run([str(COLOSSAL), "convert", str(self.model), str(merged), f"--merge-adapter={self.root / 'b'}"],
                       check=True, capture_output=True)
        server = Server(merged)
        try:
            for name, prompt in cases:
                if name == "b":
                    self.assertEqual(self.complete("tiny", prompt, server=server), expected[name, prompt])
        finally:
            server.stop()

    def test_over_ranks_also_after_one_was_killed(self):
        cases = [(name, prompt) for name in ("tiny", "a", "b") for prompt in ("The quick", "lazy dog.")]
        expected = {case: self.expected(*case) for case in cases}
        for layout in ("tp", "pp"):
            server = Server(self.model, f"--adapter=a={self.root / 'a'}", f"--adapter=b={self.root / 'b'}", "--ranks=2",
                            f"--parallel.{layout}=2", "--allow-adapter-loading")
            self.addCleanup(server.stop)
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                for case, tokens in zip(cases, pool.map(lambda case: self.complete(*case, server=server), cases)):
                    self.assertEqual(tokens, expected[case], (layout, case))
            children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
            self.assertTrue(children)
            os.kill(int(children[0]), signal.SIGKILL)
            body = {"model": "a", "prompt": "The quick", "max_tokens": 24, "temperature": 0}
            deadline = time.monotonic() + 30
            while self.post("/v1/completions", body, server)[0] != 200:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.assertEqual(self.complete("b", "lazy dog.", server=server), expected["b", "lazy dog."])
            self.assertEqual(self.post("/v1/load_lora_adapter",
                                       {"lora_name": "c", "lora_path": str(self.root / "c")}, server)[0], 200)
            self.assertEqual(self.complete("c", "naïve", server=server), self.expected("c", "naïve"))

    def test_a_gguf_file_with_an_adapter_in_it_is_served(self):
        file = self.directory / "merged.gguf"
        subprocess.run([str(COLOSSAL), "convert", str(self.model), str(file), f"--merge-adapter={self.root / 'b'}",
                        "--type=f32"], check=True, capture_output=True)
        temporary = self.directory / "temporary"
        temporary.mkdir()
        with unittest.mock.patch.dict("os.environ", {"TMPDIR": str(temporary)}):
            server = Server(file)
            self.addCleanup(server.stop)
            generated = subprocess.run(
                [str(COLOSSAL), "generate", str(file), "--prompt=The quick", "--temperature=0", "--max-new-tokens=24"],
                check=True, capture_output=True, text=True).stdout
        for prompt in ("The quick", "naïve"):
            self.assertEqual(self.complete("tiny", prompt, server=server), self.expected("b", prompt))
        self.assertEqual(generated, "The quick" + self.tokenizer.decode(
            self.expected("b", "The quick"), clean_up_tokenization_spaces=False, skip_special_tokens=True) + "\n")
        self.assertEqual(list(temporary.iterdir()), [])
        missing = subprocess.run([str(COLOSSAL), "generate", f"{file}.gguf", "--prompt=a"], capture_output=True, text=True)
        self.assertEqual(missing.returncode, 2)
        self.assertIn("no such file", missing.stderr)

    def test_the_list_of_models_has_them(self):
        models = {model.id: model for model in self.client.models.list()}
        self.assertLessEqual({"tiny", "a", "b"}, set(models))
        self.assertEqual((models["a"].parent, models["a"].root), ("tiny", str(self.root / "a")))
        self.assertEqual(self.client.models.retrieve("b").id, "b")
        with self.assertRaisesRegex(openai.NotFoundError, '"tiny", "a", "b"'):
            self.complete("d", "x")

    def test_loading_and_unloading_under_load(self):
        """200 times, beside requests of other adapters, whose tokens stay what they were."""
        expected = {name: self.complete(name, "The quick") for name in ("tiny", "a", "b")}
        c = self.expected("c", "The quick")
        stop = False

        def others(name):
            rounds = 0
            while not stop:
                self.assertEqual(self.complete(name, "The quick"), expected[name])
                rounds += 1
            return rounds

        def resident():
            status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0]) / 1024

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            running = [pool.submit(others, name) for name in expected]
            sizes = []
            for cycle in range(200):
                self.assertEqual(self.load("c", self.root / "c")[0], 200)
                if cycle % 20 == 0:
                    self.assertEqual(self.complete("c", "The quick"), c)
                    # Unloaded while it answers: it goes on with what it began with.
                    stream = self.client.completions.create(model="c", prompt="The quick", max_tokens=200, stream=True,
                                                            temperature=0, extra_body={"return_token_ids": True})
                    first = next(iter(stream))
                self.assertEqual(self.unload("c")[0], 200)
                if cycle % 20 == 0:
                    tokens = first.choices[0].token_ids + [
                        token for event in stream for token in event.choices[0].token_ids or []]
                    self.assertEqual(tokens[:len(c)], c)
                    sizes.append(resident())
            stop = True
            self.assertTrue(all(each.result() > 0 for each in running))
        self.assertLess(sizes[-1] - sizes[1], 8, sizes)
        with self.assertRaises(openai.NotFoundError):
            self.complete("c", "x")

    def test_another_adapter_under_the_same_name_shares_nothing_with_it(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 3
        self.assertEqual(self.load("same", self.root / "a")[0], 200)
        self.assertEqual(self.complete("same", prompt), self.expected("a", prompt))
        status, message = self.load("same", self.root / "b")
        self.assertEqual(status, 400)
        self.assertIn("is loaded already", message)
        self.assertEqual(self.load("same", self.root / "b", load_inplace=True)[0], 200)
        self.assertEqual(self.complete("same", prompt), self.expected("b", prompt))
        self.assertEqual(self.load("fourth", self.root / "c")[0], 200)
        self.assertIn("--max-adapters", self.load("fifth", self.root / "c")[1])
        self.assertEqual((self.unload("same")[0], self.unload("fourth")[0], self.unload("same")[0]), (200, 200, 404))

    def test_bad_adapters_are_refused_by_what_is_wrong(self):
        def broken(change, config=None):
            folder = self.directory / "broken"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.root / "a", folder)
            tensors = load_file(folder / "adapter_model.safetensors")
            change(tensors)
            save_file(tensors, folder / "adapter_model.safetensors")
            if config:
                path = folder / "adapter_config.json"
                path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
            status, message = self.load("broken", folder)
            self.assertEqual(status, 400)
            return message

        name = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"
        self.assertIn("the model needs [48, 3]", broken(lambda tensors: tensors.update({name: torch.zeros(3, 3)})))
        self.assertIn("lora_B", broken(lambda tensors: tensors.pop(name)))
        self.assertIn("not a layer of the model", broken(lambda tensors: tensors.update(
            {name.replace("q_proj", "x_proj"): torch.zeros(48, 3)})))
        self.assertIn("not finite", broken(lambda tensors: tensors[name].fill_(float("nan"))))
        self.assertIn("use_dora", broken(lambda tensors: None, {"use_dora": True}))
        self.assertIn("r", broken(lambda tensors: None, {"r": 5}))
        self.assertIn("requests share these modules", broken(
            lambda tensors: tensors.update({"base_model.model.model.norm.weight": torch.ones(48)}),
            {"modules_to_save": ["norm"]}))
        self.assertIn("no adapter", self.load("broken", self.directory)[1])
        self.assertIn("name of the model", self.load("tiny", self.root / "a")[1])
        self.assertIn("lora_path is missing", self.load("broken", "")[1])
        self.assertEqual(self.complete("a", "The quick"), self.expected("a", "The quick"))
        closed = Server(self.model)
        try:
            status, message = self.post("/v1/load_lora_adapter", {"lora_name": "a", "lora_path": "a"}, closed)
            self.assertEqual(status, 403)
            self.assertIn("--allow-adapter-loading", message)
        finally:
            closed.stop()
        for flags, message in [(["--adapter=a"], "NAME=DIR"), ([f"--adapter=a={self.directory}"], "no adapter"),
                               ([f"--adapter=a={self.root / 'a'}", f"--adapter=a={self.root / 'b'}"], "already in use")]:
            done = subprocess.run([str(COLOSSAL), "serve", str(self.model), "--port=0", *flags], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
