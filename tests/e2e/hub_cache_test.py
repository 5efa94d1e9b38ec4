"""Models in the cache of the Hugging Face Hub: every command takes the name of a model that has been downloaded."""
import hashlib
import json
import os
import subprocess
import unittest

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness import COLOSSAL, TINY, EndToEndTest

TEXT = "import json\nfor name in names:\n    print('naïve', name, 1234)\n" * 4


class HubCache(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.cache = self.directory / "cache"
        self.text = self.directory / "text.txt"
        self.text.write_text(TEXT)
        folder = self.directory / "model"
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator([TEXT], vocab_size=290, special_tokens=["<|endoftext|>"], show_progress=False)
        PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)
        torch.manual_seed(1)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=trained.get_vocab_size(), hidden_size=48, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3))
        model.save_pretrained(folder)
        self.download(folder, "Org/tiny")
        get_peft_model(model, LoraConfig(init_lora_weights=False, target_modules=["q_proj"])).save_pretrained(
            self.directory / "lora")
        self.download(self.directory / "lora", "Org/tiny-lora")
        self.folder = folder

    def download(self, folder, name):
        """Puts a folder into the cache as `hf download` does."""
        repository = self.cache / f"models--{name.replace('/', '--')}"
        snapshot = repository / "snapshots" / "abc123"
        snapshot.mkdir(parents=True)
        (repository / "blobs").mkdir()
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc123")
        for path in folder.iterdir():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            (repository / "blobs" / digest).write_bytes(path.read_bytes())
            os.symlink(f"../../blobs/{digest}", snapshot / path.name)

    def call(self, *arguments, code=0):
        environment = {**os.environ, "HF_HUB_CACHE": str(self.cache)}
        done = subprocess.run([COLOSSAL, *map(str, arguments)], capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def evaluate(self, model, *flags):
        return json.loads(self.call("evaluate", model, "--data", self.text, "--json", "--train.threads=1", *flags))["loss"]

    def test_every_command_takes_the_name_of_a_downloaded_model(self):
        plain = self.evaluate(self.folder)
        self.assertEqual(self.evaluate("Org/tiny"), plain)
        self.assertEqual(self.evaluate("Org/tiny@abc123"), plain)
        adapted = self.evaluate("Org/tiny", "--adapter=Org/tiny-lora")
        self.assertNotEqual(adapted, plain)
        self.assertEqual(adapted, self.evaluate(self.folder, f"--adapter={self.directory / 'lora'}"))
        self.call("generate", "Org/tiny", "--prompt=for", "--max-new-tokens=2", "--train.threads=1")
        self.call("convert", "Org/tiny", self.directory / "merged", "--merge-adapter=Org/tiny-lora")
        self.assertAlmostEqual(self.evaluate(self.directory / "merged"), adapted, places=5)
        self.call("convert", "Org/tiny", self.directory / "model.gguf")
        run = self.directory / "empty.toml"
        run.write_text("")
        flags = ["--model.path=Org/tiny", f"--data.train={self.text}", "--train.steps=1", *TINY]
        self.call("plan", run, *flags)
        self.call("train", run, *flags, f"--checkpoint.directory={self.directory / 'run'}",
                  f"--log.directory={self.directory / 'log'}")
        self.assertTrue((self.directory / "run" / "step-000001" / "config.json").exists())

    def test_a_model_that_is_missing_is_named_with_the_command_that_downloads_it(self):
        for command in (["generate", "Qwen/Qwen3-8B", "--prompt=x"], ["serve", "Qwen/Qwen3-8B"],
                        ["evaluate", "Qwen/Qwen3-8B", f"--data={self.text}"],
                        ["evaluate", "Org/tiny", "--adapter=Qwen/Qwen3-8B", f"--data={self.text}"],
                        ["convert", "Qwen/Qwen3-8B", self.directory / "new"]):
            said = self.call(*command, code=2)
            self.assertIn("hf download Qwen/Qwen3-8B", said)


if __name__ == "__main__":
    unittest.main()
