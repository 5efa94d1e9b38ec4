#!/usr/bin/env python3
"""Models with experts: two ranks of one thread against transformers in one process of two threads, in turn. Then a
model whose tokens all go to two experts of one rank, with and without copies of them. See README.md.

  bench/experts.py --out DIR [--rounds 3]
"""
import json
import statistics

import benchmark
import runner
from page import Page, Table, spread

TOKENS, SEQUENCE, BATCH, STEPS, WARMUP = 2048, 256, 8, 8, 2
SHARED = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
          "vocab_size": 512, "max_position_embeddings": 1024}
MODELS = {
    "mixtral 8/2": {**SHARED, "model_type": "mixtral", "intermediate_size": 1024, "num_local_experts": 8,
                    "num_experts_per_tok": 2},
    "qwen3 32/4": {**SHARED, "model_type": "qwen3_moe", "intermediate_size": 1024, "moe_intermediate_size": 1024,
                   "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4, "norm_topk_prob": True},
}
PEERS = {"transformers, all in bf16": "weights-bf16", "transformers, autocast": "autocast"}
OURS = {"dp 2": [], "ep 2": ["--parallel.ep=2"]}
HOT = {**SHARED, "intermediate_size": 1024, "head_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2,
       "sliding_window": 128}
HOT_LAYOUTS = {"without copies": ["--parallel.ep=2"], "with copies": ["--parallel.ep=2", "--parallel.expert_copies=2"]}
MIB = 1 << 20


def parse_arguments():
    return benchmark.Parser(__doc__, "colossal", rounds=3).parse_args()


def our_steps(arguments, corpus, name, flags):
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, name.replace(" ", "-").replace("/", "-"), [
        *flags, f"--train.steps={STEPS}", "--train.threads=1", "--precision.compute=bf16",
        "--scheduler.name=constant"], ranks=2)
    steps = lines[WARMUP:]
    return {"step_seconds": statistics.median(line["step_seconds"] for line in steps),
            "memory_peak_bytes": max(line["memory_peak_bytes"] for line in steps),
            "busiest": statistics.mean(line["router_load"] for line in steps)}


def measure_model(arguments, corpus, name, config):
    size = {"config": config, "sequence": SEQUENCE, "batch": BATCH}
    flags = runner.model_flags(size, arguments.out)
    found = {of: our_steps(arguments, corpus, f"{name}-{of}", [*flags, *extra]) for of, extra in OURS.items()}
    for of, system in PEERS.items():
        lines, _ = runner.peer("experts_train.py", [
            system, f"--config={json.dumps(config)}", f"--sequence={SEQUENCE}", f"--batch={BATCH}", "--dtype=bf16",
            f"--warmup={WARMUP}", f"--steps={STEPS - WARMUP}", "--threads=2", f"--corpus={corpus}"],
            arguments.out / "logs" / f"{system}.txt", threads=2)
        found[of] = lines[-1]
    return found


def measure_hot(arguments, corpus):
    folder = arguments.out / "models" / "hot"
    if not folder.exists():
        runner.run([runner.peer_python(), runner.PEERS / "hot_experts.py", folder, json.dumps(HOT)],
                   arguments.out / "logs" / "hot.txt")
    flags = ["--model.preset=", f"--model.path={folder.resolve()}", "--data.tokenizer=bytes",
             f"--data.sequence_length={SEQUENCE}", f"--train.global_batch={BATCH}",
             "--optimizer.learning_rate=1e-9"]
    return {of: our_steps(arguments, corpus, f"hot-{of}", [*flags, *extra]) for of, extra in HOT_LAYOUTS.items()}


def report(results, out):
    rounds = [json.loads(line) for line in results.read_text().splitlines()]
    page = Page("Experts")
    page.note(f"{runner.cpu_name()}. {len(rounds)} rounds of {STEPS - WARMUP} steps, each system in turn; a figure is "
              f"the median over rounds of a round's median step. 8 layers of 512, experts of 1,024, {TOKENS:,} tokens a "
              "step, bf16. Ours on two ranks of one thread, with masters and moments in fp32; transformers "
              "(grouped_mm) on two threads. Ratio: ours over the fastest of theirs in the same round. Memory: resident "
              "at most, all processes together for ours twice the fullest rank's.")
    table = Table("model and system", "tokens/s: minimum", "median", "maximum", "ratio", "MiB in all")
    for model in MODELS:
        for system in [*OURS, *PEERS]:
            speeds = [TOKENS / each[model][system]["step_seconds"] for each in rounds]
            best = [max(TOKENS / each[model][peer]["step_seconds"] for peer in PEERS) for each in rounds]
            ratio = statistics.median(ours / theirs for ours, theirs in zip(speeds, best)) if system in OURS else None
            processes = 2 if system in OURS else 1
            memory = statistics.median(processes * each[model][system]["memory_peak_bytes"] for each in rounds)
            table.add(f"{model}: {system}", *(f"{value:,.0f}" for value in spread(speeds)),
                      f"{ratio:.2f}" if ratio else "", f"{memory / MIB:,.0f}")
    page.table(table)
    page.heading("Copies of hot experts")
    page.note("All tokens go to two experts of the first rank (GPT-OSS, 8 experts). Without copies it has all rows; with "
              "two copies each rank has half.")
    hot = Table("setting", "ms a step: minimum", "median", "maximum")
    for setting in HOT_LAYOUTS:
        hot.add(setting, *(f"{1e3 * value:,.0f}" for value in spread([each["hot"][setting]["step_seconds"]
                                                                       for each in rounds])))
    page.table(hot)
    page.write(out)
    return page


def main():
    arguments = parse_arguments()

    def run_round(results, number):
        corpus = runner.make_corpus(arguments.out)
        found = {name: measure_model(arguments, corpus, name, config) for name, config in MODELS.items()}
        found["hot"] = measure_hot(arguments, corpus)
        with open(results, "a") as file:
            print(json.dumps({"round": number, **found}), file=file)

    benchmark.run_rounds(arguments, run_round, report)


if __name__ == "__main__":
    main()
