"""A checkpoint is a Hugging Face folder as it stands."""
import json
import os
import subprocess
import unittest

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen2Config

from harness import COLOSSAL, SHIM, EndToEndTest


class HuggingFace(EndToEndTest):
    def test_transformers_opens_it(self):
        self.check_opening()

    def test_transformers_opens_a_llama(self):
        self.use("llama-tiny")
        self.check_opening("--model.rope_theta=100")

    def test_transformers_opens_what_began_as_its_own(self):
        """Every setting of the folder counts: with another rotary scaling or without biases the loss
        would be another."""
        sizes = dict(vocab_size=257, hidden_size=48, intermediate_size=50, num_hidden_layers=2,
                     num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
                     initializer_range=0.5)
        llama3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
                      high_freq_factor=4.0, original_max_position_embeddings=16)
        for config in (LlamaConfig(**sizes, rope_parameters=llama3, tie_word_embeddings=True),
                       Qwen2Config(**sizes, rope_parameters=dict(rope_type="default", rope_theta=1e6))):
            with self.subTest(config.model_type):
                folder = self.directory / config.model_type
                AutoModelForCausalLM.from_config(config).save_pretrained(folder)
                self.use_folder(folder)
                self.check_opening(name=config.model_type)

    def test_attention_stays_within_files(self):
        """transformers computes the same with a mask that hides the other files."""
        for index, text in enumerate(["def a():\n    return 1\n", "x = 2\n", "", "import os\n" * 9, "y\n"]):
            (self.directory / f"{index}.txt").write_text(text)
        files = sorted(self.directory.glob("?.txt"))
        self.train(*self.flags(), "--train.steps=3", "--precision.compute=fp32", "--parallel.sp=2",
                   f"--data.validation={self.directory}/?.txt", "--data.separate_documents=true", ranks=2)
        model = AutoModelForCausalLM.from_pretrained(self.newest())
        stream = [token for file in files if file.read_bytes()
                  for token in [*file.read_bytes(), 256]][:-1]
        length = (len(stream) - 1) // 32 * 32
        rows = torch.tensor(stream[:length]).view(-1, 32)
        labels = torch.tensor(stream[1:length + 1])
        ends = (rows == 256).long()
        documents = ends.cumsum(1) - ends
        self.assertGreater(documents.max(), 1)
        sees = (documents[:, None, :, None] == documents[:, None, None, :]).tril()
        def loss(**mask):
            with torch.no_grad():
                return torch.nn.functional.cross_entropy(model(rows, **mask).logits.flatten(0, 1), labels).item()
        expected = loss(attention_mask=torch.where(sees, 0.0, torch.finfo(torch.float32).min))
        self.assertAlmostEqual(self.metrics()[3]["validation_loss"], expected, delta=1e-5 * expected)
        self.assertNotAlmostEqual(loss(), expected, delta=1e-4 * expected)

    def check_opening(self, *model, name="run"):
        self.train(*self.flags(name), *model, "--train.steps=3", "--precision.compute=fp32",
                   f"--data.validation={self.toml}", ranks=2)
        folder = self.newest(name)
        model = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        text = "def naïve(): return 'ß' # \U0001f600\n"
        ids = tokenizer(text, return_tensors="pt").input_ids
        self.assertEqual(ids[0].tolist(), list(text.encode()))
        # Its loss on a text is the one that the run measured on the same text.
        data = torch.tensor([list(self.toml.read_bytes())])
        length = (data.shape[1] - 1) // 32 * 32
        rows = data[:, :length].view(-1, 32)
        labels = data[:, 1:length + 1].view(-1, 32)
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(model(rows).logits.flatten(0, 1), labels.flatten())
        self.assertAlmostEqual(self.metrics(name)[3]["validation_loss"], loss.item(), delta=1e-5 * loss.item())

    def test_generate_continues_the_text_as_transformers_does(self):
        self.check_generation()

    def test_generate_continues_with_a_llama(self):
        self.use("llama-tiny")
        self.check_generation()

    def check_generation(self):
        self.train(*self.flags(), "--train.steps=3", "--precision.compute=fp32")
        folder = self.newest()
        prompt = "import json\n"
        done = subprocess.run([COLOSSAL, "generate", folder, f"--prompt={prompt}", "--temperature=0",
                               "--max-new-tokens=20"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
        ids = torch.tensor([list(prompt.encode())])
        expected = model.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=256)[0].tolist()
        text = bytes(token for token in expected if token < 256)
        self.assertEqual(done.stdout.rstrip(b"\n").decode(errors="replace"),
                         text.rstrip(b"\n").decode(errors="replace"))

    def test_config_and_state_say_what_was_run(self):
        self.train(*self.flags(), "--train.steps=2", ranks=2)
        state = json.loads((self.newest() / "training_state/state.json").read_text())
        self.assertEqual(state["step"], 2)
        self.assertEqual(state["ranks"], 2)
        config = json.loads((self.newest() / "config.json").read_text())
        self.assertEqual(config["model_type"], "gpt2")
        self.assertEqual(config["eos_token_id"], 256)

    def test_a_slow_disk_holds_no_step_up(self):
        """Files of step 2 take two seconds more to sync; the steps after it do not."""
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000002",
                       "COLOSSAL_FAULTS": "fsync:3=slow"}
        self.train(*self.flags("slow"), "--train.steps=6", "--checkpoint.every=2", ranks=2,
                   env=environment)
        metrics = self.metrics("slow")
        self.assertLess(max(metrics[step]["step_seconds"] for step in (3, 4)), 1.5)
        self.assertEqual(self.newest("slow").name, "step-000006")

    def test_no_step_changes_what_a_save_still_reads(self):
        """Writes of step 2 take two seconds more: its weights are those of step 2 all the same."""
        self.train(*self.flags("short"), "--train.steps=2", ranks=2)
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000002",
                       "COLOSSAL_FAULTS": "write:12=slow"}
        self.train(*self.flags("slow"), "--train.steps=4", "--checkpoint.every=2", ranks=2,
                   env=environment)
        self.assert_same_weights(self.directory / "slow" / "checkpoints" / "step-000002",
                                 self.newest("short"))


if __name__ == "__main__":
    unittest.main()
