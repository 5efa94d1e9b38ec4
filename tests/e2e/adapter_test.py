"""LoRA from the command line: trained, gone on with, opened by peft, evaluated and generated with."""
import json
import subprocess
import unittest

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, GPT2Config, GPTNeoXConfig,
                          LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

from harness import COLOSSAL, CORPUS, EndToEndTest

TEXT = "import json\nfor name in names:\n    print(name, 1234)\n" * 9
ADAPTER = ["--adapter.kind=lora", "--adapter.rank=5", "--adapter.dropout=0.2", "--precision.compute=fp64",
           "--optimizer.learning_rate=0.01"]

# Ranks, and how they share a model.
LAYOUTS = [(2, ["--parallel.tp=2"]), (3, ["--parallel.zero=3"]), (2, ["--parallel.pp=2"]),
           (4, ["--parallel.tp=4", "--parallel.tp_mode=2d"])]


class Adapter(EndToEndTest):
    # slow_adapter_test.py takes every layout. Each test here takes two, which together are all of them:
    # tests of the library train adapters of each kind at every layout.
    takes_every_layout = False

    def some_of(self, layouts, first):
        """Two of the layouts, or all."""
        return layouts if self.takes_every_layout else [layouts[first], layouts[(first + 1) % len(layouts)]]

    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        torch.manual_seed(1)
        LlamaForCausalLM(LlamaConfig(
            vocab_size=257, hidden_size=48, intermediate_size=50, num_hidden_layers=2, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3, bos_token_id=None,
            eos_token_id=256)).save_pretrained(self.model)
        self.text = self.directory / "text.txt"
        self.text.write_text(TEXT)
        self.use_folder(self.model)
        self.model_flags = [f"--data.train={self.text}", "--data.tokenizer=bytes", *ADAPTER]

    def run_command(self, command, *flags, expect=0):
        done = subprocess.run([str(COLOSSAL), command, str(self.model), *map(str, flags)], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def evaluate(self, *flags):
        return json.loads(self.run_command("evaluate", f"--data={self.text}", "--tokenizer=bytes", "--json",
                                           "--precision.compute=fp64", "--sequence-length=32", *flags))["loss"]

    def by_peft(self, model):
        """The mean loss of the text, row by row."""
        tokens = torch.tensor(list(TEXT.encode()))
        losses = []
        with torch.no_grad():
            for begin in range(0, len(tokens) - 1, 32):
                row = tokens[begin:begin + 33]
                losses.append(torch.nn.functional.cross_entropy(model(row[None, :-1]).logits[0], row[1:],
                                                                reduction="none"))
        return torch.cat(losses).mean().item()

    def base(self, **options):
        return AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float64, **options).eval()

    def test_peft_opens_what_a_run_saves(self):
        log = self.train(*self.flags(), "--train.steps=4")
        self.assertIn("adapters of rank 5 for 14 linear layers", log)
        folder = self.newest()
        self.assertEqual({path.name for path in folder.glob("*.safetensors")}, {"adapter_model.safetensors"})
        self.assertFalse((folder / "config.json").exists())
        self.assertEqual(json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"],
                         str(self.model))
        before = self.evaluate()
        with_adapter = self.evaluate(f"--adapter={folder}")
        self.assertLess(with_adapter, before - 0.1)
        # transformers computes norms, softmax and rotary tables in fp32.
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(with_adapter, self.by_peft(adapted), delta=1e-5)
        self.assertAlmostEqual(with_adapter, self.evaluate(f"--adapter={folder}", "--quantize=int8"), delta=0.05)
        ids = torch.tensor([list(b"for ")])
        expected = adapted.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False,
                                    pad_token_id=0)[0].tolist()
        generated = self.run_command("generate", "--prompt=for ", "--temperature=0", f"--adapter={folder}",
                                     "--max-new-tokens=12", "--precision.compute=fp64")
        self.assertEqual(generated.removesuffix("\n"), bytes(expected).decode(errors="replace"))

    def test_opens_what_peft_saves(self):
        torch.manual_seed(2)
        adapted = get_peft_model(self.base(), LoraConfig(
            r=3, lora_alpha=7, target_modules=["q_proj", "down_proj"], init_lora_weights=False,
            task_type="CAUSAL_LM"), autocast_adapter_dtype=False).eval()
        folder = self.directory / "adapter"
        adapted.save_pretrained(folder)
        self.assertAlmostEqual(self.evaluate(f"--adapter={folder}"), self.by_peft(adapted), delta=1e-5)
        log = self.train(*self.flags(), "--train.steps=1", f"--adapter.resume_from={folder}", expect=2)
        self.assertIn("adapter.rank = 5: the adapter in adapter.resume_from", log)
        self.model_flags.remove("--adapter.rank=5")
        self.train(*self.flags(), "--train.steps=1", f"--adapter.resume_from={folder}",
                   "--optimizer.learning_rate=0")
        before, after = (load_file(path / "adapter_model.safetensors") for path in (folder, self.newest()))
        self.assertEqual(before.keys(), after.keys())
        for name in before:
            self.assertTrue(torch.equal(before[name], after[name]), name)

    def test_merges_an_adapter_into_the_weights(self):
        """Stacked products and those of [in, out] too, in one file and in several."""
        families = [
            (LlamaConfig(vocab_size=257, hidden_size=48, intermediate_size=50, num_hidden_layers=2,
                         num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=True, initializer_range=0.3),
             dict(target_modules="all-linear"), "50KB"),
            (GPT2Config(vocab_size=257, n_embd=48, n_layer=2, n_head=6, n_positions=64, initializer_range=0.3),
             dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True), "5GB"),
            (GPTNeoXConfig(vocab_size=257, hidden_size=48, intermediate_size=50, num_hidden_layers=2,
                           num_attention_heads=6, max_position_embeddings=64, initializer_range=0.3),
             dict(target_modules=["query_key_value"], use_rslora=True), "5GB"),
        ]
        for config, targets, shard in families:
            with self.subTest(config.model_type):
                torch.manual_seed(3)
                source, adapter, merged = (self.directory / f"{config.model_type}-{name}"
                                           for name in ("source", "adapter", "merged"))
                AutoModelForCausalLM.from_config(config).save_pretrained(source, max_shard_size=shard)
                self.model = source
                adapted = get_peft_model(self.base(), LoraConfig(
                    r=3, lora_alpha=7, init_lora_weights=False, task_type="CAUSAL_LM", **targets),
                    autocast_adapter_dtype=False).eval()
                adapted.save_pretrained(adapter)
                with_adapter = self.evaluate(f"--adapter={adapter}")
                self.assertGreater(abs(with_adapter - self.evaluate()), 0.01)
                self.run_command("convert", merged, f"--merge-adapter={adapter}")
                self.assertIn("exists already",
                              self.run_command("convert", merged, f"--merge-adapter={adapter}", expect=2))
                self.assertIn("--type=f32 with --merge-adapter", self.run_command(
                    "convert", f"{merged}-2", f"--merge-adapter={adapter}", "--type=f32", expect=2))
                self.assertEqual({path.name for path in merged.glob("*.safetensors*")},
                                 {path.name for path in source.glob("*.safetensors*")})
                tokens = torch.tensor([list(TEXT.encode())[:60]])
                with torch.no_grad():
                    expected = adapted(tokens).logits
                    self.model = merged
                    found = self.base()(tokens).logits
                self.assertLess((found - expected).abs().max().item(), 1e-5 * expected.abs().max().item())
                self.assertAlmostEqual(self.evaluate(), with_adapter, delta=1e-5)

    def check_goes_on_from_layouts(self, flags, whole, layouts):
        """Three steps at each layout and three on one rank have the losses of six on one."""
        for ranks, layout in layouts:
            with self.subTest(layout):
                name = "-".join(layout)
                self.train(*self.flags(name), *flags, *layout, "--train.steps=3", ranks=ranks)
                self.train(*self.flags(name), *flags, "--train.steps=6")
                for step, loss in self.losses(name).items():
                    self.assertAlmostEqual(loss, whole[step], delta=1e-8 * loss)

    def test_goes_on_at_another_layout(self):
        self.train(*self.flags("whole"), "--train.steps=6")
        whole = self.losses("whole")
        layouts = [(2, ["--parallel.tp=2"]), (3, ["--parallel.zero=3"]), (2, ["--parallel.pp=2"])]
        for number, (ranks, flags) in enumerate(self.some_of(layouts, 0)):
            with self.subTest(flags):
                name = f"parts-{number}"
                self.train(*self.flags(name), "--train.steps=3")
                self.train(*self.flags(name), *flags, "--train.steps=6", ranks=ranks)
                for step, loss in self.losses(name).items():
                    self.assertAlmostEqual(loss, whole[step], delta=1e-9 * loss)

    def test_magnitudes_and_other_ranks_go_to_peft_and_back(self):
        """DoRA: a new adapter changes nothing, and what is learned is what peft computes."""
        flags = ["--adapter.dora=true", "--adapter.rank_pattern=down_proj=2", "--adapter.alpha_pattern=q_proj=4,v_proj=8",
                 "--adapter.dropout=0"]
        self.train(*self.flags("plain"), "--train.steps=1", "--adapter.dropout=0")
        self.train(*self.flags(), *flags, "--train.steps=6")
        self.assertAlmostEqual(self.losses()[1], self.losses("plain")[1], delta=1e-9)
        folder = self.newest()
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertTrue(config["use_dora"])
        self.assertEqual(config["rank_pattern"], {f"model.layers.{i}.mlp.down_proj": 2 for i in (0, 1)})
        loss = self.evaluate(f"--adapter={folder}")
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        again = self.directory / "again"
        adapted.save_pretrained(again)
        self.assertAlmostEqual(loss, self.evaluate(f"--adapter={again}"), delta=1e-9)
        merged = self.directory / "merged"
        self.run_command("convert", merged, f"--merge-adapter={again}")
        self.model = merged
        self.assertAlmostEqual(self.evaluate(), loss, delta=1e-5)
        for ranks, layout in self.some_of(LAYOUTS[:3], 1):
            with self.subTest(layout):
                name = "-".join(layout)
                self.train(*self.flags(name), *flags, *layout, "--adapter.base=nf4", "--train.steps=2", ranks=ranks)
                self.train(*self.flags(name), *flags, "--adapter.base=nf4", "--train.steps=4")
                if not (self.directory / "whole").exists():
                    self.train(*self.flags("whole"), *flags, "--adapter.base=nf4", "--train.steps=4")
                for step, loss in self.losses(name).items():
                    self.assertAlmostEqual(loss, self.losses("whole")[step], delta=1e-9 * loss)
        log = self.train(*self.flags("bad"), "--adapter.rank_pattern=down_prj=2", expect=2)
        self.assertIn("adapter.rank_pattern = \"down_prj\": names no layer", log)
        log = self.train(*self.flags("bad"), "--adapter.rank_pattern=down_proj", expect=2)
        self.assertIn("must be MODULES=NUMBER", log)

    def test_modules_are_trained_beside_adapters(self):
        """... the whole head here, and a new one of a reward model, which peft opens."""
        flags = ["--adapter.modules_to_save=lm_head", "--adapter.targets=q_proj,v_proj", "--adapter.dropout=0"]
        log = self.train(*self.flags(), *flags, "--train.steps=6")
        self.assertIn("for 4 linear layers", log)
        whole, folder = self.losses(), self.newest()
        head = load_file(folder / "adapter_model.safetensors")["base_model.model.lm_head.weight"]
        self.assertFalse(torch.equal(head, load_file(self.model / "model.safetensors")["lm_head.weight"].double()))
        loss = self.evaluate(f"--adapter={folder}")
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        again, merged = self.directory / "again", self.directory / "merged"
        adapted.save_pretrained(again)
        self.assertAlmostEqual(loss, self.evaluate(f"--adapter={again}"), delta=1e-9)
        self.check_goes_on_from_layouts(flags, whole, self.some_of(LAYOUTS, 2))
        self.run_command("convert", merged, f"--merge-adapter={folder}")
        loss = self.evaluate(f"--adapter={folder}")
        self.model = merged
        self.assertAlmostEqual(self.evaluate(), loss, delta=1e-5)
        log = self.train(*self.flags("bad"), "--adapter.modules_to_save=lm_hed", expect=2)
        self.assertIn("adapter.modules_to_save = \"lm_hed\": names no module", log)
        log = self.train(*self.flags("bad"), "--adapter.modules_to_save=q_proj", expect=2)
        self.assertIn("has an adapter, too", log)

    def test_a_reward_model_learns_its_head_beside_adapters(self):
        pairs = self.directory / "pairs.jsonl"
        pairs.write_text("\n".join(json.dumps({"prompt": f"for {i}", "chosen": " in names", "rejected": " of x"})
                                   for i in range(24)))
        command = [str(COLOSSAL), "tune", "reward", str(self.toml), f"--data.train={pairs}",
                   "--data.tokenizer=bytes", "--train.global_batch=4", "--train.steps=12", "--train.threads=1",
                   f"--checkpoint.directory={self.directory / 'reward'}", *ADAPTER]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("has no score", refused.stderr)
        done = subprocess.run([*command, "--adapter.modules_to_save=score"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = max((self.directory / "reward").glob("step-*"))
        base = AutoModelForSequenceClassification.from_pretrained(self.model, dtype=torch.float64, num_labels=1)
        model = PeftModel.from_pretrained(base, folder, autocast_adapter_dtype=False).eval()
        model.config.pad_token_id = 0
        chosen, rejected = (model(torch.tensor([list(f"for 3{end}".encode()) + [256]])).logits.item()
                            for end in (" in names", " of x"))
        self.assertGreater(chosen, rejected)
        merged = self.directory / "merged"
        self.run_command("convert", merged, f"--merge-adapter={folder}")
        self.assertEqual([name for name in load_file(merged / "model.safetensors") if "score" in name or "head" in name],
                         ["score.weight"])
        alone = AutoModelForSequenceClassification.from_pretrained(merged, dtype=torch.float64).eval()
        alone.config.pad_token_id = 0
        for end in (" in names", " of x"):
            tokens = torch.tensor([list(f"for 5{end}".encode()) + [256]])
            score = model(tokens).logits.item()
            self.assertAlmostEqual(alone(tokens).logits.item(), score, delta=1e-5 * abs(score))

    def test_begins_with_singular_vectors(self):
        """PiSSA: at first the model is as it was, what is saved fits it, and layouts and resuming change nothing."""
        flags = ["--adapter.initial=pissa", "--adapter.alpha=3", "--adapter.rank_pattern=q_proj=2"]
        self.train(*self.flags("plain"), "--train.steps=1", "--adapter.dropout=0")
        self.train(*self.flags("first"), *flags, "--train.steps=1", "--optimizer.learning_rate=0")
        saved = load_file(self.newest("first") / "adapter_model.safetensors")
        weights = load_file(self.model / "model.safetensors")
        for module, rank in [("self_attn.q_proj", 2), ("mlp.down_proj", 5)]:
            name = f"model.layers.1.{module}"
            down, up = (saved[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
            self.assertEqual(down.shape[0], 2 * rank)
            start = 3 / rank * up[:, :rank] @ down[:rank]
            left, values, right = torch.linalg.svd(weights[f"{name}.weight"].double(), full_matrices=False)
            self.assertLess((start - left[:, :rank] * values[:rank] @ right[:rank]).norm() / start.norm(), 1e-9)
            self.assertLess((up @ down).norm(), 1e-9)
        self.train(*self.flags(), *flags, "--adapter.dropout=0", "--train.steps=6")
        self.assertAlmostEqual(self.losses()[1], self.losses("plain")[1], delta=1e-9)
        whole, folder = self.losses(), self.newest()
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"]), (10, 6))
        loss = self.evaluate(f"--adapter={folder}")
        self.assertLess(loss, self.evaluate() - 0.1)
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        self.check_goes_on_from_layouts([*flags, "--adapter.dropout=0"], whole, self.some_of(LAYOUTS, 3))
        self.train(*self.flags("packed"), *flags, "--adapter.base=nf4", "--adapter.dropout=0", "--train.steps=6")
        # What is packed is the smaller rest.
        self.train(*self.flags("coarse"), "--adapter.base=nf4", "--adapter.dropout=0", "--train.steps=1")
        exact = self.losses("plain")[1]
        self.assertLess(abs(self.losses("packed")[1] - exact), abs(self.losses("coarse")[1] - exact))
        self.assertIn("singular values", self.train(*self.flags("bad"), *flags, "--adapter.rank=49", expect=2))
        self.assertIn("adapter.dora with", self.train(*self.flags("bad"), *flags, "--adapter.dora=true", expect=2))

    def test_learns_over_a_base_in_few_bits(self):
        """... nearly what it learns over the base as it is, and the same at every layout."""
        learned = {}
        for base in ("as_is", "int8", "nf4"):
            self.train(*self.flags(base), f"--data.train={CORPUS}", f"--adapter.base={base}", "--adapter.dropout=0",
                       "--train.steps=40")
            losses = self.losses(base)
            learned[base] = sum(losses[step] for step in range(36, 41)) / 5
        self.assertLess(learned["as_is"], losses[1] / 2)
        self.assertLess(abs(learned["nf4"] / learned["as_is"] - 1), 0.05)
        self.assertLess(abs(learned["int8"] / learned["as_is"] - 1), 0.05)
        self.assertNotAlmostEqual(learned["nf4"], learned["as_is"], delta=1e-6)
        self.train(*self.flags("whole"), "--adapter.base=nf4", "--train.steps=3")
        whole = self.losses("whole")
        layouts = [*LAYOUTS, (2, ["--parallel.zero=3", "--memory.offload_parameters=host", "--memory.recompute=full"])]
        for number, (ranks, flags) in enumerate(self.some_of(layouts, 3)):
            with self.subTest(flags):
                name = f"layout-{number}"
                self.train(*self.flags(name), *flags, "--adapter.base=nf4", "--train.steps=3", ranks=ranks)
                for step, loss in self.losses(name).items():
                    self.assertAlmostEqual(loss, whole[step], delta=1e-9 * loss)

    def test_what_is_learned_over_a_base_in_few_bits_is_used_with_the_base_as_it_is(self):
        self.train(*self.flags(), "--adapter.base=nf4", "--adapter.dropout=0", "--train.steps=20")
        folder = self.newest()
        with_adapter = self.evaluate(f"--adapter={folder}")
        self.assertLess(with_adapter, self.evaluate() / 2)
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(with_adapter, self.by_peft(adapted), delta=1e-5)
        merged = self.directory / "merged"
        self.run_command("convert", merged, f"--merge-adapter={folder}")
        self.model = merged
        self.assertAlmostEqual(self.evaluate(), with_adapter, delta=1e-5)
        other = self.train(*self.flags(), "--adapter.base=int8", "--train.steps=21", expect=2)
        self.assertIn("was trained with adapter.base = \"nf4\", but this run has \"int8\"", other)
        self.assertIn("adapter.base", self.train(*self.flags("bits"), "--adapter.base=int3", expect=2))

    def test_a_prefix_goes_to_peft_and_back(self):
        """... trained at every layout alike, and in rows of several documents."""
        self.model_flags = [f"--data.train={self.text}", "--data.tokenizer=bytes", "--adapter.kind=prefix",
                            "--adapter.virtual_tokens=6", "--precision.compute=fp64", "--optimizer.learning_rate=0.05"]
        log = self.train(*self.flags(), "--train.steps=8")
        self.assertIn("training a prefix of 6 virtual tokens: 384 parameters", log)
        whole, folder = self.losses(), self.newest()
        self.assertLess(whole[8], whole[1] - 0.1)
        self.assertEqual({name: list(tensor.shape) for name, tensor in
                          load_file(folder / "adapter_model.safetensors").items()}, {"prompt_embeddings": [6, 64]})
        loss = self.evaluate(f"--adapter={folder}")
        self.assertLess(loss, self.evaluate() - 0.1)
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        again = self.directory / "again"
        adapted.save_pretrained(again)
        self.assertAlmostEqual(loss, self.evaluate(f"--adapter={again}"), delta=1e-7)  # peft keeps a prefix in fp32
        ids = torch.tensor([list(b"for ")])
        expected = ids
        for _ in range(12):
            expected = torch.cat([expected, adapted(expected).logits[:, -1:].argmax(-1)], 1)
        generated = self.run_command("generate", "--prompt=for ", "--temperature=0", f"--adapter={folder}",
                                     "--max-new-tokens=12", "--precision.compute=fp64")
        self.assertEqual(generated.removesuffix("\n"), bytes(expected[0].tolist()).decode(errors="replace"))
        layouts = [*LAYOUTS, (2, ["--parallel.sp=2"]),
                   (2, ["--parallel.sp=2", "--parallel.sp_mode=ulysses", "--memory.recompute=full"])]
        self.check_goes_on_from_layouts([], whole, self.some_of(layouts, 4))
        self.train(*self.flags("on"), "--train.steps=1", f"--adapter.resume_from={folder}")
        self.assertLess(self.losses("on")[1], whole[1] - 0.1)
        for flags, words in [(["--adapter.rank=4"], "adapter.rank with adapter.kind = \"prefix\""),
                             (["--adapter.initial=pissa"], "\"gaussian\" or \"zeros\""),
                             (["--adapter.virtual_tokens=64"], "a prefix of 64 virtual tokens"),
                             (["--data.sequence_length=60"], "the model has 58 positions"),
                             (["--adapter.kind=lora"], "adapter.virtual_tokens with adapter.kind"),
                             (["--adapter.virtual_tokens=5", f"--adapter.resume_from={folder}"],
                              "adapter.virtual_tokens = 5: the adapter in adapter.resume_from")]:
            with self.subTest(flags):
                self.assertIn(words, self.train(*self.flags("bad"), *flags, expect=2))
        self.assertIn("a prefix cannot be merged", self.run_command(
            "convert", self.directory / "merged", f"--merge-adapter={folder}", expect=2))
        config = json.loads((folder / "adapter_config.json").read_text())
        for field, value in [("num_virtual_tokens", 0), ("num_attention_heads", 3), ("num_layers", 5),
                             ("num_transformer_submodules", 2)]:
            (folder / "adapter_config.json").write_text(json.dumps({**config, field: value}))
            self.run_command("evaluate", f"--data={self.text}", "--tokenizer=bytes", f"--adapter={folder}", expect=2)

    def test_a_policy_samples_what_it_learns_from(self):
        """... with a prefix and with adapters of token tables; the reference is the model without them."""
        prompts = self.directory / "prompts.jsonl"
        prompts.write_text("\n".join(json.dumps({"prompt": f"for {i}"}) for i in range(24)))
        for kind in (["--adapter.kind=prefix", "--adapter.virtual_tokens=5"],
                     ["--adapter.kind=lora", "--adapter.targets=q_proj,embed_tokens,lm_head"]):
            losses = []
            for ranks, layout in [(1, []), (2, ["--parallel.tp=2"])]:
                with self.subTest(kind=kind, layout=layout):
                    name = f"grpo{kind[0]}{ranks}"
                    done = subprocess.run([
                        str(COLOSSAL), "tune", "grpo", str(self.toml), f"--ranks={ranks}", f"--data.train={prompts}",
                        "--data.tokenizer=bytes", "--train.global_batch=8", "--train.steps=3", "--train.threads=1",
                        "--tune.num_generations=4", "--tune.max_completion_length=9", "--tune.reward=length",
                        "--tune.beta=0.05", "--precision.compute=fp64", "--optimizer.learning_rate=0.01",
                        f"--log.directory={self.directory / name}", *kind, *layout], capture_output=True, text=True,
                        timeout=60)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    lines = [json.loads(line) for line in
                             (self.directory / name / "metrics.jsonl").read_text().splitlines()]
                    for line in lines:
                        self.assertLess(line["sampling/sampling_logp_difference/max"], 1e-9)
                    # A new low-rank adapter adds nothing yet; a prefix begins with numbers that do.
                    self.assertEqual(lines[0]["kl"] > 1e-9, "prefix" in kind[0])
                    losses.append([line["loss"] for line in lines])
            self.assertEqual(len(losses), 2)
            for one, two in zip(*losses):
                self.assertAlmostEqual(one, two, delta=1e-9)

    def test_token_tables_are_adapted(self):
        """... at every layout alike, and merged into the weights."""
        flags = ["--adapter.targets=embed_tokens,lm_head,q_proj", "--adapter.dropout=0.2"]
        self.train(*self.flags(), *flags, "--train.steps=6")
        whole, folder = self.losses(), self.newest()
        self.assertIn("base_model.model.model.embed_tokens.lora_embedding_A",
                      load_file(folder / "adapter_model.safetensors"))
        loss = self.evaluate(f"--adapter={folder}")
        adapted = PeftModel.from_pretrained(self.base(), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        again, merged = self.directory / "again", self.directory / "merged"
        adapted.save_pretrained(again)  # with copies of the tables
        self.assertAlmostEqual(loss, self.evaluate(f"--adapter={again}"), delta=1e-9)
        self.check_goes_on_from_layouts(flags, whole, self.some_of([*LAYOUTS, (2, ["--memory.table_rows=100"])], 4))
        self.run_command("convert", merged, f"--merge-adapter={folder}")
        base, self.model = self.model, merged
        self.assertAlmostEqual(self.evaluate(), loss, delta=1e-5)
        self.assertIn("is not lm_head.weight", self.run_command(
            "evaluate", f"--data={self.text}", "--tokenizer=bytes", f"--adapter={again}", expect=2))
        self.model = base
        for setting in ("dora=true", "initial=pissa"):
            self.assertIn("the output head and experts support only plain LoRA", self.train(
                *self.flags("bad"), *flags, f"--adapter.{setting}", expect=2))

    def test_whole_weights_that_peft_saves_beside_adapters(self):
        """Norms, tables with more tokens, and tables that embedding and head share; read, and merged into the weights."""
        tied = self.directory / "tied"
        torch.manual_seed(1)
        LlamaForCausalLM(LlamaConfig(
            vocab_size=257, hidden_size=48, intermediate_size=50, num_hidden_layers=2, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3, bos_token_id=None,
            eos_token_id=256, tie_word_embeddings=True)).save_pretrained(tied)
        free = self.model
        for name, model, vocabulary, options in (
                ("norms", free, 257, dict(modules_to_save=["norm"])),
                ("more tokens", free, 264, {}), ("more tokens of a tied table", tied, 264, {}),
                ("a tied table", tied, 257, dict(modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
                ("a tied head", tied, 257, dict(target_modules=["lm_head", "q_proj"])),
                ("a tied embedding", tied, 257, dict(target_modules=["embed_tokens", "q_proj"]))):
            with self.subTest(name):
                self.model, folder, merged = model, self.directory / name, self.directory / f"{name} merged"
                torch.manual_seed(2)
                base = self.base()
                if vocabulary != 257:
                    base.resize_token_embeddings(vocabulary, mean_resizing=False)
                adapted = get_peft_model(base, LoraConfig(**{**dict(
                    r=3, lora_alpha=7, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM"), **options}),
                    autocast_adapter_dtype=False).eval()
                with torch.no_grad():
                    for tensor, parameter in adapted.named_parameters():
                        if "modules_to_save" in tensor:
                            parameter += 0.1 * torch.randn_like(parameter)
                adapted.save_pretrained(folder)
                expected = self.by_peft(adapted)
                self.assertAlmostEqual(self.evaluate(f"--adapter={folder}"), expected, delta=1e-5)
                self.run_command("convert", merged, f"--merge-adapter={folder}")
                self.model = merged
                self.assertAlmostEqual(self.evaluate(), expected, delta=1e-5)
                self.assertAlmostEqual(self.by_peft(self.base()), expected, delta=1e-5)
        self.model = tied
        adapted = get_peft_model(self.base(), LoraConfig(
            target_modules=["q_proj"], modules_to_save=["embed_tokens"], task_type="CAUSAL_LM"))
        adapted.save_pretrained(self.directory / "half")
        self.assertIn("ensure_weight_tying=True", self.run_command(
            "evaluate", f"--data={self.text}", "--tokenizer=bytes", f"--adapter={self.directory / 'half'}", expect=2))

    def test_experts_are_adapted(self):
        """... as peft has it, at layouts that divide them, over a base in few bits, and merged."""
        torch.manual_seed(4)
        self.model = self.directory / "experts"
        Qwen3MoeForCausalLM(Qwen3MoeConfig(
            vocab_size=257, hidden_size=32, intermediate_size=40, moe_intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2,
            max_position_embeddings=64, initializer_range=0.3, bos_token_id=None,
            eos_token_id=256)).save_pretrained(self.model)
        self.use_folder(self.model)
        self.model_flags = [f"--data.train={self.text}", "--data.tokenizer=bytes", "--adapter.kind=lora",
                            "--adapter.rank=3", "--precision.compute=fp64", "--optimizer.learning_rate=0.01"]
        flags = ["--adapter.targets=q_proj",
                 "--adapter.target_parameters=experts.gate_up_proj,experts.down_proj"]
        log = self.train(*self.flags(), *flags, "--train.steps=6")
        self.assertIn("for 8 linear layers", log)
        whole, folder = self.losses(), self.newest()
        loss = self.evaluate(f"--adapter={folder}")
        adapted = PeftModel.from_pretrained(self.base(experts_implementation="eager"), folder, autocast_adapter_dtype=False).eval()
        self.assertAlmostEqual(loss, self.by_peft(adapted), delta=1e-5)
        again, merged = self.directory / "again", self.directory / "merged"
        adapted.save_pretrained(again)
        self.assertAlmostEqual(loss, self.evaluate(f"--adapter={again}"), delta=1e-9)
        self.check_goes_on_from_layouts(flags, whole, [(2, ["--parallel.ep=2"]), (2, ["--parallel.expert_tp=2"]),
                                                       (4, ["--parallel.ep=4", "--parallel.zero=3"])])
        self.train(*self.flags("packed"), *flags, "--adapter.base=nf4", "--train.steps=3")
        self.train(*self.flags("packed-ep"), *flags, "--adapter.base=nf4", "--parallel.ep=2", "--train.steps=3",
                   ranks=2)
        for step, of_step in self.losses("packed").items():
            self.assertAlmostEqual(of_step, self.losses("packed-ep")[step], delta=1e-9 * of_step)
        self.assertNotAlmostEqual(self.losses("packed")[1], whole[1], delta=1e-6)
        self.run_command("convert", merged, f"--merge-adapter={folder}")
        self.model = merged
        self.assertAlmostEqual(self.evaluate(), loss, delta=1e-5)
        for bad, words in [(["--adapter.dropout=0.1"], "peft has no dropout for them"),
                           (["--adapter.dora=true"], "experts support only plain LoRA"),
                           (["--adapter.target_parameters=experts.up"], "names no layer that can have an adapter; available")]:
            with self.subTest(bad):
                self.assertIn(words, self.train(*self.flags("bad"), *flags, *bad, expect=2))

    def test_a_preference_is_tuned_alike_at_another_layout(self):
        """... where the reference is the model without an adapter."""
        pairs = self.directory / "pairs.jsonl"
        pairs.write_text("\n".join(json.dumps({"prompt": f"for {i}", "chosen": " in names", "rejected": " of x"})
                                   for i in range(24)))
        losses = []
        for number, (ranks, flags) in enumerate([(1, []), (2, ["--parallel.tp=2"]), (1, ["--adapter.base=nf4"])]):
            name = f"dpo-{number}"
            done = subprocess.run([
                str(COLOSSAL), "tune", "dpo", str(self.toml), f"--ranks={ranks}", f"--data.train={pairs}",
                "--data.tokenizer=bytes", "--train.global_batch=4", "--train.steps=3", "--train.threads=1",
                f"--log.directory={self.directory / name}", *ADAPTER, *flags], capture_output=True, text=True,
                timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append(self.losses(name))
        self.assertAlmostEqual(losses[0][1], 0.6931471805599453, delta=1e-12)
        self.assertLess(losses[0][3], 0.1)
        for step, loss in losses[0].items():
            self.assertAlmostEqual(losses[1][step], loss, delta=1e-9 * loss)
        # The reference has the packed weights too.
        self.assertAlmostEqual(losses[2][1], losses[0][1], delta=1e-12)

    def test_bad_settings_are_named(self):
        def log(*flags):
            return self.train(*self.flags(), "--train.steps=1", *flags, expect=2)

        self.assertIn("adapter.targets = \"q_pro\": names no layer", log("--adapter.targets=q_pro"))
        self.assertIn("lm_head", log("--adapter.targets=lm_heads"))
        self.assertIn("adapter.rank", log("--adapter.rank=0"))
        self.assertIn("adapter_config.json", log(f"--adapter.resume_from={self.directory}"))
        # A folder of checkpoints is of one kind.
        self.train(*self.flags(), "--train.steps=1")
        other = ["--adapter.kind=none"]
        self.assertIn("adapter", log("--train.steps=2", *other))
        folder = self.newest()
        config = json.loads((folder / "adapter_config.json").read_text())
        for field, value in [("peft_type", "IA3"), ("init_lora_weights", "pissa_niter_4"), ("bias", "all"), ("r", -1),
                             ("modules_to_save", ["lm_hed"]), ("rank_pattern", {"q_proj": 0}), ("use_dora", True)]:
            (folder / "adapter_config.json").write_text(json.dumps({**config, field: value}))
            self.assertIn(field, self.run_command("evaluate", f"--data={self.text}", "--tokenizer=bytes",
                                                  f"--adapter={folder}", expect=2))
        self.use("llama-tiny")
        self.assertIn("adapter.kind", self.train(*self.flags("preset"), "--adapter.kind=lora", expect=2))


if __name__ == "__main__":
    unittest.main()
