#!/usr/bin/env python3
"""Serves a model with this project and with its peers in turn: tokens/s of one sequence and of several, of prompts, the
time to the first token of a new process, and memory. Every figure goes to OUT/results.jsonl; a second call with the
same OUT adds rounds. See README.md.

  bench/serving.py --out DIR --model DIR [--rounds 3] [--threads 1,2] [--weights bf16,int8,int4] [--prompts 512,2048]
                   [--sequences 8,32] [--llama-cpp BIN] [--openvino DIR]
"""
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

import benchmark
import runner
from page import Page, Table

PROMPT, NEW = 128, 128
# What llama.cpp has beside ours. It rounds inputs to int8 too, as ours does with int8-dynamic.
GGUF = {"bf16": "bf16", "int8": "q8_0", "int8-dynamic": "q8_0", "int4": "q4_k_m"}
SYSTEMS = ("ours", "llama.cpp", "openvino")


def parse_arguments():
    parser = benchmark.Parser(__doc__, "colossal", rounds=3)
    parser.add_argument("--model", type=pathlib.Path, required=True,
                        help="a Hugging Face folder, with weights in bf16 and a tokenizer that llama.cpp knows")
    parser.add_argument("--threads", type=benchmark.numbers, default=[1, 2])
    parser.add_names("weights", GGUF, default=list(GGUF))
    parser.add_argument("--prompts", type=benchmark.numbers, default=[512, 2048], help="lengths of prompts, in tokens")
    parser.add_argument("--sequences", type=benchmark.numbers, default=[8, 32], help="how many at once")
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="folder of llama-bench, llama-batched-bench, llama-quantize")
    parser.add_argument("--gguf", type=pathlib.Path, help="folder of bf16.gguf, q8_0.gguf, q4_k_m.gguf [made]")
    parser.add_argument("--openvino", type=pathlib.Path,
                        help="the model's folder by optimum-cli export openvino --weight-format int8")
    arguments = parser.parse_args()
    arguments.cores = os.cpu_count()
    return arguments


def pinned(threads, command):
    return ["taskset", "-c", ",".join(map(str, range(threads))), *map(str, command)]


class Server:
    """`colossal serve`, without the cache of equal beginnings."""

    def __init__(self, arguments, threads, weights, log, sequences):
        quantize = [] if weights == "bf16" else [f"--quantize={weights}"]
        command = [arguments.binary, "serve", arguments.model, "--port=0", "--served-name=model", "--no-prefix-cache",
                   f"--max-num-seqs={sequences}", f"--train.threads={threads}", *quantize]
        self.log = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(pinned(threads, command), stdout=output, stderr=output)
        self.url = self._wait()

    def _wait(self):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
            if found:
                try:
                    with urllib.request.urlopen(found[0] + "/health"):
                        return found[0]
                except OSError:
                    pass
            time.sleep(0.05)
        raise runner.Failed(f"the server did not start; see {self.log}")

    def complete(self, prompts, new):
        """Seconds for `new` tokens to each of the prompts, all sent at once."""
        body = json.dumps({"model": "model", "prompt": prompts, "max_tokens": new, "temperature": 0,
                           "ignore_eos": True}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
        start = time.monotonic()
        with urllib.request.urlopen(request, timeout=3600) as answer:
            usage = json.load(answer)["usage"]
        seconds = time.monotonic() - start
        if usage["completion_tokens"] != new * len(prompts):
            raise runner.Failed(f"{usage['completion_tokens']} tokens in place of {new * len(prompts)}")
        return seconds

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def tokens(arguments, count, seed):
    vocabulary = json.loads((arguments.model / "config.json").read_text())["vocab_size"]
    return random.Random(seed).choices(range(min(300, vocabulary // 2), vocabulary), k=count)


def run_ours(arguments, threads, weights, log):
    most = max([1, *arguments.sequences])
    figures = {}
    with Server(arguments, threads, weights, log, most) as server:
        complete = lambda lengths, new, seed: server.complete(
            [tokens(arguments, length, seed + n) for n, length in enumerate(lengths)], new)
        complete([PROMPT], 8, 0)  # warms the caches
        first, all_new = complete([PROMPT], 1, 1), complete([PROMPT], NEW, 2)
        figures["decode"] = (NEW - 1) / (all_new - first)
        if threads == max(arguments.threads):
            for length in arguments.prompts:
                figures[f"prompt {length}"] = length / min(complete([length], 1, 3), complete([length], 1, 4))
            for count in arguments.sequences:
                first, all_new = complete([PROMPT] * count, 1, 5), complete([PROMPT] * count, NEW, 5 + count)
                figures[f"decode of {count}"] = count * (NEW - 1) / (all_new - first)
                figures[f"whole of {count}"] = count * NEW / all_new
        figures["resident MiB"] = server.resident_mib()
    return figures


def first_token_seconds(arguments, threads, weights):
    """From the start of a process that ends after one token, its weights in the page cache."""
    quantize = [] if weights == "bf16" else [f"--quantize={weights}"]
    command = [arguments.binary, "generate", arguments.model, "--prompt=import os", "--max-new-tokens=1",
               "--temperature=0", *quantize]
    start = time.monotonic()
    subprocess.run(pinned(threads, command), check=True, capture_output=True)
    return time.monotonic() - start


def gguf_file(arguments, weights):
    folder = arguments.gguf or arguments.out / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{GGUF[weights]}.gguf"
    if not file.exists() and weights != "bf16":
        subprocess.run([arguments.llama_cpp / "llama-quantize", gguf_file(arguments, "bf16"), file, GGUF[weights].upper(), "2"],
                       check=True, capture_output=True)
    elif not file.exists():
        runner.run([arguments.binary, "convert", arguments.model, file, "--type=bf16"], arguments.out / "logs" / "gguf.txt")
    return file


def run_llama_cpp(arguments, threads, weights, log):
    """Figures of the runs that do not crash: its products in AMX do with some compilers."""
    file, figures = gguf_file(arguments, weights), {}

    def bench(tokens_flag, other_flag, count):
        command = [arguments.llama_cpp / "llama-bench", "-m", file, "-t", threads, "-r", 1, "-o", "json", tokens_flag, count,
                   other_flag, 0]
        return json.loads(runner.run(pinned(threads, command), log)[0])[0]["samples_ts"][0]

    def batched(count):
        command = [arguments.llama_cpp / "llama-batched-bench", "-m", file, "-t", threads, "-c",
                   count * (PROMPT + NEW) + 256, "-b", 2048, "-ub", 512, "-npp", PROMPT, "-ntg", NEW, "-npl", count,
                   "--output-format", "jsonl"]
        output, _ = runner.run(pinned(threads, command), log)
        return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])

    figures["decode"] = bench("-n", "-p", NEW)
    if threads < max(arguments.threads):
        return figures
    try:
        for length in arguments.prompts:
            figures[f"prompt {length}"] = max(bench("-p", "-n", length) for _ in range(2))
        for count in arguments.sequences:
            found = batched(count)
            figures[f"decode of {count}"] = found["speed_tg"]
            figures[f"whole of {count}"] = count * NEW / found["t"]
    except runner.Failed as failed:
        print(f"llama.cpp, {weights}: {failed}", file=sys.stderr)
    return figures


def run_openvino(arguments, threads, weights, log):
    """Its weights are int8, whatever ours are."""
    if threads < max(arguments.threads):
        sequences, prompts = "1", ""
    else:
        sequences = ",".join(map(str, [1, *arguments.sequences]))
        prompts = ",".join(map(str, arguments.prompts))
    lines, _ = runner.peer("openvino_generate.py", [
        f"--model={arguments.openvino}", f"--threads={threads}", f"--sequences={sequences}", f"--prompts={prompts}",
        f"--prompt={PROMPT}", f"--new={NEW}"], log, environment=".venv-openvino", threads=threads)
    return lines[-1]


def run_round(arguments, results, number):
    run = {"ours": run_ours, "llama.cpp": run_llama_cpp, "openvino": run_openvino}
    for threads in arguments.threads:
        for weights in arguments.weights:
            systems = ["ours"] + (["llama.cpp"] if arguments.llama_cpp else [])
            systems += ["openvino"] if arguments.openvino and weights.startswith("int8") else []
            for system in systems:
                log = arguments.out / "logs" / f"{system}-{threads}-{weights}.txt"
                figures = run[system](arguments, threads, weights, log)
                if system == "ours" and threads == max(arguments.threads):
                    figures["first token s"] = min(first_token_seconds(arguments, threads, weights) for _ in range(4))
                line = {"round": number, "system": system, "threads": threads, "weights": weights, "figures": figures}
                print(json.dumps(line), flush=True)
                with open(results, "a") as file:
                    print(json.dumps(line), file=file)


def report(results, out):
    found = {}
    for line in map(json.loads, results.read_text().splitlines()):
        for figure, value in line["figures"].items():
            found.setdefault((line["threads"], line["weights"], figure), {}).setdefault(line["system"], []).append(value)
    page = Page("Serving against llama.cpp and OpenVINO")
    page.note(f"{runner.cpu_name()}. Tokens/s; the median of the rounds, and the least and the most. decode: {NEW} new tokens "
              f"after a prompt of {PROMPT}, without the prompt's time; of N: N sequences at once; whole: with the prompts' "
              "time; prompt N: a prompt of N tokens. llama.cpp's files are bf16, q8_0 and q4_k_m, and it decodes one sequence from an empty context; OpenVINO's "
              "weights are int8.")
    table = Table("threads", "weights", "figure", *SYSTEMS, "ours / llama.cpp", "ours / openvino")
    show = lambda value: f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    for (threads, weights, figure), of in found.items():
        median = {system: statistics.median(values) for system, values in of.items()}
        cells = [f"{show(median[s])} ({show(min(of[s]))}-{show(max(of[s]))})" if s in of else "" for s in SYSTEMS]
        ratios = [f"{median['ours'] / median[s]:.2f}" if s in of and "ours" in of else "" for s in SYSTEMS[1:]]
        table.add(threads, weights, figure, *cells, *ratios)
    page.table(table)
    page.write(out)
    return page


def main():
    arguments = parse_arguments()
    benchmark.run_rounds(arguments, lambda results, number: run_round(arguments, results, number), report)


if __name__ == "__main__":
    main()
