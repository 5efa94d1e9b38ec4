#!/usr/bin/env python3
"""Trains models on one GPU with this project and with PyTorch in turn, round by round, and prints how they
compare. Every run's figures go to OUT/results.jsonl; a second call with the same OUT adds rounds.

  bench/gpu.py --out DIR [--binary build-cuda/colossal] [--rounds 3] [--sizes gpt2-124m,llama-1b]
               [--systems ours,eager,compile] [--python python3]
"""
import json
import pathlib
import statistics
import subprocess
import sys

import benchmark
import runner
from page import Page, Table, spread

SIZES = {
    "gpt2-124m": {
        "config": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
                   "n_positions": 1024, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0},
        "sequence": 1024, "batch": 32, "micro-batch": 16},
    "llama-1b": {
        "config": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
                   "max_position_embeddings": 8192, "tie_word_embeddings": True},
        "sequence": 1024, "batch": 16, "micro-batch": 8},
}
WARMUP, STEPS = 4, 10
NAMES = {"ours": "ours", "eager": "PyTorch", "compile": "torch.compile"}


def run_ours(arguments, size, corpus, name):
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, name, [
        *runner.model_flags(size, arguments.out),
        f"--train.micro_batch={size['micro-batch']}", f"--train.steps={WARMUP + STEPS}", "--precision.compute=bf16",
        "--scheduler.name=constant", "--parallel.device=gpu"], 1)
    return {"step_seconds": [line["step_seconds"] for line in lines],
            "device_peak_bytes": lines[-1]["device_peak_bytes"],
            "loss_first": lines[0]["loss"], "loss_last": lines[-1]["loss"]}


def run_peer(arguments, system, size):
    command = [arguments.python, runner.PEERS / "torch_gpu_train.py", system, f"--steps={WARMUP + STEPS}"]
    command += [f"--{key}={json.dumps(value) if key == 'config' else value}" for key, value in size.items()]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise runner.Failed(done.stderr[-300:])
    return json.loads(done.stdout.splitlines()[-1])


def run_round(arguments, corpus, results, number):
    for size_name in arguments.sizes:
        size = SIZES[size_name]
        for system in arguments.systems:
            row = {"round": number, "size": size_name, "system": system}
            try:
                figures = (run_ours(arguments, size, corpus, f"{size_name}-ours") if system == "ours"
                           else run_peer(arguments, system, size))
                timed = statistics.median(figures["step_seconds"][WARMUP:])
                row |= {**figures, "tokens_per_second": size["batch"] * size["sequence"] / timed}
            except runner.Failed as failure:
                row["error"] = str(failure)
            with open(results, "a") as lines:
                print(json.dumps(row), file=lines)
            said = row.get("error") or f"{row['tokens_per_second']:,.0f} tokens/s"
            print(f"round {number}  {size_name:10} {system:8} {said}", file=sys.stderr, flush=True)


def report(results, out):
    rows = [json.loads(line) for line in open(results)]
    rows = [row for row in rows if "error" not in row]
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                         text=True).stdout.strip()
    page = Page("Training on one GPU")
    page.note(f"{gpu}. bf16 with fp32 master weights; sequences of 1,024 tokens; the median of {STEPS} steps of a run.")
    table = Table("size", "system", "rounds", "tokens/s, min / median / max", "ours / theirs, median", "GPU memory, peak")
    for size in dict.fromkeys(row["size"] for row in rows):
        rates = {}
        for row in rows:
            if row["size"] == size:
                rates.setdefault(row["system"], []).append(row)
        for system, runs in rates.items():
            values = [row["tokens_per_second"] for row in runs]
            ours = [row["tokens_per_second"] for row in rates.get("ours", [])]
            ratio = "" if system == "ours" or not ours else f"{statistics.median(ours) / statistics.median(values):.2f}"
            table.add(size, NAMES[system], len(runs), " / ".join(f"{value:,.0f}" for value in spread(values)), ratio,
                      f"{max(row['device_peak_bytes'] for row in runs) / 2**30:.1f} GiB")
    page.table(table)
    return page


def main():
    parser = benchmark.Parser(__doc__, "colossal", rounds=3)
    parser.add_names("sizes", SIZES, default=list(SIZES))
    parser.add_names("systems", NAMES, default=list(NAMES))
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="has PyTorch for the GPU, and transformers")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    corpus = runner.make_corpus(arguments.out)
    benchmark.run_rounds(arguments, lambda results, number: run_round(arguments, corpus, results, number), report)


if __name__ == "__main__":
    main()
