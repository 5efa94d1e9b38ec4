"""Vision transformers: pretrained and tuned on images, asked for labels, and compared with transformers."""
import json
import pathlib
import random
import shutil
import subprocess
import unittest

import torch
from peft import PeftConfig, PeftModel
from PIL import Image
from safetensors.torch import load_file
from transformers import (AutoImageProcessor, AutoModelForImageClassification, AutoModelForMaskedImageModeling, CLIPConfig,
                          CLIPImageProcessor, CLIPModel, DeiTConfig, Dinov2Config, SiglipConfig, SiglipImageProcessor,
                          SiglipModel, ViTConfig, ViTImageProcessor)

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

    def test_an_adapter_labels_images_as_peft_does(self):
        tower = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52)
        texts = dict(vocab_size=64, max_position_embeddings=8, **tower)
        CLIPModel(CLIPConfig(vision_config=dict(image_size=16, patch_size=4, **tower), text_config=texts)).save_pretrained(
            self.directory / "clip")
        self.toml.write_text(f'[model]\npath = "{self.directory / "clip"}"\n[data]\ntrain = ["{self.directory / "train"}"]\n')
        self.tune("base", "--train.steps=20", "--train.global_batch=12", "--optimizer.learning_rate=0.003")
        base = self.newest("base")
        self.toml.write_text(f'[model]\npath = "{base}"\n[data]\ntrain = ["{self.directory / "train"}"]\n'
                             '[adapter]\nkind = "lora"\ndropout = 0.0\n')
        self.tune("lora", "--train.steps=4", "--train.global_batch=12", "--optimizer.learning_rate=0.01", "--precision.compute=fp32")
        lines, summary = self.predictions(base, f"--adapter={self.newest('lora')}")
        self.assertEqual(summary["images"], 18)
        merged = self.directory / "merged"
        model = AutoModelForImageClassification.from_pretrained(base, dtype=torch.float32)
        config = PeftConfig.from_pretrained(self.newest("lora"))
        config.task_type = None  # peft's task of classification also reads a head, which stays that of the base here
        opened = PeftModel.from_pretrained(model, self.newest("lora"), config=config)
        opened.merge_and_unload().save_pretrained(merged)
        shutil.copy(base / "preprocessor_config.json", merged)
        for line, expected in zip(lines, self.transformers_probabilities(merged, lines)):
            for label, share in expected.items():
                self.assertAlmostEqual(line["probabilities"][label], share, delta=2e-5)

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
        self.assertIn("leave data.mask_block out", refusal("--data.mask_block=4"))
        (self.directory / "test" / "violet").mkdir()
        picture("red", random.Random(1)).save(self.directory / "test" / "violet" / "0.png")
        self.assertIn("violet", refusal())


def stripes(source, size=16):
    """Stripes of a random direction, width and colour: a part of them tells the rest."""
    across, width, channel = source.randrange(2), source.choice((2, 4)), source.randrange(3)
    pixels = bytearray(3 * size * size)
    for y in range(size):
        for x in range(size):
            if (x if across else y) // width % 2:
                pixels[3 * (y * size + x) + channel] = 255
    return Image.frombytes("RGB", (size, size), bytes(pixels))


class MaskedImagesTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        source = random.Random(5)
        for split, count in (("train", 24), ("test", 10)):
            folder = self.directory / split / "more"
            folder.mkdir(parents=True)
            for i in range(count):
                stripes(source).save((folder if i % 3 == 0 else folder.parent) / f"{i}.png")
        self.write_model('preset = "vit-tiny"\nimage_size = 16\npatch_size = 4\nhidden_size = 36\nnum_hidden_layers = 2\n'
                         'num_attention_heads = 3\nintermediate_size = 52')

    def write_model(self, model):
        self.toml.write_text(f"""[model]
{model}
[data]
train = ["{self.directory / 'train'}"]
validation = ["{self.directory / 'test'}"]
augment = ["flip"]
[train]
global_batch = 12
threads = 1
[scheduler]
name = "constant"
""")

    def pretrain(self, name, *flags, ranks=1, expect=0):
        return self.train(f"--log.directory={self.directory / name}",
                          f"--checkpoint.directory={self.directory / name / 'checkpoints'}", *flags, ranks=ranks, expect=expect)

    def plan(self, *flags, expect=0):
        done = subprocess.run([str(COLOSSAL), "plan", str(self.toml), "--json", *flags], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return json.loads(done.stdout) if expect == 0 else done.stderr

    def opened(self, folder, **settings):
        """The folder's model in transformers, which must find each weight, and no others."""
        model, found = AutoModelForMaskedImageModeling.from_pretrained(folder, output_loading_info=True, **settings)
        self.assertEqual([*found["missing_keys"], *found["unexpected_keys"], *found["mismatched_keys"]], [])
        return model.eval()

    def test_a_pretrained_model_reconstructs_opens_in_transformers_and_learns_classes(self):
        self.pretrain("run", "--train.steps=300", "--optimizer.learning_rate=0.004", "--train.evaluate_every=150")
        metrics = self.metrics("run")
        self.assertEqual(metrics[1]["images"], 12)
        self.assertLess(metrics[300]["loss"], 0.5 * metrics[1]["loss"])
        self.assertLess(metrics[300]["validation_loss"], 0.5 * metrics[1]["loss"])
        report = (self.directory / "run" / "report.html").read_text()
        self.assertEqual(report.count("<img alt"), 8)
        self.assertRegex(report, r"<figcaption>original, masked, reconstructed; error \d\.\d{3}")
        self.assertIn("10 of 16 blocks of 4 x 4 pixels", report)
        folder = self.newest("run")
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["ViTForMaskedImageModeling"])
        self.assertEqual(config["encoder_stride"], 4)
        self.assertNotIn("id2label", config)
        model = self.opened(folder, dtype=torch.float32)
        images = [Image.open(path) for path in sorted((self.directory / "test").glob("**/*.png"))]
        pixels = AutoImageProcessor.from_pretrained(folder, backend="pil")(images, return_tensors="pt").pixel_values
        generator = torch.Generator().manual_seed(1)
        masks = torch.rand(len(images), 16, generator=generator).argsort(1) < 10
        with torch.no_grad():
            loss = model(pixels, bool_masked_pos=masks).loss.item()
        # other masks of the same images, in another precision
        self.assertAlmostEqual(loss, metrics[300]["validation_loss"], delta=0.3 * loss)
        # The encoder of the folder goes on with a new head.
        for kind in ("one", "other"):
            (self.directory / "classes" / kind).mkdir(parents=True)
            for i in range(6):
                stripes(random.Random(i)).save(self.directory / "classes" / kind / f"{i}.png")
        tuned = self.directory / "tuned"
        self.write_model(f'path = "{folder}"')
        done = subprocess.run([str(COLOSSAL), "tune", "classify", str(self.toml), f"--data.train={self.directory / 'classes'}",
                               "--data.validation=", "--train.steps=1", "--optimizer.learning_rate=1e-9",
                               f"--checkpoint.directory={tuned}"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        before, after = ({name: weight for saved in step.glob("*.safetensors") for name, weight in load_file(saved).items()}
                         for step in (folder, tuned / "step-000001"))
        self.assertEqual(before.keys() - after.keys(), {"decoder.0.weight", "decoder.0.bias", "vit.embeddings.mask_token"})
        self.assertEqual(after.keys() - before.keys(), {"classifier.weight", "classifier.bias"})
        for name in before.keys() & after.keys():
            torch.testing.assert_close(after[name].float(), before[name].float(), rtol=1e-2, atol=1e-3)
        AutoModelForImageClassification.from_pretrained(tuned / "step-000001")

    def test_training_is_the_same_at_every_layout_and_after_a_resumption(self):
        steps = ["--train.steps=4", "--precision.compute=fp32"]
        self.pretrain("alone", *steps)
        expected = self.losses("alone")
        evaluated = self.metrics("alone")[4]["validation_loss"]
        layouts = {"dp2": [], "tp2": ["--parallel.tp=2"], "ring2": ["--parallel.sp=2"], "pp2": ["--parallel.pp=2"],
                   "zero3": ["--parallel.zero=3"]}
        for name, layout in layouts.items():
            with self.subTest(name):
                self.pretrain(name, *steps, *layout, ranks=2)
                for step, loss in expected.items():
                    self.assertAlmostEqual(self.losses(name)[step], loss, delta=2e-5)
                self.assertAlmostEqual(self.metrics(name)[4]["validation_loss"], evaluated, delta=2e-5)
                self.assertEqual((self.directory / name / "report.html").read_text().count("<img alt"), 8)
        self.pretrain("parts", *steps, "--train.steps=2")
        self.pretrain("parts", *steps)
        self.assertEqual(self.losses("parts"), expected)
        self.assert_same_weights(self.newest("parts"), self.newest("alone"))
        self.pretrain("moved", *steps, "--train.steps=2")
        self.pretrain("moved", *steps, "--parallel.sp=2", ranks=2)
        for step, loss in expected.items():
            self.assertAlmostEqual(self.losses("moved")[step], loss, delta=2e-5)
        # The settings that a run writes start it again.
        settings = self.newest("alone") / "training_state" / "run.toml"
        self.assertIn("mask_block = 4", settings.read_text())
        self.toml = settings
        self.pretrain("again")
        self.assertEqual(self.losses("again"), expected)

    def test_folders_of_transformers_are_read_and_written(self):
        sizes = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52, image_size=16, patch_size=4)
        for family, kind in (("vit", ViTConfig), ("deit", DeiTConfig)):
            with self.subTest(family):
                folder = self.directory / family
                model = AutoModelForMaskedImageModeling.from_config(kind(encoder_stride=4, **sizes))
                with torch.no_grad():
                    getattr(model, family).embeddings.mask_token.normal_()
                model.save_pretrained(folder)
                self.write_model(f'path = "{folder}"')
                self.pretrain(f"{family}-run", "--train.steps=1", "--optimizer.learning_rate=1e-12", "--precision.compute=fp32")
                saved = self.opened(self.newest(f"{family}-run")).state_dict()
                for name, weight in model.state_dict().items():
                    torch.testing.assert_close(saved[name], weight, rtol=0, atol=1e-9)
        # A folder with classes gets a mask token and a new head.
        classifier = AutoModelForImageClassification.from_config(ViTConfig(num_labels=3, **sizes))
        classifier.save_pretrained(self.directory / "classifier")
        self.write_model(f'path = "{self.directory / "classifier"}"')
        self.pretrain("on", "--train.steps=1", "--optimizer.learning_rate=1e-12", "--precision.compute=fp32")
        saved = self.opened(self.newest("on")).state_dict()
        for name, weight in classifier.state_dict().items():
            if name.startswith("vit."):
                torch.testing.assert_close(saved[name], weight, rtol=0, atol=1e-9)

    def test_a_plan_knows_the_model(self):
        self.pretrain("run", "--train.steps=3")
        step = self.metrics("run")[3]
        plan = self.plan()
        self.assertAlmostEqual(plan["memory_at_peak"] / step["memory_at_peak"], 1, delta=0.05)
        self.assertIn("data.mask_block = 6", self.plan("--data.mask_block=6", expect=2))
        # What gives images classes has a head of its own.
        self.assertNotEqual(self.plan("--classify")["parameters"], plan["parameters"])
        self.write_model('preset = "dinov2-small"')
        self.assertIn("colossal tune classify", self.plan(expect=2))
        self.plan("--classify")
        self.write_model('preset = "gpt2-tiny"')
        self.toml.write_text(self.toml.read_text().replace('augment = ["flip"]\n', ""))
        self.assertIn("--classify: the model, of family gpt2, reads no images", self.plan("--classify", expect=2))

    def test_errors_say_what_would_work(self):
        def refusal(*flags):
            return self.pretrain("refused", "--train.steps=1", *flags, expect=2)
        self.assertIn("not a multiple of the model's patch_size = 4; use 4", refusal("--data.mask_block=6"))
        self.assertIn("use data.mask_block = 4", refusal("--data.mask_block=16"))
        self.assertIn("reads images, not texts", refusal("--data.tokenizer=bytes"))
        self.assertIn("reads images, not texts", refusal("--data.objective=masked"))
        self.assertIn("leave it out", refusal('--data.augment=["mixup"]'))
        self.assertIn("encoder_stride", refusal("--model.encoder_stride=8"))
        self.assertIn("pretraining on images learns no classes; leave it out", refusal("--model.num_labels=3"))
        (self.directory / "empty").mkdir()
        self.assertIn("has no images", refusal(f"--data.train={self.directory / 'empty'}"))
        self.write_model('preset = "dinov2-small"')
        self.assertIn("use a model of family vit or deit, or train this one with colossal tune classify", refusal())


if __name__ == "__main__":
    unittest.main()
