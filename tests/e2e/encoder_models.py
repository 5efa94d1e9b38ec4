"""Small encoders and decoders with a tokenizer of a few words, and how tests train them and have them label texts."""
import json
import subprocess

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness import COLOSSAL, ROOT, EndToEndTest

ENCODERS = json.loads((ROOT / "tests" / "support" / "encoders.json").read_text())
DECODERS = {name: json.loads((ROOT / "tests" / "support" / "families.json").read_text())[name]
            for name in ("llama", "gpt2")}
WORDS = "good bad fine awful great poor the film was and not very story a plot acting".split()
POSITIONS = {"gpt2": "n_positions"}


def word_piece_tokenizer():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # A trainer would number the tokens anew in each run.
    vocabulary = {token: number for number, token in enumerate([*special, *sorted(set(WORDS))])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
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


class EncoderTest(EndToEndTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)  # models begin with the same weights in each run of a test
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

    def check_labels(self, family, problem):
        """`classify` gives the scores of transformers, with random weights."""
        lines = texts(9)
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
