"""Encoder-decoders: trained on damaged texts, tuned on pairs of texts, asked for completions, and compared with transformers."""
import json
import shutil
import unittest

import openai
import peft
import torch
import torch.nn.functional as F
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from encoder_models import WORDS, EncoderTest
from harness import CORPUS, ROOT
from serve_test import Server

BASES = json.loads((ROOT / "tests" / "support" / "encoder_decoders.json").read_text())
SIZES = {"bart": dict(max_position_embeddings=66, dropout=0.0), "t5": dict(n_positions=66, dropout_rate=0.0)}
FP32 = ["--precision.compute=fp32", "--train.threads=1"]


def pairs(count):
    """A prompt of words, and the same words the other way round."""
    lines = []
    for i in range(count):
        words = [WORDS[(5 * i + k * k) % 16] for k in range(2 + i % 4)]
        lines.append({"prompt": " ".join(words), "completion": " ".join(reversed(words))})
    return lines


class EncoderDecoders(EncoderTest):
    def model(self, family="bart"):
        config = CONFIG_MAPPING[family](**{**BASES[family], **SIZES[family], **dict(
            pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=None)})
        return self.save("model", AutoModelForSeq2SeqLM.from_config(config))

    def sft(self, name, lines, *flags, ranks=1, method="sft"):
        folder = self.directory / "model"
        shutil.rmtree(self.directory / name, ignore_errors=True)
        path = self.write_lines("train.jsonl", lines)
        self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{path}"]\n')
        return self.run_command(
            "tune", method, self.toml, f"--ranks={ranks}", *FP32, "--train.global_batch=6", "--optimizer.learning_rate=0.003",
            f"--checkpoint.directory={self.directory / name / 'checkpoints'}", f"--log.directory={self.directory / name}", *flags)

    def reference_loss(self, folder, lines):
        """The mean loss of a completion's token, each pair on its own."""
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
        total = count = 0
        for line in lines:
            source = tokenizer(line["prompt"], return_tensors="pt")["input_ids"]
            target = tokenizer(line["completion"], return_tensors="pt")["input_ids"]
            with torch.no_grad():
                logits = model(input_ids=source, labels=target).logits
            total += F.cross_entropy(logits[0], target[0], reduction="sum").item()
            count += target.numel()
        return total / count

    def test_pairs_give_the_loss_of_transformers_at_every_layout(self):
        for family in SIZES:
            with self.subTest(family):
                self.check_layouts(self.model(family))

    def check_layouts(self, folder):
        lines = pairs(6)
        self.sft("alone", lines, "--train.steps=3")
        expected = self.losses("alone")
        self.assertAlmostEqual(expected[1], self.reference_loss(folder, lines), delta=2e-5)
        layouts = {"dp": [], "tp": ["--parallel.tp=2"], "ring": ["--parallel.sp=2"], "pp": ["--parallel.pp=2"],
                   "ulysses": ["--parallel.sp=2", "--parallel.sp_mode=ulysses"], "zero": ["--parallel.zero=3"]}
        for name, layout in layouts.items():
            with self.subTest(name):
                self.sft(name, lines, "--train.steps=3", "--train.micro_batch=3", *layout, ranks=2)
                for step, loss in self.losses(name).items():
                    self.assertAlmostEqual(loss, expected[step], delta=5e-5)
        pair = [{"prompt": l["prompt"], "chosen": l["completion"], "rejected": l["prompt"]} for l in lines]
        self.sft("dpo", pair, "--train.steps=2", method="dpo")
        self.assertAlmostEqual(self.losses("dpo")[1], 0.6931, delta=1e-3)

    def test_a_tuned_model_writes_what_transformers_writes(self):
        for family in SIZES:
            with self.subTest(family):
                self.model(family)
                self.check_generation()

    def check_generation(self):
        lines = pairs(24)
        self.sft("run", lines, "--train.steps=150", "--train.global_batch=24")
        self.assertLess(self.losses("run")[150], 0.3 * self.losses("run")[1])
        saved = self.newest("run")
        tokenizer = AutoTokenizer.from_pretrained(saved)
        model = AutoModelForSeq2SeqLM.from_pretrained(saved, dtype=torch.float32).eval()
        prompts = self.write_lines("prompts.jsonl", [{"prompt": line["prompt"]} for line in lines])
        for beams in (1, 3):
            expected = []
            for line in lines:
                with torch.no_grad():
                    given = tokenizer(line["prompt"], return_tensors="pt")["input_ids"]
                    written = model.generate(given, max_new_tokens=12, do_sample=False, num_beams=beams,
                                             early_stopping=False, length_penalty=1.0)
                expected.append(tokenizer.decode(written[0], skip_special_tokens=True))
            if beams == 1:
                greedy = [text.strip() for text in expected]
                self.assertGreaterEqual(sum(a == b["completion"] for a, b in zip(expected, lines)), 20)
            layouts = [(1, []), (2, ["--parallel.tp=2"])] if beams == 1 else [(1, [f"--num-beams={beams}"])]
            for ranks, layout in layouts:
                with self.subTest(beams=beams, ranks=ranks):
                    output = self.directory / f"out-{beams}-{ranks}.jsonl"
                    output.unlink(missing_ok=True)  # of another model
                    self.run_command("generate", saved, f"--input={prompts}", f"--output={output}", "--temperature=0",
                                     "--max-new-tokens=12", f"--ranks={ranks}", *FP32, *layout)
                    found = [json.loads(line) for line in output.read_text().splitlines()]
                    self.assertEqual([line["completion"].strip() for line in found], [t.strip() for t in expected])

        server = Server(saved, *FP32[:1])
        try:  # several at once, and some of them again
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
            for _ in range(2):
                answer = client.completions.create(model="tiny", prompt=[line["prompt"] for line in lines], temperature=0,
                                                   max_tokens=12)
                found = [choice.text.strip() for choice in sorted(answer.choices, key=lambda choice: choice.index)]
                self.assertEqual(found, greedy)
            self.assertEqual(answer.usage.prompt_tokens, sum(len(tokenizer(line["prompt"])["input_ids"]) for line in lines))
            with self.assertRaisesRegex(openai.BadRequestError, "encoder-decoder"):
                client.embeddings.create(model="tiny", input="the film")
        finally:
            server.stop()

    def test_an_adapter_is_one_of_peft(self):
        folder = self.model("t5")
        lines = pairs(24)
        lora = ["--adapter.kind=lora", "--adapter.rank=8", "--adapter.dropout=0"]
        losses = {}
        for name, ranks, layout in [("alone", 1, []), ("tp", 2, ["--parallel.tp=2"]), ("pp", 2, ["--parallel.pp=2"])]:
            self.sft(name, lines, "--train.steps=30", "--train.global_batch=24", *lora, *layout, ranks=ranks)
            losses[name] = self.losses(name)
            self.assertAlmostEqual(losses[name][3], losses["alone"][3], delta=1e-4)
        self.assertLess(losses["alone"][30], 0.8 * losses["alone"][1])
        saved = self.newest("alone")
        self.assertEqual(json.loads((saved / "adapter_config.json").read_text())["task_type"], "SEQ_2_SEQ_LM")
        model = peft.PeftModel.from_pretrained(AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32), saved).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        for line in lines[:3]:
            given = tokenizer(line["prompt"], return_tensors="pt")["input_ids"]
            with torch.no_grad():
                written = model.generate(input_ids=given, max_new_tokens=8, do_sample=False)
            found = self.run_command("generate", folder, f"--adapter={saved}", f"--prompt={line['prompt']}", "--temperature=0",
                                     "--max-new-tokens=8", *FP32).stdout
            self.assertEqual(found.strip(), tokenizer.decode(written[0], skip_special_tokens=True).strip())
        self.run_command("generate", folder, f"--prompt={lines[0]['prompt']}", "--max-new-tokens=4", "--quantize=int8")

    def test_damaged_texts_give_the_same_losses_at_other_layouts(self):
        self.use("bart-tiny")
        flags = ["--train.steps=3", f"--data.validation={CORPUS}", "--train.seed=3", *FP32]
        expected = self.check_training(flags)
        self.assertAlmostEqual(expected[1], 5.6, delta=0.3)  # about ln 258 at the start

    def test_spans_that_sentinels_replace(self):
        self.tokenizer.add_special_tokens({"additional_special_tokens": [f"<extra_id_{i}>" for i in range(20)]})
        text = self.directory / "text.txt"
        text.write_text(" ".join(WORDS * 40))
        self.use_folder(self.model("t5"))
        flags = [f"--data.train={text}", "--train.steps=40", "--optimizer.learning_rate=0.003", "--train.micro_batch=2",
                 f"--data.validation={text}", *FP32]
        losses = self.check_training(flags)
        self.assertLess(losses[40], 0.7 * losses[1])

    def check_training(self, flags):
        """The losses of one rank, which those of other layouts equal."""
        self.train(*self.flags("alone"), *flags)
        expected = self.losses("alone")
        for name, layout in {"tp2": ["--parallel.tp=2"], "ring2": ["--parallel.sp=2"], "pp2": ["--parallel.pp=2"]}.items():
            with self.subTest(name):
                self.train(*self.flags(name), *flags, *layout, ranks=2)
                for step in (1, 2, 3):
                    self.assertAlmostEqual(self.losses(name)[step], expected[step], delta=2e-5)
        return expected

    def test_dropout_depends_neither_on_padding_nor_on_the_layout(self):
        """Pairs and texts with sentinels have lengths of their own, so that each micro-batch is padded otherwise."""
        self.tokenizer.add_special_tokens({"additional_special_tokens": [f"<extra_id_{i}>" for i in range(20)]})
        text = self.directory / "text.txt"
        text.write_text(" ".join(WORDS[(i * i) % 16] for i in range(640)))
        exact = ["--train.steps=2", "--train.dropout=0.2", "--precision.compute=fp64"]
        layouts = [(1, ["--train.micro_batch=4"]), (1, ["--train.micro_batch=1"]), (2, []), (2, ["--parallel.sp=2"]),
                   (2, ["--parallel.pp=2", "--train.micro_batch=3"])]
        for turn, family in enumerate(["t5", "bart"]):
            folder = self.model(family)
            self.sft("alone", pairs(6), *exact)
            for ranks, layout in layouts[turn % 2::2]:
                self.sft("divided", pairs(6), *exact, *layout, ranks=ranks)
                self.assert_equal_figures("divided", "alone")
            if family == "t5":
                self.use_folder(folder)
                flags = [f"--data.train={text}", *exact]
                self.train(*self.flags("texts"), *flags)
                for ranks, layout in layouts[1::2]:
                    name = f"texts {ranks} {layout}"
                    self.train(*self.flags(name), *flags, *layout, ranks=ranks)
                    self.assert_equal_figures(name, "texts")

    def assert_equal_figures(self, name, expected):
        found, wanted = self.metrics(name), self.metrics(expected)
        for step in (1, 2):
            for figure in ("loss", "grad_norm"):
                self.assertAlmostEqual(found[step][figure] / wanted[step][figure], 1, delta=1e-9)

    def test_what_an_encoder_decoder_cannot_do_is_refused(self):
        folder = self.model()
        lines = pairs(6)
        for method, line, *flags in [("kto", {"prompt": "a", "completion": "b", "label": True}),
                                     ("grpo", {"prompt": "a"}, "--tune.reward=length")]:
            self.write_lines("train.jsonl", [line])
            self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.directory / "train.jsonl"}"]\n')
            self.assertIn("encoder-decoders", self.refusal("tune", method, self.toml, *flags))
        self.write_lines("train.jsonl", [{"text": "the film"}])
        self.assertIn("no prompt", self.refusal("tune", "sft", self.toml))
        self.write_lines("train.jsonl", lines)
        self.assertIn("data.packing", self.refusal("tune", "sft", self.toml, "--data.packing=bfd"))
        for objective in ("causal", "masked"):
            self.assertIn("its decoder mends it", self.refusal("train", self.toml, f"--data.objective={objective}"))
        self.assertIn("parallel.pp", self.refusal("generate", folder, "--prompt=the film", "--ranks=2", "--parallel.pp=2"))
        self.assertIn("tune sft", self.refusal("evaluate", folder, f"--data={CORPUS}"))


if __name__ == "__main__":
    unittest.main()
