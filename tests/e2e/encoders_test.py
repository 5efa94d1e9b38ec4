"""Encoders: trained on masked tokens, tuned to label texts, and compared with transformers."""
import json
import unittest

import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from encoder_models import DECODERS, ENCODERS, WORDS, EncoderTest, config_of, texts
from harness import CORPUS


class Encoders(EncoderTest):
    def test_masked_tokens_give_the_same_losses_at_other_layouts(self):
        self.use("bert-tiny")
        more = ["--train.steps=5", "--train.seed=3", "--precision.compute=fp32"]
        flags = ["--train.steps=3", f"--data.validation={CORPUS}", *more[1:]]
        self.train(*self.flags("alone"), *flags)
        expected = self.losses("alone")
        self.assertEqual(set(expected), {1, 2, 3})
        self.assertAlmostEqual(expected[1], 5.6, delta=0.3)  # about ln 258 at the start
        for name, layout in {"tp2": ["--parallel.tp=2"], "ring2": ["--parallel.sp=2"]}.items():
            with self.subTest(name):
                self.train(*self.flags(name), *flags, *layout, ranks=2)
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
        for layout in (["--parallel.tp=2"], []):
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
        for family in [*ENCODERS, *DECODERS]:
            with self.subTest(family):
                self.check_labels(family, "single_label_classification")

    def test_a_tuned_model_labels_texts_at_every_layout(self):
        folder = self.save("model", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        lines = texts(48)
        self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.write_lines("train.jsonl", lines)}"]\n')
        flags = ["--train.steps=100", "--optimizer.learning_rate=0.003", "--train.global_batch=12", "--train.dropout=0",
                 f"--data.validation={self.directory / 'train.jsonl'}"]
        losses = {}
        for name, ranks, layout in [("alone", 1, []), ("tp", 2, ["--parallel.tp=2"])]:
            self.tune(*flags, *layout, f"--checkpoint.directory={self.directory / name / 'checkpoints'}",
                      f"--log.directory={self.directory / name}", ranks=ranks)
            losses[name] = self.losses(name)
            for step in (1, 2, 3):
                self.assertAlmostEqual(losses[name][step], losses["alone"][step], delta=1e-4)
        last = self.metrics("alone")[100]
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

    def test_what_an_encoder_cannot_do_is_refused(self):
        encoder = self.save("encoder", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        decoder = "gpt2-tiny"
        self.assertIn("predicts masked tokens only", self.refusal("generate", encoder, "--prompt=x"))
        self.assertIn("colossal tune classify", self.refusal("classify", encoder, "--text=x"))
        self.use_folder(encoder)
        error = self.run_command("tune", "sft", self.toml, "--train.steps=1", expect=2).stderr
        self.assertIn("is an encoder", error)
        self.assertIn("is an encoder", self.train("--data.objective=causal", expect=2))
        self.assertIn('use adapter.kind = "lora"', self.train("--adapter.kind=prefix", expect=2))
        self.use(decoder)
        self.assertIn("is a decoder", self.train("--data.objective=masked", expect=2))
        labelled = self.save("labelled", AutoModelForSequenceClassification.from_config(config_of("bert", num_labels=2)))
        self.assertIn("colossal classify", self.refusal("evaluate", labelled, f"--data={CORPUS}"))
        self.assertIn("give one of --text, --image and --input", self.refusal("classify", labelled))
        lines = [{"text": "great", "prediction": "mine"}]
        path = self.write_lines("in.jsonl", lines)
        self.assertIn("is the input", self.refusal("classify", labelled, f"--input={path}", f"--output={path}"))
        self.assertEqual(self.classify(labelled, lines)[0][0]["input_prediction"], "mine")

    def test_a_batch_of_embeddings(self):
        encoder = self.save("encoder", AutoModelForMaskedLM.from_config(config_of("bert", vocab_size=90)))
        path = self.write_lines("in.jsonl", [
            {"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"input": ["great", "the plot"]}},
            {"custom_id": "b", "method": "POST", "url": "/v1/completions", "body": {"prompt": "great"}}])
        output = self.directory / "out.jsonl"
        self.run_command("generate", encoder, f"--input={path}", f"--output={output}", "--invalid=skip")
        embedded, refused = map(json.loads, output.read_text().splitlines())
        self.assertEqual(len(embedded["response"]["body"]["data"]), 2)
        self.assertIn("predicts no next token", refused["error"]["message"])


if __name__ == "__main__":
    unittest.main()
