"""Bad input gets a clear error that names what was asked, what was found and what would work."""
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

import torch
from safetensors.torch import save_file

from harness import COLOSSAL, CORPUS, SHIM, EndToEndTest


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Refusals(EndToEndTest):
    def refuse(self, *words, flags=(), ranks=1, code=2):
        """The run ends with `code` and says all the words, once."""
        log = self.train(*self.flags(), "--train.steps=1", *flags, ranks=ranks, expect=code, timeout=60)
        for word in words:
            self.assertIn(word, log)
        errors = [line for line in log.splitlines() if "error:" in line]
        self.assertLessEqual(len(errors), 1, log)
        self.assertNotIn("terminate called", log)

    def test_unknown_key_names_the_nearest(self):
        self.refuse("train.stpes", "train.steps", flags=["--train.stpes=3"])
        self.refuse("model.n_layrs", "model.n_layer", flags=["--model.n_layrs=3"])
        self.toml.write_text(self.toml.read_text() + "[train]\nlerning_rate = 1\n")
        self.refuse("run.toml:6", "train.lerning_rate", "optimizer.learning_rate")

    def test_wrong_type(self):
        self.refuse("train.steps", "many", "a whole number", flags=["--train.steps=many"])
        self.refuse("optimizer.betas", flags=["--optimizer.betas=0.9"])
        self.refuse("precision.compute", "fp32", flags=["--precision.compute=fp23"])

    def test_ranks(self):
        self.refuse("--ranks=0", ranks=0)
        self.refuse("--ranks=-2", ranks=-2)

    def test_sizes_that_do_not_multiply(self):
        self.refuse("parallel.dp = 3", "there are 2", "nearest: parallel.dp = 2", flags=["--parallel.dp=3"], ranks=2)
        self.refuse("not a multiple of pp 3", "parallel.pp = 2 (dp = 1)", flags=["--parallel.pp=3"], ranks=2)
        self.refuse("parallel.tp = 4", "2 heads", "parallel.tp = 2 (dp = 2)", flags=["--parallel.tp=4"], ranks=4)
        self.refuse("parallel.zero = 4", "zero = 3", flags=["--parallel.zero=4"])

    def test_a_budget_that_is_too_small(self):
        """Every rank would fail; it is said once, before a corpus is read."""
        self.refuse("memory.device_budget = 1010KiB", "too many", "\n  memory.recompute = \"full\": ",
                    flags=["--precision.compute=fp32", "--memory.device_budget=1010KiB",
                           "--data.train=/nowhere/*"], ranks=2)

    def test_more_ranks_than_the_host_has_memory_for(self):
        self.refuse("leave no memory for tensors", "128 MiB", flags=["--train.global_batch=100000"],
                    ranks=100_000)

    def test_a_setting_of_the_model_is_named_where_it_was_given(self):
        self.toml.write_text(self.toml.read_text().replace("[data]", 'n_inner = "one"\n[data]'))
        self.refuse('run.toml:3: model.n_inner = "one": expected a whole number from 1 to ')

    def test_batch_that_does_not_divide(self):
        self.refuse("global_batch = 13", "dp = 3", "nearest: train.global_batch = 12",
                    flags=["--train.global_batch=13"], ranks=3)

    def test_missing_and_empty_corpus(self):
        self.refuse("/nowhere/*.txt", flags=["--data.train=/nowhere/*.txt"], ranks=2)
        empty = self.directory / "empty.txt"
        empty.touch()
        self.refuse("empty", flags=[f"--data.train={empty}"])
        short = self.directory / "short.txt"
        short.write_text("ten bytes.")
        self.refuse("10", "32", flags=[f"--data.train={short}"])

    def test_text_that_is_not_utf8(self):
        from tokenizers import ByteLevelBPETokenizer
        tokenizer = ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(["def f(): return 1\n" * 50], vocab_size=256,
                                      special_tokens=["<|endoftext|>"], show_progress=False)
        tokenizer.save(str(self.directory / "tokenizer.json"))
        bad = self.directory / "bad.txt"
        bad.write_bytes(b"x" * 100 + b"\xff" + b"y" * 100)
        flags = [f"--data.tokenizer={self.directory / 'tokenizer.json'}", f"--data.train={bad}",
                 "--model.vocab_size=300"]
        self.refuse("bad.txt", "100", "skip", flags=flags)
        flags[1] = f"--data.train={bad},{CORPUS}"
        self.train(*self.flags(), "--train.steps=1", *flags, "--data.invalid=skip")

    def test_sequence_longer_than_positions(self):
        self.refuse("data.sequence_length = 65", "64", flags=["--data.sequence_length=65"])

    def test_vocabulary_smaller_than_the_tokenizers(self):
        self.refuse("257", "200", "model.vocab_size", flags=["--model.vocab_size=200"])

    def test_tokenizer_of_an_unsupported_kind(self):
        path = self.directory / "tokenizer.json"
        path.write_text(json.dumps({"model": {"type": "WordLevel", "vocab": {}}}))
        self.refuse("WordLevel", flags=[f"--data.tokenizer={path}"])

    def test_read_only_output_directory(self):
        """Root may write anywhere that is not mounted read-only: /proc is as good as read-only."""
        self.refuse("/proc/colossal", "log.directory",
                    flags=["--log.directory=/proc/colossal"], code=1)

    def test_a_last_save_that_fails(self):
        environment = {**os.environ, "LD_PRELOAD": str(SHIM), "COLOSSAL_FAULT_PATH": "step-000001",
                       "COLOSSAL_FAULTS": "fsync:1+=EIO"}
        log = self.train(*self.flags(), "--train.steps=1", expect=1, env=environment)
        self.assertIn("Input/output error", log)
        self.assertIn("the last checkpoint was not saved", log)

    def test_another_models_checkpoint(self):
        self.train(*self.flags(), "--train.steps=1")
        self.refuse("another model", "n_layer = 1 here, 2 there", flags=["--model.n_layer=1"])

    def test_must_resume(self):
        self.refuse("must", "no whole checkpoint", flags=["--checkpoint.resume=must"])

    def test_non_finite_loss(self):
        log = self.train(*self.flags(), "--train.steps=20", "--optimizer.learning_rate=1e30",
                         "--train.gradient_clip=0", ranks=2, expect=1)
        self.assertRegex(log, r"step \d+: .*not finite")
        self.assertTrue(self.newest())  # the state before that step

    def test_after_a_divergence_the_way_on_is_told(self):
        # The first 2 steps are sound; then the rate is absurd.
        self.train(*self.flags(), "--train.steps=2", "--checkpoint.every=1", "--checkpoint.keep=9")
        absurd = [*self.flags(), "--train.steps=20", "--optimizer.learning_rate=1e30", "--train.gradient_clip=0",
                  "--checkpoint.keep=9"]
        log = self.train(*absurd, expect=1)
        newest = self.newest()
        older = newest.parent / "step-000002"
        self.assertNotEqual(newest, older)
        self.assertIn(f"the newest checkpoint, {newest}, is from just before step", log)
        found = re.search(r"To go on from the older checkpoint (\S+), move the newest away \((mv \S+ \S+)\)", log)
        self.assertEqual(found[1], str(older))
        self.assertIn("is not finite", self.train(*absurd, expect=1))  # the same again
        subprocess.run(found[2].split(), check=True)
        self.train(*self.flags(), "--train.steps=4", "--optimizer.learning_rate=1e-3", "--checkpoint.keep=9")
        self.assertEqual(self.newest().name, "step-000004")

    def test_a_missing_file_and_bad_toml(self):
        done = subprocess.run([COLOSSAL, "train", "/nowhere.toml"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere.toml", done.stderr)
        self.toml.write_text("[train\n")
        self.refuse("run.toml:1")

    def test_no_such_command(self):
        done = subprocess.run([COLOSSAL, "trian"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("trian: no such command; nearest: train; the commands are train, tune, plan, generate", done.stderr)
        for words in (["tune", "foo", "run.toml"], ["tune", "run.toml"], ["tune"]):
            done = subprocess.run([COLOSSAL, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("the methods are sft, ", done.stderr)

    def test_no_such_option(self):
        for command, option, nearest in (
                ("generate", "--max-tokens=5", "--max-new-tokens"), ("generate", "--num_beams=2", "--num-beams"),
                ("generate", "--prompts=x", "--prompt"), ("generate", "--temp=0", "--temperature"),
                ("serve", "--max-seqs=3", "--max-num-seqs"), ("serve", "--tp=2", "--parallel.tp=VALUE"),
                ("evaluate", "--seq-length=8", "--sequence-length"), ("classify", "--batch-size=8", "--batch"),
                ("train", "--steps=5", "--train.steps=VALUE"), ("train", "--rank=2", "--ranks"),
                ("plan", "--pages=x", "--page"), ("convert", "--merge=x", "--merge-adapter")):
            with self.subTest(command=command, option=option):
                words = [command, self.directory, *(["y"] if command == "convert" else []), option]
                if command == "evaluate":
                    words.append("--data=x")
                done = subprocess.run([COLOSSAL, *words], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"nearest: {nearest}\n", done.stderr)

    def test_numbers_and_durations(self):
        for words, said in ((["resize", "x", "abc"], "ranks = abc: must be a whole number"),
                            (["generate", self.directory, "--prompt=x", "--top-k=many"],
                             "--top-k = many: must be a whole number"),
                            (["generate", self.directory, "--prompt=x", "--temperature=hot"],
                             "--temperature = hot: must be a number")):
            done = subprocess.run([COLOSSAL, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        for value in ("8", "8s", '"8s"', "8000ms"):
            for key in ("parallel.timeout", "tune.reward_timeout"):
                done = subprocess.run([COLOSSAL, "tune", "grpo", self.toml, f"--{key}={value}", "--tune.reward=length",
                                       "--model.preset=", "--model.path=/nowhere"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertIn("/nowhere", done.stderr)
                self.assertNotIn(key, done.stderr)

    def test_missing_files_are_bad_usage(self):
        for words in (["generate", "/nowhere", "--prompt=x"], ["serve", "/nowhere"], ["evaluate", "/nowhere", "--data=x"],
                      ["classify", "/nowhere", "--text=x"], ["convert", "/nowhere", "/tmp/x.gguf"], ["train", "/nowhere"],
                      ["train", self.toml, "--data.train=/nowhere"], ["train", self.toml, "--data.tokenizer=/nowhere"],
                      ["train", self.toml, "--model.preset=", "--model.path=/nowhere"], ["plan", "/nowhere"],
                      ["tune", "sft", "/nowhere"], ["resize", "/nowhere", "2"]):
            with self.subTest(words=words):
                done = subprocess.run([COLOSSAL, *map(str, words)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("/nowhere", done.stderr)

    def test_absurd_numbers(self):
        self.refuse("train.global_batch=9223372036854775807: must be between 1 and 16777216",
                    flags=["--train.global_batch=9223372036854775807"])
        self.refuse("train.seed=18446744073709551615: must be between -9223372036854775808 and 9223372036854775807",
                    flags=["--train.seed=18446744073709551615"])
        self.refuse("--ranks=2000000", "1048576", ranks=2000000)

    def test_settings_that_do_not_go_together(self):
        self.refuse("log.profile = 3", "log.directory", flags=["--log.directory=", "--log.profile=3"])
        self.refuse("train.evaluate_every = 2", "data.validation", flags=["--train.evaluate_every=2"])
        self.refuse("scheduler.warmup_steps = 5", "train.steps = 1", flags=["--scheduler.warmup_steps=5"])
        self.refuse('adapter.rank without adapter.kind, whose default is "none"', 'add adapter.kind = "lora"',
                    flags=["--adapter.rank=8"])

    def test_settings_without_effect_are_told_once(self):
        flags = [*self.flags(checkpoints=False), "--train.steps=1", "--parallel.sp_mode=ulysses"]
        log = self.train(*flags, ranks=2)
        self.assertEqual(log.count('parallel.sp_mode = "ulysses" has no effect: parallel.sp is 1'), 1, log)
        plan = subprocess.run([COLOSSAL, "plan", self.toml, *flags], capture_output=True, text=True)
        self.assertIn("parallel.sp_mode", plan.stderr)

    def test_a_corpus_that_is_a_pipe(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        self.refuse(f"'{pipe}' is a pipe", "regular files", flags=[f"--data.train={pipe}"])


class BadModelFolders(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.train(*self.flags(), "--train.steps=1", "--precision.compute=fp32")
        self.model = self.directory / "model"
        self.model.mkdir()
        source = self.newest()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(source / name, self.model)
        self.tensors = {k: v for k, v in self.weights(source).items() if k.startswith("transformer")}
        self.toml.write_text(f'[model]\npath = "{self.model}"\n[data]\ntrain = ["{CORPUS}"]\n')

    def refuse(self, *words):
        for command in (["generate", str(self.model), "--prompt=x", "--max-new-tokens=1"],
                        ["train", str(self.toml), "--train.steps=1", "--data.sequence_length=8",
                         "--train.global_batch=2"]):
            done = subprocess.run([COLOSSAL, *command], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertNotIn("terminate", done.stderr)

    def write(self, contents):
        (self.model / "model.safetensors").write_bytes(contents)

    def test_good_weights_are_taken(self):
        save_file(self.tensors, self.model / "model.safetensors", {"format": "pt"})
        self.train("--train.steps=1", "--data.sequence_length=8", "--train.global_batch=2")

    def test_lying_safetensors(self):
        entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
        cases = {
            "truncated": safetensors({"a": entry}, b"\0" * 8),
            "empty": b"",
            "length": struct.pack("<Q", 2**60) + b"{}",
            "outside": safetensors({"a": {**entry, "data_offsets": [0, 1600]}}, b"\0" * 16),
            "overlap": safetensors({"a": entry, "b": entry}, b"\0" * 16),
            "size": safetensors({"a": {**entry, "shape": [5]}}, b"\0" * 16),
            "huge": safetensors({"a": {**entry, "shape": [2**60, 2**60]}}, b"\0" * 16),
            "twice": safetensors(b'{"a":%s,"a":%s}' % ((json.dumps(entry).encode(),) * 2), b"\0" * 16),
        }
        for name, contents in cases.items():
            with self.subTest(name):
                self.write(contents)
                self.refuse("model.safetensors")

    def test_a_tensor_missing_or_of_another_shape(self):
        broken = dict(self.tensors)
        del broken["transformer.h.1.mlp.c_fc.bias"]
        save_file(broken, self.model / "model.safetensors")
        self.refuse("transformer.h.1.mlp.c_fc.bias")
        broken["transformer.h.1.mlp.c_fc.bias"] = torch.zeros(7)
        save_file(broken, self.model / "model.safetensors")
        self.refuse("transformer.h.1.mlp.c_fc.bias", "[7]", "[128]")

    def test_shards_that_leave_the_directory(self):
        save_file(self.tensors, self.directory / "outside.safetensors")
        for name in ("../outside.safetensors", str(self.directory / "outside.safetensors")):
            index = {"weight_map": {tensor: name for tensor in self.tensors}}
            (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
            self.refuse("outside.safetensors")

    def test_a_folder_without_a_config(self):
        (self.model / "config.json").unlink()
        self.refuse(f"no {self.model}/config.json: a model's folder holds")

    def test_a_head_that_is_missing(self):
        """It has one name only, with the rest of the model and without."""
        save_file(self.tensors, self.model / "model.safetensors")
        path = self.model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "tie_word_embeddings": False}))
        self.refuse('no tensor "lm_head.weight"; the weights are of another model')

    def test_weights_of_a_type_that_is_not_read(self):
        name = "transformer.h.0.ln_1.weight"
        save_file({**self.tensors, name: self.tensors[name].to(torch.float8_e4m3fn)},
                  self.model / "model.safetensors")
        self.refuse(f"{self.model}/model.safetensors", name, "F8_E4M3")

    def test_config_with_missing_absurd_or_unknown_fields(self):
        save_file(self.tensors, self.model / "model.safetensors")
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        for change, words in [({"n_head": None}, ["n_head"]), ({"n_layer": 10**12}, ["n_layer", "4096"]),
                              ({"n_embd": -1}, ["n_embd"]), ({"model_type": "pegasus"}, ["pegasus", "gpt2"])]:
            path.write_text(json.dumps({**config, **change}))
            self.refuse(*words)
        path.write_text("{")
        self.refuse("config.json")

    def test_generate_takes_tiers_as_a_run_does(self):
        save_file(self.tensors, self.model / "model.safetensors", {"format": "pt"})
        here = f"--memory.nvme_path={self.directory}"
        for flags, words in (
                (["--memory.offload_parameters=nvme"], ["memory.nvme_path", '"host"']),
                (["--memory.offload_parameters=nvme", "--memory.nvme_path=/proc"], ["/proc"]),
                (["--memory.offload_parameters={host = 0.75, nvme = 0.5}", here],
                 ["memory.offload_parameters", "host = 0.75, nvme = 0.5", "host = 0.5"]),
                (["--memory.offload_parameters={disk = 0.5}"], ["disk", "host and nvme"]),
                (["--memory.offload_paramters=host"], ["offload_paramters", "memory.offload_parameters"])):
            done = subprocess.run([COLOSSAL, "generate", self.model, "--prompt=x", *flags],
                                  capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertNotIn("terminate", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_pickles_are_never_read(self):
        torch.save(self.tensors, self.model / "pytorch_model.bin")
        done = subprocess.run([COLOSSAL, "generate", self.model, "--prompt=x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
