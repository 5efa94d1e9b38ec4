#!/usr/bin/env python3
"""How many guessed tokens are right on text that nothing was trained on: by lookup, by a smaller model, and by a head on
the model's states (EAGLE). Trains all three, on the standard library's sources but for a tenth of its files, which give
the prompts. See README.md.

  bench/speculation.py --out DIR [--rounds 1] [--steps 400] [--prompts 24]
"""
import json
import pathlib
import re
import sysconfig

import benchmark
import runner
from page import Page, Table

SEQUENCE, PROMPT, NEW, GUESSES = 256, 200, 200, 4
SHARED = {"vocab_size": 512, "max_position_embeddings": 1024, "model_type": "llama"}
MODEL = {**SHARED, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 6, "num_attention_heads": 6,
         "num_key_value_heads": 6}
DRAFT = {**SHARED, "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 3,
         "num_key_value_heads": 3}
SAMPLINGS = {"greedy": ["--temperature=0"], "temperature 0.8": ["--temperature=0.8"],
             "temperature 1, top-p 0.9": ["--temperature=1", "--top-p=0.9"]}
FOUND = re.compile(r"(\d[\d,]*) tokens in (\d[\d,]*) passes; (\d[\d,]*) of (\d[\d,]*) guessed")


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=1)
    parser.add_argument("--steps", type=int, default=400, help="of each training")
    parser.add_argument("--prompts", type=int, default=24)
    return parser.parse_args()


def divide_sources(folder):
    """A file of sources to train on, one of lines for the head, and texts that neither has."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    files = [file for file in sorted(library.glob("**/*.py")) if "site-packages" not in file.parts]
    texts = [file.read_text(errors="replace") for file in files]
    held_out = texts[5::10]
    learned = [text for number, text in enumerate(texts) if number % 10 != 5]
    (folder / "sources.txt").write_text("".join(learned))
    with open(folder / "sources.jsonl", "w") as lines:
        for text in learned:
            for begin in range(0, len(text), 2 * SEQUENCE):
                print(json.dumps({"text": text[begin:begin + 2 * SEQUENCE]}), file=lines)
    return [text[len(text) // 3:][:PROMPT] for text in held_out if len(text) > 3000]


def train_model(arguments, name, config):
    folder = arguments.out / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    trained = arguments.out / "trained" / name
    if not trained.exists():
        runner.train(arguments.binary, arguments.out / "sources.txt", arguments.out, name, [
            "--model.preset=", f"--model.path={folder.resolve()}", "--data.tokenizer=bytes",
            f"--data.sequence_length={SEQUENCE}", "--train.global_batch=16", f"--train.steps={arguments.steps}",
            "--optimizer.learning_rate=2e-3", "--scheduler.warmup_steps=20", f"--checkpoint.directory={trained}"], ranks=1)
    return trained / f"step-{arguments.steps:06}"


def train_head(arguments, model):
    trained = arguments.out / "trained" / "head"
    if not trained.exists():
        toml = arguments.out / "head.toml"
        toml.write_text(f'[model]\npath = "{model.resolve()}"\n[data]\ntrain = ["{(arguments.out / "sources.jsonl").resolve()}"]\n'
                        f'tokenizer = "bytes"\nsequence_length = {SEQUENCE}\n')
        runner.run([arguments.binary, "tune", "draft_head", toml, f"--train.steps={arguments.steps}",
                    "--train.global_batch=16", "--optimizer.learning_rate=2e-3",
                    f"--log.directory={arguments.out / 'head-log'}", f"--checkpoint.directory={trained}"],
                   arguments.out / "logs" / "head.txt")
    return trained / f"step-{arguments.steps:06}"


def generate(arguments, model, prompts, name, flags):
    """Texts, and tokens, passes, right and made guesses."""
    output, log = arguments.out / f"{name}.jsonl", arguments.out / "logs" / f"{name}.txt"
    runner.run([arguments.binary, "generate", model, f"--input={prompts}", f"--output={output}",
                f"--max-new-tokens={NEW}", "--precision.compute=fp32", "--train.threads=1", "--seed=1", *flags], log)
    found = FOUND.search(log.read_text())
    counts = [int(number.replace(",", "")) for number in found.groups()] if found else None
    return [json.loads(line)["completion"] for line in output.read_text().splitlines()], counts


def report(results, out):
    rounds = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page("Guessed tokens on held-out text")
    page.note(f"{runner.cpu_name()}. A Llama of 6 blocks of 192 features, a draft of one block of 96 and a head, trained on the "
              f"standard library's sources (bytes); prompts of {PROMPT} bytes from the middle of files that none of them was "
              f"trained on, {NEW} new tokens each, at most {GUESSES} guesses at once, fp32. All texts were those without "
              "guesses.")
    table = Table("sampling", "guesses", "right", "made", "% right", "passes")
    for of in rounds[-1]["found"]:
        tokens, passes, right, made = of["counts"]
        table.add(of["sampling"], of["guesses"], f"{right:,}", f"{made:,}", f"{100 * right / made:.0f}", f"{passes:,}")
    page.table(table)
    page.write(out)
    return page


def main():
    arguments = parse_arguments()

    def run_round(results, number):
        prompts = arguments.out / "prompts.jsonl"
        texts = divide_sources(arguments.out)[:arguments.prompts]
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
        model = train_model(arguments, "model", MODEL)
        guesses = {"lookup": ["--speculate=lookup"],
                   "draft": [f"--draft={train_model(arguments, 'draft', DRAFT)}"],
                   "eagle": ["--speculate=eagle", f"--draft={train_head(arguments, model)}"]}
        found = []
        for sampling, flags in SAMPLINGS.items():
            plain, _ = generate(arguments, model, prompts, "plain", flags)
            for kind, how in guesses.items():
                texts, counts = generate(arguments, model, prompts, kind, [*flags, *how, f"--num-drafts={GUESSES}"])
                if texts != plain:
                    raise runner.Failed(f"{kind}, {sampling}: texts are not those without guesses")
                found.append({"sampling": sampling, "guesses": kind, "counts": counts})
        with open(results, "a") as file:
            print(json.dumps({"round": number, "found": found}), file=file)

    benchmark.run_rounds(arguments, run_round, report)


if __name__ == "__main__":
    main()
