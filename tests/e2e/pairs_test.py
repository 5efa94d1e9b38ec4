"""Models of two towers: trained on images with texts, and compared with transformers."""
import json
import random
import shutil
import subprocess
import unittest

import torch
from peft import PeftModel
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

from harness import COLOSSAL, EndToEndTest

COLOURS = {"red": (220, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 220), "yellow": (220, 220, 40)}
PLACES = {"left": (1, 4), "right": (9, 4), "top": (5, 1), "bottom": (5, 9)}
TOWER = dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52)
TEXTS = dict(vocab_size=257, eos_token_id=256, pad_token_id=1, max_position_embeddings=24, **TOWER)


def picture(colour, place, source):
    """A square of one colour at one place, on a noisy ground."""
    image = Image.frombytes("RGB", (16, 16), bytes(source.randrange(90) for _ in range(16 * 16 * 3)))
    left, top = PLACES[place]
    image.paste(COLOURS[colour], (left, top, left + 6, top + 6))
    return image


class PairsTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        source = random.Random(4)
        for split, count in (("train", 64), ("test", 10)):
            folder = self.directory / split
            folder.mkdir()
            lines = []
            kinds = [(colour, place) for colour in COLOURS for place in PLACES]  # no two of the test set are the same
            source.shuffle(kinds)
            for i in range(count):
                colour, place = kinds[i % len(kinds)]
                picture(colour, place, source).save(folder / f"{i}.png")
                text = source.choice((f"a {colour} square, {place}", f"{place}: {colour}"))
                lines.append(json.dumps({"image": f"{split}/{i}.png", "text": text}))
            (self.directory / f"{split}.jsonl").write_text("\n".join(lines) + "\n")

    def write_model(self, model):
        self.toml.write_text(f"""[model]
{model}
[data]
train = ["{self.directory / 'train.jsonl'}"]
validation = ["{self.directory / 'test.jsonl'}"]
[train]
global_batch = 12
threads = 1
[precision]
compute = "fp32"
[scheduler]
name = "constant"
""")

    def write_preset(self, family):
        preset = {"clip": "clip-vit-base-patch32", "siglip": "siglip-base-patch16"}[family]
        def table(fields):
            return "{ " + ", ".join(f"{name} = {value}" for name, value in fields.items()) + " }"
        images = table(dict(image_size=16, patch_size=4, **TOWER))
        self.write_model(f'preset = "{preset}"\nvision_config = {images}\ntext_config = {table(TEXTS)}')

    def pretrain(self, name, *flags, ranks=1, expect=0):
        return self.train(f"--log.directory={self.directory / name}",
                          f"--checkpoint.directory={self.directory / name / 'checkpoints'}", *flags, ranks=ranks, expect=expect)

    def opened(self, folder):
        """The folder's model in transformers, which must find each weight, and no others."""
        model, found = AutoModel.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
        self.assertEqual([*found["missing_keys"], *found["unexpected_keys"], *found["mismatched_keys"]], [])
        return model.eval()

    def result_of_transformers(self, folder, texts=None):
        """Of the images of the test set, and their texts or others, as one batch."""
        model = self.opened(folder)
        lines = [json.loads(line) for line in (self.directory / "test.jsonl").read_text().splitlines()]
        images = [Image.open(self.directory / line["image"]) for line in lines]
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        length = TEXTS["max_position_embeddings"]
        rows = [list(text.encode()) for text in texts or [line["text"] for line in lines]]
        if model.config.model_type == "clip":
            rows = [row[:length - 1] + [256] for row in rows]
        tokens = torch.tensor([row[:length] + [1] * (length - len(row)) for row in rows])
        with torch.no_grad():
            return model(input_ids=tokens, pixel_values=processor(images, return_tensors="pt").pixel_values, return_loss=texts is None)

    def test_what_is_trained_is_what_transformers_computes(self):
        for family in ("clip", "siglip"):
            with self.subTest(family):
                self.write_preset(family)
                self.pretrain(family, "--train.steps=150", "--optimizer.learning_rate=0.003", "--train.evaluate_every=75")
                metrics = self.metrics(family)
                self.assertEqual(metrics[1]["images"], 12)
                self.assertLess(metrics[150]["loss"], 0.6 * metrics[1]["loss"])
                folder = self.newest(family)
                result = self.result_of_transformers(folder)
                self.assertAlmostEqual(metrics[150]["validation_loss"], result.loss.item(), delta=2e-5)
                right = result.logits_per_image.argmax(1) == torch.arange(10)
                self.assertAlmostEqual(metrics[150]["validation_accuracy"], right.double().mean().item(), delta=1e-6)
                report = (self.directory / family / "report.html").read_text()
                self.assertEqual(report.count("<img alt"), 10)
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual(config["architectures"], ["CLIPModel" if family == "clip" else "SiglipModel"])
                # Training goes on from such a folder, and its tower for images learns classes.
                self.write_model(f'path = "{folder}"')
                self.pretrain(f"{family}-on", "--train.steps=1", "--optimizer.learning_rate=1e-12")
                saved = self.opened(self.newest(f"{family}-on")).state_dict()
                for name, weight in self.opened(folder).state_dict().items():
                    torch.testing.assert_close(saved[name], weight, rtol=0, atol=1e-9)

    def probabilities(self, folder, *flags):
        """Of each image of the test set, and of each kind of text, as classify finds them and as transformers does."""
        labels = [f"{colour} square at the {place}" for colour in COLOURS for place in PLACES]
        done = subprocess.run([str(COLOSSAL), "classify", str(folder), "--input", str(self.directory / "test.jsonl"), "--template=a {}",
                               "--precision.compute=fp32", *[f"--label={label}" for label in labels], *flags],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = [json.loads(line)["probabilities"] for line in done.stdout.splitlines() if line.startswith("{")]
        return torch.tensor([[row[label] for label in labels] for row in found]), [f"a {label}" for label in labels]

    def test_images_are_given_the_most_similar_text(self):
        for family in ("clip", "siglip"):
            with self.subTest(family):
                self.write_preset(family)
                self.pretrain(family, "--train.steps=20", "--optimizer.learning_rate=0.003")
                folder = self.newest(family)
                found, texts = self.probabilities(folder)
                expected = self.result_of_transformers(folder, texts).logits_per_image.softmax(-1)
                torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
                for layout in (["--parallel.tp=2"], ["--parallel.pp=2"], ["--parallel.dp=2", "--batch=3"]):
                    again, _ = self.probabilities(folder, "--ranks=2", *layout)
                    torch.testing.assert_close(again, expected, rtol=0, atol=2e-5)
        # Without --label the classes of the images are the texts.
        lines = [json.loads(line) for line in (self.directory / "test.jsonl").read_text().splitlines()]
        kinds = [{"image": line["image"], "label": line["text"]} for line in lines]
        (self.directory / "kinds.jsonl").write_text("\n".join(map(json.dumps, kinds)) + "\n")
        done = subprocess.run([str(COLOSSAL), "classify", str(folder), "--input", str(self.directory / "kinds.jsonl"), "--json",
                               "--output", str(self.directory / "chosen.jsonl"), "--precision.compute=fp32"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        right = self.result_of_transformers(folder).logits_per_image.argmax(1) == torch.arange(10)
        self.assertAlmostEqual(json.loads(done.stdout)["accuracy"], right.double().mean().item(), delta=1e-9)
        refused = subprocess.run([str(COLOSSAL), "classify", str(folder), "--input", str(self.directory / "test.jsonl")],
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("give the texts to choose from, each with --label", refused.stderr)

    def test_training_is_the_same_at_every_layout_and_goes_on(self):
        steps = ["--train.steps=4", "--train.dropout=0.1", "--train.evaluate_every=4"]
        layouts = {"dp2": [], "parts": ["--train.micro_batch=1"], "tp2": ["--parallel.tp=2"], "ring2": ["--parallel.sp=2"],
                   "pp2": ["--parallel.pp=2", "--train.micro_batch=2"], "zero3": ["--parallel.zero=3"]}
        for family in ("clip", "siglip"):
            self.write_preset(family)
            self.pretrain(f"{family}-alone", *steps)
            expected = self.losses(f"{family}-alone")
            evaluated = self.metrics(f"{family}-alone")[4]["validation_loss"]
            for name, layout in layouts.items():
                with self.subTest(f"{family} {name}"):
                    name = f"{family}-{name}"
                    self.pretrain(name, *steps, *layout, ranks=2)
                    for step, loss in expected.items():
                        self.assertAlmostEqual(self.losses(name)[step], loss, delta=3e-5)
                    self.assertAlmostEqual(self.metrics(name)[4]["validation_loss"], evaluated, delta=3e-5)
            self.pretrain(f"{family}-on", *steps, "--train.steps=2")
            self.pretrain(f"{family}-on", *steps)
            self.assertEqual(self.losses(f"{family}-on"), expected)
            self.assert_same_weights(self.newest(f"{family}-on"), self.newest(f"{family}-alone"))

    def test_folders_of_transformers_are_read_and_written(self):
        images = dict(image_size=16, patch_size=4, **TOWER)
        clip = CLIPModel(CLIPConfig(vision_config=images, text_config=TEXTS, projection_dim=20))
        siglip = SiglipModel(SiglipConfig(vision_config=images, text_config=TEXTS))
        for model in (clip, siglip):
            family = model.config.model_type
            with self.subTest(family):
                model.save_pretrained(self.directory / family)
                self.write_model(f'path = "{self.directory / family}"')
                self.pretrain(f"{family}-run", "--train.steps=1", "--optimizer.learning_rate=1e-12")
                saved = self.opened(self.newest(f"{family}-run")).state_dict()
                for name, weight in model.state_dict().items():
                    torch.testing.assert_close(saved[name], weight, rtol=0, atol=1e-9)

    def test_adapters_and_quantized_weights(self):
        self.write_preset("clip")
        self.pretrain("base", "--train.steps=20", "--optimizer.learning_rate=0.003")
        base = self.newest("base")
        self.write_model(f'path = "{base}"')
        self.toml.write_text(self.toml.read_text() + '[adapter]\nkind = "lora"\ndropout = 0.0\n')
        self.pretrain("lora", "--train.steps=4", "--optimizer.learning_rate=0.01")
        adapter = self.newest("lora")
        found, texts = self.probabilities(base, f"--adapter={adapter}")
        opened = PeftModel.from_pretrained(self.opened(base), adapter).eval()
        merged = self.directory / "merged"
        opened.merge_and_unload().save_pretrained(merged)
        for file in ("preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(base / file, merged / file)
        expected = self.result_of_transformers(merged, texts).logits_per_image.softmax(-1)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
        without, _ = self.probabilities(base)
        self.assertGreater((found - without).abs().max().item(), 1e-3)
        rounded, _ = self.probabilities(base, "--quantize=int8")
        torch.testing.assert_close(rounded, without, rtol=0, atol=0.05)

    def test_a_plan_knows_both_towers(self):
        for family in ("clip", "siglip"):
            self.write_preset(family)
            self.pretrain(family, "--train.steps=3")
            done = subprocess.run([str(COLOSSAL), "plan", str(self.toml), "--json"], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            plan = json.loads(done.stdout)
            self.assertAlmostEqual(plan["memory_at_peak"] / self.metrics(family)[3]["memory_at_peak"], 1, delta=0.05)
            self.assertEqual(plan["parameters"], sum(p.numel() for p in self.opened(self.newest(family)).parameters()))

    def test_errors_say_what_would_work(self):
        self.write_preset("clip")
        def refusal(*flags):
            return self.pretrain("refused", "--train.steps=1", *flags, expect=2)
        self.assertIn("leave it out", refusal('--data.augment=["mixup"]'))
        self.assertIn("leave data.mask_block out", refusal("--data.mask_block=4"))
        self.assertIn("leave data.objective out", refusal("--data.objective=causal"))
        (self.directory / "bare.jsonl").write_text(json.dumps({"image": "train/0.png"}) + "\n")
        self.assertIn('rows have it in "text" or "caption"', refusal(f"--data.train={self.directory / 'bare.jsonl'}"))
        self.assertIn("nearest: model.vision_config.hidden_size", refusal("--model.vision_config={ hiden_size = 12 }"))
        self.assertIn("hidden_size = 37 is not a multiple", refusal("--model.vision_config={ hidden_size = 37 }"))
        self.assertIn("257 tokens", refusal("--model.text_config={ vocab_size = 200 }"))
        self.assertIn("text_config.eos_token_id = 300: the vocabulary of texts has 257 tokens",
                      refusal("--model.text_config={ vocab_size = 257, eos_token_id = 300 }"))


if __name__ == "__main__":
    unittest.main()
