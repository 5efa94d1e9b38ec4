"""Encoders: trained on masked tokens, tuned to label texts, and compared with transformers."""
import json
import subprocess
import unittest

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer,
                          PreTrainedTokenizerFast)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import COLOSSAL, CORPUS, ROOT, EndToEndTest

ENCODERS = json.loads((ROOT / "tests" / "support" / "encoders.json").read_text())
DECODERS = {name: json.loads((ROOT / "tests" / "support" / "families.json").read_text())[name]
            for name in ("llama", "gpt2")}
WORDS = "good bad fine awful great poor the film was and not very story a plot acting".split()
POSITIONS = {"gpt2": "n_positions"}


def word_piece_tokenizer(vocabulary=90):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=special)
    tokenizer.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
                                   sep_token="[SEP]", mask_token="[MASK]")


def config_of(family, **fields):
    base = dict({**ENCODERS, **DECODERS}[family])
    base[POSITIONS.get(family, "max_position_embeddings")] = 66
    return CONFIG_MAPPING[family](**{**base, **fields})


def texts(count):
    """Lines with a text, often a second one, and a label that the first words tell."""
    lines = []
    for i in range(count):
        good = i * 7 % 3
        first = [WORDS[(i + k) % 16] for k in range(1 + i % 9)]
        line = {"id": i, "text": " ".join([["bad", "fine", "great"][good]] + first), "label": ["no", "so-so", "yes"][good]}
        if i % 2:
            line["text_pair"] = " ".join(WORDS[(3 * i + k) % 16] for k in range(1 + i * 5 % 7))
        lines.append(line)
    return lines


class Encoders(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.tokenizer = word_piece_tokenizer()

    def write_lines(self, name, lines):
        path = self.directory / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def save(self, name, model):
        folder = self.directory / name
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(parameter.shape)
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder

    def run_command(self, *arguments, expect=0):
        done = subprocess.run([COLOSSAL, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def refusal(self, *arguments):
        return self.run_command(*arguments, expect=2).stderr

    def classify(self, folder, lines, *flags):
        path = self.write_lines("classify.jsonl", lines)
        done = self.run_command("classify", folder, f"--input={path}", "--precision.compute=fp32",
                                "--train.threads=1", *flags)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def tune(self, *flags, ranks=1, expect=0):
        done = subprocess.run([COLOSSAL, "tune", "classify", self.toml, f"--ranks={ranks}", "--train.threads=1",
                               "--precision.compute=fp32", *map(str, flags)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stderr

    def expected_scores(self, folder, lines, length=40):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        scores = []
        for line in lines:  # with padding on the right
            pair = [line["text_pair"]] if "text_pair" in line else None
            given = tokenizer([line["text"]], pair, padding="max_length", max_length=length, truncation=True,
                              return_tensors="pt", return_token_type_ids=True)
            if getattr(model.config, "type_vocab_size", 1) == 1:
                given.pop("token_type_ids")
            with torch.no_grad():
                scores.append(model(**given).logits[0])
        return torch.stack(scores)

    def test_masked_tokens_give_the_same_losses_at_every_layout(self):
        self.use("bert-tiny")
        more = ["--train.steps=5", "--train.seed=3", "--precision.compute=fp32"]
        flags = ["--train.steps=3", f"--data.validation={CORPUS}", *more[1:]]
        self.train(*self.flags("alone"), *flags)
        expected = self.losses("alone")
        self.assertEqual(set(expected), {1, 2, 3})
        self.assertAlmostEqual(expected[1], 5.6, delta=0.3)  # about ln 258 at the start
        layouts = {"tp2": ["--parallel.tp=2"], "2d": ["--parallel.tp=4", "--parallel.tp_mode=2d"],
                   "ring2": ["--parallel.sp=2"], "pp2": ["--parallel.pp=2"], "zero3": ["--parallel.zero=3"],
                   "ulysses": ["--parallel.sp=2", "--parallel.sp_mode=ulysses", "--memory.recompute=full"]}
        for name, layout in layouts.items():
            with self.subTest(name):
                self.train(*self.flags(name), *flags, *layout, ranks=4 if name == "2d" else 2)
                found = self.losses(name)
                for step, loss in expected.items():
                    self.assertAlmostEqual(found[step], loss, delta=2e-5)
        # Another layout goes on, with the masks of an uninterrupted run.
        self.train(*self.flags("alone5"), *more)
        self.train(*self.flags("alone"), *more, "--parallel.pp=2", ranks=2)
        for step, loss in self.losses("alone5").items():
            self.assertAlmostEqual(self.losses("alone")[step], loss, delta=5e-5)
        evaluate = ["evaluate", self.newest("alone5"), f"--data={CORPUS}", "--json", "--train.threads=1", "--sequence-length=30",
                    "--precision.compute=fp32"]
        alone = json.loads(self.run_command(*evaluate).stdout)
        for layout in (["--parallel.tp=2"], ["--parallel.sp=2"], ["--parallel.pp=2"], []):
            shared = json.loads(self.run_command(*evaluate, "--ranks=2", *layout).stdout)
            self.assertEqual(shared["tokens"], alone["tokens"])
            self.assertAlmostEqual(shared["loss"], alone["loss"], delta=1e-5)

    def test_masks_are_those_of_the_tokenizer(self):
        folder = self.save("model", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        text = self.directory / "text.txt"
        text.write_text(" ".join(WORDS * 40))
        self.use_folder(folder)
        self.train(*self.flags(), f"--data.train={text}", "--train.steps=60", "--train.dropout=0",
                   "--optimizer.learning_rate=0.01", "--precision.compute=fp32")
        losses = self.losses()
        self.assertLess(losses[60], 0.5 * losses[1])
        saved = self.newest()
        model = AutoModelForMaskedLM.from_pretrained(saved, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(saved)
        given = tokenizer(" ".join(WORDS[:8]).replace("awful", "[MASK]"), add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            guess = model(**given).logits[given["input_ids"] == tokenizer.mask_token_id].argmax(-1)
        self.assertEqual(tokenizer.decode(guess), "awful")

    def test_labels_are_those_of_transformers(self):
        lines = texts(9)
        for family in [*ENCODERS, *DECODERS]:
            for problem in ["single_label_classification", "multi_label_classification", "regression"]:
                if problem != "single_label_classification" and family not in ("bert", "llama"):
                    continue
                with self.subTest(family=family, problem=problem):
                    torch.manual_seed(3)
                    config = config_of(family, num_labels=3, problem_type=problem, pad_token_id=1 if "roberta" in family else 0,
                                       id2label={0: "no", 1: "so-so", 2: "yes"}, label2id={"no": 0, "so-so": 1, "yes": 2})
                    folder = self.save(f"{family}-{problem}", AutoModelForSequenceClassification.from_config(config))
                    length = 12 if family == "bert" else 40  # some texts are longer than 12 tokens
                    expected = self.expected_scores(folder, lines, length)
                    found, _ = self.classify(folder, [{k: v for k, v in line.items() if k != "label"} for line in lines],
                                             f"--sequence-length={length}")
                    for line, given, scores in zip(found, lines, expected):
                        self.assertEqual(line["id"], given["id"])
                        if problem == "regression":
                            values = torch.tensor(line["prediction"])
                        else:
                            values = torch.tensor([line["probabilities"][name] for name in ("no", "so-so", "yes")])
                            scores = scores.softmax(-1) if problem[0] == "s" else scores.sigmoid()
                        self.assertLess((values - scores).abs().max().item(), 2e-5, (line, scores))

    def test_a_tuned_model_labels_texts_at_every_layout(self):
        folder = self.save("model", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        lines = texts(48)
        self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.write_lines("train.jsonl", lines)}"]\n')
        flags = ["--train.steps=40", "--optimizer.learning_rate=0.003", "--train.global_batch=12", "--train.dropout=0",
                 f"--data.validation={self.directory / 'train.jsonl'}"]
        losses = {}
        for name, ranks, layout in [("alone", 1, []), ("tp", 2, ["--parallel.tp=2"]), ("sp", 2, ["--parallel.sp=2"]),
                                    ("pp", 2, ["--parallel.pp=2"])]:
            self.tune(*flags, *layout, f"--checkpoint.directory={self.directory / name / 'checkpoints'}",
                      f"--log.directory={self.directory / name}", ranks=ranks)
            losses[name] = self.losses(name)
            for step in (1, 2, 3):
                self.assertAlmostEqual(losses[name][step], losses["alone"][step], delta=1e-4)
        last = self.metrics("alone")[40]
        self.assertGreaterEqual(last["accuracy"], 0.9)
        saved = self.newest("alone")
        found, summary = self.classify(saved, lines)
        right = sum(line["prediction"] == line["label"] for line in found)
        self.assertGreaterEqual(right, 44)
        self.assertIn(f"accuracy {right / 48:.6f}", summary)
        expected = self.expected_scores(saved, lines).softmax(-1)
        config = json.loads((saved / "config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(config["id2label"], {"0": "no", "1": "so-so", "2": "yes"})
        for ranks, layout in [(1, []), (2, ["--parallel.tp=2"]), (2, ["--parallel.sp=2"]), (2, ["--parallel.pp=2"]), (2, [])]:
            shared, _ = self.classify(saved, lines, f"--ranks={ranks}", *layout, "--batch=5")
            for line, probabilities in zip(shared, expected):
                values = torch.tensor(list(line["probabilities"].values()))
                self.assertLess((values - probabilities).abs().max().item(), 5e-5)
        shown = self.run_command("classify", saved, "--text=great film", "--pair=the plot was fine").stdout
        self.assertRegex(shown, r"^(no|so-so|yes)\n  0\.\d{4}  no\n  0\.\d{4}  so-so\n")
        # further training keeps the labels, whatever the lines have
        self.toml.write_text(f'[model]\npath = "{saved}"\n[data]\ntrain = ["{self.write_lines("few.jsonl", lines[:1])}"]\n')
        self.tune("--train.steps=1", "--train.global_batch=1", f"--checkpoint.directory={self.directory / 'more'}")
        more = json.loads((self.directory / "more" / "step-000001" / "config.json").read_text())
        self.assertEqual(more["id2label"], config["id2label"])
        self.write_lines("few.jsonl", [{"text": "x", "label": "perhaps"}])
        error = self.tune("--train.steps=1", "--train.global_batch=1", expect=2)
        self.assertIn("few.jsonl:1", error)
        self.assertIn("no, so-so, yes", error)

    def test_an_adapter_labels_texts(self):
        lines = texts(24)
        for family, head in (("bert", "classifier,pooler.dense"), ("llama", "score")):
            with self.subTest(family):
                kind = AutoModelForMaskedLM if family == "bert" else None
                config = config_of(family, vocab_size=90)
                if kind is None:
                    from transformers import AutoModelForCausalLM
                    kind = AutoModelForCausalLM
                folder = self.save(family, kind.from_config(config))
                self.toml.write_text(
                    f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.write_lines("train.jsonl", lines)}"]\n')
                run = self.directory / f"{family}-run"
                error = self.tune("--train.steps=2", "--adapter.kind=lora", expect=2)
                self.assertIn("adapter.modules_to_save", error)
                self.tune("--train.steps=4", "--train.global_batch=6", "--adapter.kind=lora", "--optimizer.learning_rate=0.01",
                          f"--adapter.modules_to_save={head}", f"--checkpoint.directory={run}")
                adapter = run / "step-000004"
                with_adapter, _ = self.classify(folder, lines, f"--adapter={adapter}")
                self.assertEqual(set(with_adapter[0]["probabilities"]), {"no", "so-so", "yes"})
                merged = self.directory / f"{family}-merged"
                self.run_command("convert", folder, merged, f"--merge-adapter={adapter}")
                whole, _ = self.classify(merged, lines)
                for a, b in zip(with_adapter, whole):
                    for x, y in zip(a["probabilities"].values(), b["probabilities"].values()):
                        self.assertAlmostEqual(x, y, delta=1e-5)
                expected = self.expected_scores(merged, lines).softmax(-1)
                for line, probabilities in zip(whole, expected):
                    values = torch.tensor(list(line["probabilities"].values()))
                    self.assertLess((values - probabilities).abs().max().item(), 5e-5)

    def test_folders_without_a_head_and_with_old_names_are_read(self):
        torch.manual_seed(2)
        for family in ENCODERS:
            with self.subTest(family):
                bare = self.save(f"{family}-bare", AutoModel.from_config(config_of(family, vocab_size=257)))
                self.use_folder(bare)
                self.train(*self.flags(f"{family}-run"), "--train.steps=1", "--optimizer.learning_rate=0",
                           "--data.tokenizer=bytes", expect=2)  # no row for a mask
                self.train(*self.flags(f"{family}-run"), "--train.steps=1", "--optimizer.learning_rate=0",
                           "--train.dropout=0", "--data.tokenizer=model", "--precision.compute=fp32")
                saved = self.newest(f"{family}-run")
                model = AutoModelForMaskedLM.from_pretrained(saved, dtype=torch.float32)
                for name, tensor in load_file(bare / "model.safetensors").items():
                    if "pooler" not in name:
                        self.assertTrue(torch.equal(model.base_model.state_dict()[name], tensor), name)
        old = self.save("old", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        tensors = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
                   for name, tensor in load_file(old / "model.safetensors").items()}
        new = AutoModelForMaskedLM.from_pretrained(old)
        save_file(tensors, old / "model.safetensors", {"format": "pt"})
        self.use_folder(old)
        self.train(*self.flags("old-run"), "--train.steps=1", "--optimizer.learning_rate=0", "--precision.compute=fp32")
        saved = AutoModelForMaskedLM.from_pretrained(self.newest("old-run"), dtype=torch.float32)
        for name, tensor in new.state_dict().items():
            self.assertTrue(torch.equal(saved.state_dict()[name], tensor), name)

    def test_what_an_encoder_cannot_do_is_refused(self):
        encoder = self.save("encoder", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        decoder = "gpt2-tiny"
        self.assertIn("predicts masked tokens only", self.refusal("generate", encoder, "--prompt=x"))
        self.assertIn("colossal tune classify", self.refusal("classify", encoder, "--text=x"))
        self.use_folder(encoder)
        error = self.run_command("tune", "sft", self.toml, "--train.steps=1", expect=2).stderr
        self.assertIn("is an encoder", error)
        self.assertIn("is an encoder", self.train("--data.objective=causal", expect=2))
        self.use(decoder)
        self.assertIn("is a decoder", self.train("--data.objective=masked", expect=2))
        labelled = self.save("labelled", AutoModelForSequenceClassification.from_config(config_of("bert", num_labels=2)))
        self.assertIn("colossal classify", self.refusal("evaluate", labelled, f"--data={CORPUS}"))
        self.assertIn("give either --text or --input", self.refusal("classify", labelled))


if __name__ == "__main__":
    unittest.main()
