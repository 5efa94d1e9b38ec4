"""`colossal tune`: each method's curve and weights are those of a plain loop over a model of `transformers`."""
import json
import math
import subprocess
import unittest

import torch
import torch.nn.functional as F
from tokenizers import ByteLevelBPETokenizer
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, LlamaConfig, LlamaForCausalLM,
                          LlamaForSequenceClassification, PreTrainedTokenizerFast)

from harness import COLOSSAL, EndToEndTest

STEPS, RATE, BETA, END = 6, 1e-3, 0.1, 256
PAIRS = [("Two and three: ", "five", "six, or so"), ("Say hi. ", "hi there", "no"), ("x", "yz yz", "qqqqqq"),
         ("One two ", "three", "four!"), ("é", "ß", "ü"), ("The end ", "is near", "is")]


def rows(texts):
    """Tokens [rows, longest], and which of them belong to a completion."""
    encoded = [(list(prompt.encode()), list(completion.encode()) + [END]) for prompt, completion in texts]
    width = max(len(prompt) + len(completion) for prompt, completion in encoded)
    tokens = torch.full((len(texts), width), END)
    mask = torch.zeros(len(texts), width, dtype=torch.bool)
    for row, (prompt, completion) in enumerate(encoded):
        length = len(prompt) + len(completion)
        tokens[row, :length] = torch.tensor(prompt + completion)
        mask[row, len(prompt):length] = True
    return tokens, mask


def log_probabilities(model, tokens):
    logits = model(tokens[:, :-1]).logits
    return logits.log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze(2)


class Pairs:
    """Sums over the completions of a model and its reference."""

    def __init__(self, model, reference):
        self.tokens, self.mask = rows([(p, c) for p, c, _ in PAIRS] + [(p, r) for p, _, r in PAIRS])
        self.lengths = self.mask.sum(1)
        self.of_model = log_probabilities(model, self.tokens)
        self.scores = (self.of_model * self.mask[:, 1:]).sum(1)
        with torch.no_grad():
            self.reference = (log_probabilities(reference, self.tokens) * self.mask[:, 1:]).sum(1)

    def chosen_nll(self, with_prompt):
        count = len(PAIRS)
        used = self.mask[:count, 1:]
        if with_prompt:  # all but what fills the rows
            ends = self.mask[:count].long().cumsum(1).eq(self.lengths[:count, None]).long().cumsum(1)
            used = (ends <= 1)[:, 1:]
        return -(self.of_model[:count] * used).sum() / used.sum()


def difference(values):
    count = len(PAIRS)
    return values[:count] - values[count:]


def sft(model, reference):
    tokens, mask = rows([(p, c) for p, c, _ in PAIRS])
    return -log_probabilities(model, tokens)[mask[:, 1:]].mean()


def dft(model, reference):
    tokens, mask = rows([(p, c) for p, c, _ in PAIRS])
    found = log_probabilities(model, tokens)[mask[:, 1:]]
    return -(found * found.detach().exp()).mean()


def dpo(model, reference):
    pairs = Pairs(model, reference)
    return -F.logsigmoid(BETA * difference(pairs.scores - pairs.reference)).mean()


def orpo(model, reference):
    pairs = Pairs(model, reference)
    means = pairs.scores / pairs.lengths
    odds = difference(means - torch.log1p(-means.exp()))
    return pairs.chosen_nll(with_prompt=True) - BETA * F.logsigmoid(odds).mean()


def simpo(model, reference):
    pairs = Pairs(model, reference)
    return -F.logsigmoid(BETA * (difference(pairs.scores / pairs.lengths) - 0.5 / BETA)).mean()


def cpo(model, reference):
    pairs = Pairs(model, reference)
    return -F.logsigmoid(BETA * difference(pairs.scores)).mean() + pairs.chosen_nll(with_prompt=False)


def reward(model, reference):
    tokens, _ = rows([(p, c) for p, c, _ in PAIRS] + [(p, r) for p, _, r in PAIRS])
    rewards = model(tokens).logits.squeeze(-1)
    return -F.logsigmoid(difference(rewards)).mean()


def kto(model, reference):
    """Without the estimate of the divergence: apo_zero_unpaired."""
    pairs = Pairs(model, reference)
    chosen, rejected = (pairs.scores - pairs.reference).chunk(2)
    return torch.cat([1 - torch.sigmoid(BETA * chosen), torch.sigmoid(BETA * rejected)]).mean()


def distillation(teacher, beta, temperature):
    """TRL's generalized_jsd_loss, over completions."""
    def loss(model, reference):
        tokens, mask = rows([(p, c) for p, c, _ in PAIRS])
        student = (model(tokens[:, :-1]).logits / temperature).log_softmax(-1)
        with torch.no_grad():
            known = (teacher(tokens[:, :-1]).logits / temperature).log_softmax(-1)
        if beta in (0, 1):
            found = [F.kl_div(student, known, reduction="none", log_target=True),
                     F.kl_div(known, student, reduction="none", log_target=True)][beta]
        else:
            mixture = torch.logsumexp(torch.stack([student + math.log1p(-beta), known + math.log(beta)]), dim=0)
            found = (beta * F.kl_div(mixture, known, reduction="none", log_target=True) +
                     (1 - beta) * F.kl_div(mixture, student, reduction="none", log_target=True))
        return found[mask[:, 1:]].sum() / mask[:, 1:].sum()
    return loss


CHAT_TEMPLATE = (
    "{%- for m in messages %}{{ '<|' + m.role + '|>' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content + eos_token }}{% endgeneration %}{% else %}{{ m.content + eos_token }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


class Tune(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.model = self.directory / "model"
        self.make_model(LlamaForCausalLM)
        self.write("pairs", [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in PAIRS])
        self.write("texts", [{"prompt": p, "completion": c} for p, c, _ in PAIRS])
        self.write("unpaired", [{"prompt": p, "completion": c, "label": True} for p, c, _ in PAIRS] +
                   [{"prompt": p, "completion": r, "label": False} for p, _, r in PAIRS])

    def make_model(self, model_class, vocabulary=257, folder=None, **fields):
        torch.manual_seed(3)
        sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1}
        model_class(LlamaConfig(
            vocab_size=vocabulary, intermediate_size=40, max_position_embeddings=64, initializer_range=0.2,
            tie_word_embeddings=False, **(sizes | fields))).double().save_pretrained(folder or self.model)

    def write(self, name, lines):
        (self.directory / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def tune(self, method, data, *flags, ranks=1, batch=len(PAIRS)):
        run = self.directory / "run"
        toml = self.directory / "run.toml"
        toml.write_text(f'[model]\npath = "{self.model}"\n[data]\ntrain = ["{self.directory}/{data}.jsonl"]\n')
        return subprocess.run(
            [COLOSSAL, "tune", method, toml, f"--ranks={ranks}", "--precision.compute=fp64", "--data.tokenizer=bytes",
             f"--train.steps={STEPS}", f"--train.global_batch={batch}", f"--optimizer.learning_rate={RATE}",
             f"--checkpoint.directory={run}", f"--log.directory={run}", "--log.report=false", "--train.threads=1", *flags],
            capture_output=True, text=True, timeout=120)

    def expect_curve(self, loss, method, data, *flags, model_class=AutoModelForCausalLM, **options):
        done = self.tune(method, data, *flags, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        run = self.directory / "run"
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        # transformers rounds norms and rotary tables to float32.
        model = model_class.from_pretrained(self.model, dtype=torch.float64)
        reference = model_class.from_pretrained(self.model, dtype=torch.float64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
        for step, line in enumerate(metrics):
            for group in optimizer.param_groups:
                group["lr"] = RATE * (1 - step / STEPS)
            found = loss(model, reference)
            self.assertLess(abs(line["loss"] - found.item()), 1e-6 * max(1, abs(found.item())), f"step {step + 1}")
            optimizer.zero_grad()
            found.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.assertLess(abs(line["grad_norm"] - norm.item()), 1e-5 * norm.item())
            optimizer.step()
        saved = model_class.from_pretrained(run / f"step-{STEPS:06}", dtype=torch.float64).state_dict()
        for name, weight in model.state_dict().items():
            self.assertLess((saved[name] - weight).norm().item(), 1e-5 * weight.norm().item(), name)
        return metrics

    def test_sft(self):
        self.expect_curve(sft, "sft", "texts")

    def test_sft_packed(self):
        self.expect_curve(sft, "sft", "texts", "--data.packing=bfd", "--data.sequence_length=64", batch=2)

    def test_dft(self):
        self.expect_curve(dft, "sft", "texts", "--tune.loss_type=dft")

    def test_dpo(self):
        metrics = self.expect_curve(dpo, "dpo", "pairs")
        self.assertAlmostEqual(metrics[0]["loss"], 0.6931471805599453)
        self.assertEqual(metrics[-1]["rewards/accuracies"], 1)

    def test_dpo_on_ranks(self):
        self.expect_curve(dpo, "dpo", "pairs", "--parallel.tp=2", "--train.micro_batch=4", ranks=2)

    def test_orpo(self):
        self.expect_curve(orpo, "orpo", "pairs")

    def test_simpo(self):
        self.expect_curve(simpo, "simpo", "pairs")

    def test_cpo(self):
        self.expect_curve(cpo, "cpo", "pairs")

    def test_kto(self):
        self.expect_curve(kto, "kto", "unpaired", "--tune.loss_type=apo_zero_unpaired", batch=2 * len(PAIRS))

    def test_reward(self):
        self.make_model(LlamaForSequenceClassification, num_labels=1, pad_token_id=END, eos_token_id=END)
        metrics = self.expect_curve(reward, "reward", "pairs", model_class=AutoModelForSequenceClassification)
        self.assertEqual(metrics[-1]["accuracy"], 1)

    def test_reward_model_of_a_model_that_predicts(self):
        done = self.tune("reward", "pairs", "--parallel.tp=2", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("random initial weights of score.weight", done.stderr)
        run = self.directory / "run"
        model = AutoModelForSequenceClassification.from_pretrained(run / f"step-{STEPS:06}", dtype=torch.float64)
        found = reward(model, None).item()
        self.assertLess(found, json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["loss"])

    def make_teacher(self):
        folder = self.directory / "teacher"
        self.make_model(LlamaForCausalLM, folder=folder, hidden_size=40, num_hidden_layers=3, num_attention_heads=4,
                        num_key_value_heads=2)
        return folder

    def test_distill(self):
        folder = self.make_teacher()
        teacher = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        for beta, temperature, ranks, flags in (
                (0, 1, 1, []), (1, 0.9, 1, ["--train.micro_batch=4"]), (0.3, 0.9, 1, []),
                (0.3, 0.9, 2, ["--parallel.pp=2", "--train.micro_batch=2"])):
            with self.subTest(beta=beta, ranks=ranks):
                self.expect_curve(
                    distillation(teacher, beta, temperature), "distill", "texts", f"--tune.teacher={folder}",
                    "--tune.lmbda=0", f"--tune.beta={beta}", f"--tune.temperature={temperature}", *flags, ranks=ranks)
                subprocess.run(["rm", "-r", self.directory / "run"], check=True)

    def test_distill_of_own_completions(self):
        folder = self.make_teacher()
        for ranks, flags in (1, []), (2, ["--parallel.tp=2", "--adapter.kind=lora", "--adapter.dropout=0"]):
            with self.subTest(flags=flags):
                done = self.tune("distill", "texts", f"--tune.teacher={folder}", "--tune.max_completion_length=12",
                                 "--optimizer.learning_rate=1e-2", *flags, ranks=ranks)
                self.assertEqual(done.returncode, 0, done.stderr)
                run = self.directory / "run"
                lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
                self.assertEqual({line["on_policy"] for line in lines}, {1})
                self.assertLess(lines[-1]["loss"], lines[0]["loss"])
                subprocess.run(["rm", "-r", run], check=True)

    def test_a_reward_model_gives_the_scores_of_transformers(self):
        folder = self.directory / "rewarding"
        self.make_model(LlamaForSequenceClassification, folder=folder, hidden_size=40, num_hidden_layers=3,
                        num_attention_heads=4, num_key_value_heads=2, num_labels=1, pad_token_id=END, eos_token_id=END)
        done = self.tune("grpo", "texts", f"--tune.reward=model:{folder}", "--tune.num_generations=24",
                         "--tune.max_completion_length=2", "--tune.log_completions=true", "--parallel.tp=1",
                         "--train.micro_batch=7", ranks=2, batch=48)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64)
        lines = [json.loads(line) for line in (self.directory / "run" / "completions.jsonl").read_text().splitlines()]
        # Others cannot be read from JSON.
        known = [line for line in lines if line["completion"].isascii() and not line["ended"]]
        self.assertGreater(len(known), 20)
        for line in known:
            tokens = torch.tensor([list((line["line"]["prompt"] + line["completion"]).encode()) + [END]])
            self.assertAlmostEqual(line["rewards"][0], model(tokens).logits.item(), delta=2e-6)

    def make_chat_tokenizer(self, folder, texts):
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(texts, vocab_size=259, special_tokens=["<|end|>", "<|user|>", "<|assistant|>"],
                                    show_progress=False)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|end|>",
                                            additional_special_tokens=["<|user|>", "<|assistant|>"])
        tokenizer.chat_template = CHAT_TEMPLATE
        tokenizer.save_pretrained(folder)
        return tokenizer

    def test_a_reward_model_reads_conversations_by_its_own_tokenizer(self):
        self.make_model(LlamaForCausalLM, vocabulary=259)
        self.make_chat_tokenizer(self.model, ["hello there, how are you?"] * 9)
        folder = self.directory / "rewarding"
        self.make_model(LlamaForSequenceClassification, vocabulary=270, folder=folder, num_labels=1, pad_token_id=0,
                        eos_token_id=0)
        tokenizer = self.make_chat_tokenizer(folder, ["what is that, please?"] * 9)
        chat = [{"role": "user", "content": "hello there"}]
        self.write("chats", [{"prompt": chat}])
        done = self.tune("grpo", "chats", f"--tune.reward=model:{folder}", "--tune.num_generations=24",
                         "--tune.max_completion_length=2", "--tune.log_completions=true", "--data.tokenizer=model", batch=24)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64)
        lines = [json.loads(line) for line in (self.directory / "run" / "completions.jsonl").read_text().splitlines()]
        known = [line for line in lines if line["completion"].isascii() and not line["ended"]]
        self.assertGreater(len(known), 10)
        for line in known:
            messages = [*chat, {"role": "assistant", "content": line["completion"]}]
            tokens = tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"]
            self.assertAlmostEqual(line["rewards"][0], model(torch.tensor([tokens])).logits.item(), delta=2e-6)
        (folder / "chat_template.jinja").unlink()
        done = self.tune("grpo", "chats", f"--tune.reward=model:{folder}", "--tune.num_generations=24",
                         "--tune.max_completion_length=2", "--data.tokenizer=model", batch=24)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the folder has no chat template", done.stderr)

    def test_conversations(self):
        """What is learned of them is what transformers marks as the assistant's."""
        self.make_model(LlamaForCausalLM, vocabulary=259)
        tokenizer = self.make_chat_tokenizer(self.model, ["hello there, how are you?", "fine, thanks: naïve"] * 9)
        chat = [{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "fine, naïve"},
                {"role": "user", "content": "you?"}, {"role": "assistant", "content": "fine"}]
        self.write("chats", [{"messages": chat}, {"messages": chat[:2]}])
        losses = []
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float64)
        for messages in chat, chat[:2]:
            encoded = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
            tokens = torch.tensor([encoded["input_ids"]])
            mask = torch.tensor([encoded["assistant_masks"]]).bool()
            losses.append(-log_probabilities(model, tokens)[mask[:, 1:]])
        done = self.tune("sft", "chats", "--data.tokenizer=model", "--tune.assistant_only_loss=true", batch=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        first = json.loads((self.directory / "run" / "metrics.jsonl").read_text().splitlines()[0])
        self.assertAlmostEqual(first["loss"], torch.cat(losses).mean().item(), 6)

    def test_goes_on_where_it_stopped(self):
        whole = self.tune("dpo", "pairs", "--train.global_batch=2")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        run = self.directory / "run"
        lines = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        subprocess.run(["rm", "-r", run], check=True)
        flags = ["--train.global_batch=2", "--checkpoint.every=3", "--scheduler.name=linear"]
        half = self.tune("dpo", "pairs", *flags, "--checkpoint.keep=9")
        self.assertEqual(half.returncode, 0, half.stderr)
        subprocess.run(["rm", "-r", run / "step-000006"], check=True)
        rest = self.tune("dpo", "pairs", *flags)
        self.assertEqual(rest.returncode, 0, rest.stderr)
        self.assertIn("resumed from", rest.stderr)
        again = {line["step"]: line["loss"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())}
        self.assertEqual([again[step] for step in range(1, STEPS + 1)], lines)

    def test_bad_input_is_refused(self):
        def expect(reason, method, data, *flags):
            done = self.tune(method, data, *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)

        expect('there is no "chosen" among its fields (prompt, completion)', "dpo", "texts")
        expect("label", "kto", "texts")
        expect("--tune.beta=0: must be at least", "dpo", "pairs", "--tune.beta=0")
        expect("tune.loss_type", "dpo", "pairs", "--tune.loss_type=sigmoyd")
        expect("tune.loss_weights has 1 numbers for 2 losses", "dpo", "pairs", "--tune.loss_type=sigmoid,sft",
               "--tune.loss_weights=1")
        expect("kto supports one loss only", "kto", "unpaired", "--tune.loss_type=kto,apo_zero_unpaired")
        expect("needs the logarithm of the smoothing", "dpo", "pairs", "--tune.loss_type=exo_pair")
        expect("less than 0.5", "dpo", "pairs", "--tune.loss_type=robust", "--tune.label_smoothing=0.5")
        expect("tune.simpo_gamma", "dpo", "pairs", "--tune.simpo_gamma=1")  # no key of this method
        expect("its prompt has 15 tokens", "sft", "texts", "--data.sequence_length=8")
        expect("tune.teacher is empty", "distill", "texts")
        other = self.directory / "other"
        self.make_model(LlamaForCausalLM, vocabulary=300, folder=other)
        expect("it has a vocabulary of 300 tokens, the model 257", "distill", "texts", f"--tune.teacher={other}",
               "--tune.max_completion_length=8")
        expect("its model predicts tokens", "grpo", "texts", f"--tune.reward=model:{other}",
               "--tune.num_generations=2", "--tune.max_completion_length=8")
        done = subprocess.run([COLOSSAL, "tune", "dop", "run.toml"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
