"""Vision transformers: tuned on images, asked for labels, and compared with transformers."""
import json
import pathlib
import random
import subprocess
import unittest

import torch
from PIL import Image
from transformers import (AutoImageProcessor, AutoModelForImageClassification, CLIPConfig, CLIPImageProcessor, CLIPModel,
                          Dinov2Config, SiglipConfig, SiglipImageProcessor, SiglipModel, ViTConfig, ViTImageProcessor)

from harness import COLOSSAL, EndToEndTest

CLASSES = ("blue", "green", "red")


def picture(kind, source, size=(20, 16)):
    """Noise in which one colour is brighter."""
    pixels = [source.randrange(160) for _ in range(size[0] * size[1] * 3)]
    channel = 2 - CLASSES.index(kind)
    for i in range(channel, len(pixels), 3):
        pixels[i] += 60
    return Image.frombytes("RGB", size, bytes(pixels))


class VisionTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        source = random.Random(3)
        for split, count in (("train", 20), ("test", 6)):
            for kind in CLASSES:
                folder = self.directory / split / kind
                folder.mkdir(parents=True)
                for i in range(count):
                    picture(kind, source).save(folder / f"{i}.{'png' if i % 2 else 'jpg'}", quality=95)
        self.toml.write_text(f"""
            [model]
            preset = "vit-tiny"
            image_size = [12, 16]
            patch_size = 4
            hidden_size = 36
            num_hidden_layers = 2
            num_attention_heads = 3
            intermediate_size = 52
            [data]
            train = ["{self.directory / 'train'}"]
            validation = ["{self.directory / 'test'}"]
            augment = ["random_crop", "flip", "color_jitter"]
            [train]
            global_batch = 12
            threads = 1
            [precision]
            compute = "fp32"
            """)

    def run_command(self, *arguments, expect=0):
        done = subprocess.run([str(COLOSSAL), *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def tune(self, name, *flags, ranks=1, expect=0):
        return self.run_command("tune", "classify", self.toml, f"--ranks={ranks}", f"--log.directory={self.directory / name}",
                                f"--checkpoint.directory={self.directory / name / 'checkpoints'}", *flags, expect=expect)

    def predictions(self, folder, *flags):
        output = self.directory / "predictions.jsonl"
        done = self.run_command("classify", folder, "--input", self.directory / "test", "--output", output, "--json",
                                "--precision.compute=fp32", *flags)
        return [json.loads(line) for line in output.read_text().splitlines()], json.loads(done.stdout)

    def transformers_probabilities(self, folder, lines):
        model = AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        images = [Image.open(line["image"]).convert("RGB") for line in lines]
        with torch.no_grad():
            shares = model(**processor(images, return_tensors="pt")).logits.softmax(-1)
        return [{model.config.id2label[i]: share for i, share in enumerate(row)} for row in shares.tolist()]

    def check_predictions(self, folder, *flags):
        lines, summary = self.predictions(folder, *flags)
        self.assertEqual(len(lines), 18)
        for line, expected in zip(lines, self.transformers_probabilities(folder, lines)):
            self.assertEqual(line["probabilities"].keys(), expected.keys())
            for label, share in expected.items():
                self.assertAlmostEqual(line["probabilities"][label], share, delta=2e-5)
        return lines, summary

    def test_training_is_the_same_at_every_layout_and_goes_on(self):
        steps = ["--train.steps=6"]
        self.tune("alone", *steps)
        expected = self.losses("alone")
        self.assertAlmostEqual(expected[1], 1.1, delta=0.1)  # about ln 3 at the start
        layouts = {"dp2": [], "tp2": ["--parallel.tp=2"], "ring2": ["--parallel.sp=2"], "pp2": ["--parallel.pp=2"],
                   "zero3": ["--parallel.zero=3"]}
        for name, layout in layouts.items():
            with self.subTest(name):
                self.tune(name, *steps, *layout, ranks=2)
                for step, loss in expected.items():
                    self.assertAlmostEqual(self.losses(name)[step], loss, delta=2e-5)
        # Another layout goes on, with the augmentations of an uninterrupted run.
        self.tune("parts", "--train.steps=3", "--scheduler.name=constant")
        self.tune("parts", "--train.steps=6", "--scheduler.name=constant", "--parallel.tp=2", ranks=2)
        self.tune("whole", "--train.steps=6", "--scheduler.name=constant")
        for step, loss in self.losses("whole").items():
            self.assertAlmostEqual(self.losses("parts")[step], loss, delta=2e-5)

    def test_a_tuned_model_labels_images_as_transformers_does(self):
        self.tune("run", "--train.steps=60", "--optimizer.learning_rate=0.003")
        metrics = self.metrics("run")
        self.assertEqual(metrics[60]["images"], 12)
        self.assertEqual(metrics[60]["tokens"], 12 * 13)
        self.assertGreater(metrics[60]["accuracy"], 0.9)
        self.assertGreaterEqual(metrics[60]["validation_accuracy"], 17 / 18 - 1e-9)
        report = (self.directory / "run" / "report.html").read_text()
        self.assertEqual(report.count("<img alt"), 18)
        self.assertRegex(report, r"<figcaption>(red|green|blue) \d+ %")
        folder = self.newest("run")
        lines, summary = self.check_predictions(folder)
        self.assertGreaterEqual(sum(line["prediction"] == line["label"] for line in lines), 17)
        self.assertEqual(summary["images"], 18)
        self.assertLess(summary["loss"], 0.5)
        self.check_predictions(folder, "--ranks=2", "--parallel.tp=2")
        self.check_predictions(folder, "--ranks=2", "--parallel.dp=2", "--batch=4")
        one = self.run_command("classify", folder, "--image", self.directory / "test" / "red" / "0.jpg")
        self.assertEqual(one.stdout.splitlines()[0], "red")
        for command in (["serve"], ["generate", "--prompt=red"], ["evaluate", f"--data={__file__}"]):
            refused = self.run_command(command[0], folder, *command[1:], expect=2)
            self.assertIn(f"reads images, but colossal {command[0]} needs a model that reads texts; "
                          "use colossal classify", refused.stderr)

    def test_folders_of_transformers_get_a_new_head_for_other_classes(self):
        sizes = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, patch_size=4, num_labels=7)
        configs = {"vit": ViTConfig(intermediate_size=52, image_size=16, **sizes),
                   "dinov2": Dinov2Config(mlp_ratio=2, image_size=16, **sizes)}
        for family, config in configs.items():
            with self.subTest(family):
                folder = self.directory / family
                AutoModelForImageClassification.from_config(config).save_pretrained(folder)
                ViTImageProcessor(size={"height": 16, "width": 16}, resample=3).save_pretrained(folder)
                self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.directory / "train"}"]\n')
                done = self.tune(f"run-{family}", "--train.steps=2", "--train.global_batch=6", "--precision.compute=fp32")
                self.assertIn("7 labels", done.stderr)
                saved = self.newest(f"run-{family}")
                self.assertEqual(AutoImageProcessor.from_pretrained(saved, backend="pil").resample, 3)
                self.check_predictions(saved)

    def test_the_tower_for_images_of_a_folder_with_two_is_tuned(self):
        tower = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52)
        images = dict(image_size=16, patch_size=4, **tower)
        texts = dict(vocab_size=64, max_position_embeddings=8, **tower)
        clip = CLIPModel(CLIPConfig(vision_config=images, text_config=texts, projection_dim=8))
        siglip = SiglipModel(SiglipConfig(vision_config=images, text_config=texts))
        size = {"height": 16, "width": 16}
        for model, processor in ((clip, CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=size)),
                                 (siglip, SiglipImageProcessor(size=size))):
            family = model.config.model_type
            with self.subTest(family):
                folder = self.directory / family
                model.save_pretrained(folder)
                processor.save_pretrained(folder)
                self.toml.write_text(f'[model]\npath = "{folder}"\n[data]\ntrain = ["{self.directory / "train"}"]\n')
                self.tune(f"run-{family}", "--train.steps=30", "--train.global_batch=6", "--precision.compute=fp32",
                          "--optimizer.learning_rate=0.001", "--train.dropout=0.1")
                losses = self.losses(f"run-{family}")
                self.assertLess(losses[30], 0.7 * losses[1])
                saved = self.newest(f"run-{family}")
                opened, told = AutoModelForImageClassification.from_pretrained(saved, output_loading_info=True)
                self.assertFalse(told["missing_keys"] or told["unexpected_keys"] or told["mismatched_keys"], told)
                self.assertEqual(opened.config.vision_config.attention_dropout, 0.1)
                self.assertEqual(opened.config.text_config.vocab_size, 64)
                self.check_predictions(saved)
        # A folder of the first releases has the whole towers' fields a second time, and these count.
        config = json.loads((self.directory / "clip" / "config.json").read_text())
        config["vision_config_dict"] = config["vision_config"]
        config["vision_config"] = {"hidden_size": 12}
        (self.directory / "clip" / "config.json").write_text(json.dumps(config))
        self.toml.write_text(f'[model]\npath = "{self.directory / "clip"}"\n[data]\ntrain = ["{self.directory / "train"}"]\n')
        self.tune("old", "--train.steps=1", "--train.global_batch=6", "--precision.compute=fp32")
        config["vision_config_dict"]["hidden_size"] = 37
        (self.directory / "clip" / "config.json").write_text(json.dumps(config))
        self.assertIn("vision_config: hidden_size = 37 is not a multiple", self.tune("bad", "--train.steps=1", expect=2).stderr)

    def test_errors_say_what_would_work(self):
        def refusal(*flags):
            return self.tune("refused", "--train.steps=1", *flags, expect=2).stderr
        self.assertIn("reads images, not texts", refusal("--data.tokenizer=bytes"))
        self.assertIn("an image has 13 tokens", refusal("--data.sequence_length=64"))
        self.assertIn("random_crop", refusal("--data.augment=[\"rotate\"]"))
        self.assertIn("colossal tune classify", self.train(expect=2))
        (self.directory / "test" / "violet").mkdir()
        picture("red", random.Random(1)).save(self.directory / "test" / "violet" / "0.png")
        self.assertIn("violet", refusal())


if __name__ == "__main__":
    unittest.main()
