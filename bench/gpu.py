#!/usr/bin/env python3
"""All that is to be known of one GPU, in minutes: whether it computes what the CPU computes, how fast models train on it
beside PyTorch and published figures, memory against the plan, and the kernels that take longest. Writes OUT/gpu.json
and a page; a second call with the same OUT adds rounds.

  bench/gpu.py --out DIR [--binary build-cuda/colossal] [--minutes 8] [--rounds 1] [--parts tests,speed,kernels]
               [--sizes gpt2-124m,qwen2.5-0.5b,...] [--systems ours,eager,compile] [--python python3]

Parts that the minutes do not suffice for are left out, and named.
"""
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

import benchmark
import runner
from page import Page, Table, spread

ROOT = runner.BENCH.parent


def qwen(hidden, layers, heads, kv_heads, intermediate, tied):
    """Qwen2.5"""
    return {"model_type": "qwen2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": intermediate, "vocab_size": 151936,
            "max_position_embeddings": 32768, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": tied}


# published: tokens/s of LLM.Q on one H100 in bf16, full training with bf16 Adam states, at 524,288 tokens a step.
SIZES = {
    "gpt2-124m": {
        "config": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
                   "n_positions": 1024, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0},
        "sequence": 1024, "batch": 32, "micro-batch": 16},
    "qwen2.5-0.5b": {"config": qwen(896, 24, 14, 2, 4864, True), "sequence": 1024, "batch": 32, "micro-batch": 16,
                     "published": 149_000},
    "qwen2.5-1.5b": {"config": qwen(1536, 28, 12, 2, 8960, True), "sequence": 1024, "batch": 16, "micro-batch": 8,
                     "published": 58_900},
    "qwen2.5-7b": {"config": qwen(3584, 28, 28, 4, 18944, False), "sequence": 1024, "batch": 8, "micro-batch": 4,
                   "flags": ["--memory.recompute=full"], "published": 13_800},
    "llama-1b": {
        "config": {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
                   "max_position_embeddings": 8192, "tie_word_embeddings": True},
        "sequence": 1024, "batch": 16, "micro-batch": 8},
    # Of seconds on any device, to try this script.
    "tiny": {
        "config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
                   "max_position_embeddings": 64, "tie_word_embeddings": True},
        "sequence": 64, "batch": 4, "micro-batch": 2},
}
DEFAULT_SIZES = ["gpt2-124m", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b"]
WARMUP, STEPS, PROFILED = 4, 10, 2
NAMES = {"ours": "ours", "eager": "PyTorch", "compile": "torch.compile"}
PARTS = ("tests", "speed", "kernels")


class Clock:
    """The time that is left. Raises Failed for what needs more."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        seconds = self.end - time.monotonic()
        if seconds < 10:
            raise runner.Failed("no time was left")
        return seconds


def describe_machine(arguments):
    said = subprocess.run([arguments.binary, "check"], capture_output=True, text=True).stdout
    driver = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.strip() if has_driver() else ""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return {"check": said, "gpu": driver, "commit": commit}


def has_driver():
    return any((pathlib.Path(folder) / "nvidia-smi").exists() for folder in os.environ["PATH"].split(":"))


def run_test_program(arguments, program, clock):
    """The tests of a program of tests -> "ok", or how they failed."""
    binary = arguments.binary.parent / program
    if not binary.exists():
        return {program: f"{binary} was not built"}
    found = arguments.out / f"{program}.json"
    found.unlink(missing_ok=True)
    try:
        subprocess.run([binary, "--gtest_filter=-Slow*", f"--gtest_output=json:{found}"], capture_output=True,
                       timeout=clock.left() / 4)
    except subprocess.TimeoutExpired:
        return {program: "it did not end in a quarter of the time that was left"}
    if not found.exists():
        return {program: "it ended early"}
    results = {}
    for suite in json.loads(found.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            failures = test.get("failures", [])
            results[f"{suite['name']}.{test['name']}"] = failures[0]["failure"][:300] if failures else "ok"
    return results


def run_commands_tests(arguments, clock):
    """gpu_test.py of tests/e2e, case by case"""
    environment = {**os.environ, "COLOSSAL_BUILD": str(arguments.binary.parent.resolve())}
    process = subprocess.Popen([arguments.python, "gpu_test.py", "--verbose"], cwd=ROOT / "tests" / "e2e", text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    results = {}
    try:
        said, _ = process.communicate(timeout=clock.left() / 2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started, which would disturb what is measured next
        said, _ = process.communicate()
        results["gpu_test.py"] = "it did not end in half of the time that was left"
    (arguments.out / "logs" / "gpu_test.txt").write_text(said)
    return results | outcomes(said)


def outcomes(said):
    """What unittest says with --verbose -> test -> "ok", "skipped", or how it ended. A test that fails, or of which a part
    does, has a line "FAIL: ..." or "ERROR: ..." at the end."""
    results = {}
    begun = r"^test_(\w+) \(\S+\)"
    for name, rest in re.findall(begun + r"(.*(?:\n(?!test_\w+ \(|=====).*)*)", said, re.M):
        ended = re.search(r"(?:\.\.\. |^)(ok|skipped\b.*)$", rest, re.M)
        results[name] = ended[1].split()[0] if ended else "did not end"
    for how, name in re.findall(r"^(FAIL|ERROR): test_(\w+) ", said, re.M):
        results[name] = how
    return results


def run_tests(arguments, clock):
    results = {}
    parts = {program: functools.partial(run_test_program, arguments, program, clock) for program in ("test_gpu", "test_nccl")}
    parts["gpu_test.py"] = functools.partial(run_commands_tests, arguments, clock)
    for name, run in parts.items():
        try:
            results |= run()
        except runner.Failed as failure:
            results[name] = str(failure)
    return results


def flags_of(size, arguments):
    return [*runner.model_flags(size, arguments.out), f"--train.micro_batch={size['micro-batch']}",
            "--precision.compute=bf16", "--scheduler.name=constant", *size.get("flags", [])]


def run_ours(arguments, name, corpus, clock):
    size = SIZES[name]
    lines, _ = runner.train(arguments.binary, corpus, arguments.out, f"{name}-ours", [
        *flags_of(size, arguments), f"--train.steps={WARMUP + STEPS}", "--parallel.device=gpu"], 1, timeout=clock.left())
    planned = runner.plan(arguments.binary, corpus, arguments.out, f"{name}-plan", flags_of(size, arguments), 1)
    return {"step_seconds": [line["step_seconds"] for line in lines],
            "device_peak_bytes": lines[-1]["device_peak_bytes"], "planned_bytes": planned["memory_at_peak"],
            "fallbacks": lines[-1].get("fallbacks", 0),
            "loss_first": lines[0]["loss"], "loss_last": lines[-1]["loss"]}


def run_peer(arguments, system, name, clock):
    size = SIZES[name]
    command = [arguments.python, runner.PEERS / "torch_gpu_train.py", system, f"--steps={WARMUP + STEPS}"]
    command += [f"--{key}={json.dumps(size[key]) if key == 'config' else size[key]}"
                for key in ("config", "sequence", "batch", "micro-batch")]
    output, _ = runner.run(command, arguments.out / "logs" / f"{name}-{system}.txt", timeout=clock.left())
    return json.loads(output.splitlines()[-1])


def measure(arguments, corpus, number, clock, add):
    for name in arguments.sizes:
        for system in arguments.systems:
            row = {"round": number, "size": name, "system": system}
            try:
                clock.left()
                figures = (run_ours(arguments, name, corpus, clock) if system == "ours"
                           else run_peer(arguments, system, name, clock))
                timed = statistics.median(figures["step_seconds"][WARMUP:])
                row |= {**figures, "tokens_per_second": SIZES[name]["batch"] * SIZES[name]["sequence"] / timed}
            except runner.Failed as failure:
                row["error"] = str(failure)
            add(row)
            said = row.get("error") or f"{row['tokens_per_second']:,.0f} tokens/s"
            print(f"round {number}  {name:12} {system:8} {said}", file=sys.stderr, flush=True)


def profile(arguments, name, corpus, clock):
    """The tables of two steps: by layer, operator and kernel"""
    runner.train(arguments.binary, corpus, arguments.out, f"{name}-profile", [
        *flags_of(SIZES[name], arguments), f"--train.steps={2 + PROFILED}", f"--log.profile={PROFILED}",
        "--parallel.device=gpu"], 1, timeout=clock.left())
    return (runner.run_folder(arguments.out, f"{name}-profile") / "profile.txt").read_text()


def speed_table(rows):
    table = Table("size", "system", "rounds", "tokens/s, min / median / max", "ours / theirs, median", "GPU memory, peak",
                  "planned")
    for size in dict.fromkeys(row["size"] for row in rows):
        rates = {}
        for row in rows:
            if row["size"] == size and "error" not in row:
                rates.setdefault(row["system"], []).append(row)
        ours = [row["tokens_per_second"] for row in rates.get("ours", [])]

        def ratio(theirs):
            return f"{statistics.median(ours) / theirs:.2f}" if ours else ""
        for system, runs in rates.items():
            values = [row["tokens_per_second"] for row in runs]
            planned = f"{runs[-1]['planned_bytes'] / 2**30:.1f} GiB" if system == "ours" else ""
            table.add(size, NAMES[system], len(runs), " / ".join(f"{value:,.0f}" for value in spread(values)),
                      "" if system == "ours" else ratio(statistics.median(values)),
                      f"{max(row['device_peak_bytes'] for row in runs) / 2**30:.1f} GiB", planned)
        if "published" in SIZES[size]:
            table.add(size, "LLM.Q, H100, published", "", f"{SIZES[size]['published']:,}", ratio(SIZES[size]["published"]), "", "")
    return table


def report(found):
    page = Page("Training on one GPU")
    page.note(f"{found['machine']['gpu'] or 'No GPU driver.'} Commit {found['machine']['commit']}. bf16 with fp32 master "
              f"weights; sequences of 1,024 tokens; the median of {STEPS} steps of a run.")
    failed = {name: said for name, said in found.get("tests", {}).items() if said not in ("ok", "skipped")}
    if "tests" in found:
        page.heading("Tests")
        page.note(f"{len(found['tests']) - len(failed)} of {len(found['tests'])} passed.")
        if failed:
            table = Table("test", "what it said")
            for name, said in failed.items():
                table.add(name, said)
            page.table(table)
    if found.get("speed"):
        page.heading("Speed and memory")
        page.table(speed_table(found["speed"]))
        for row in found["speed"]:
            if "error" in row:
                page.note(f"{row['size']}, {NAMES[row['system']]}: {row['error']}")
    for name, text in found.get("kernels", {}).items():
        page.heading(f"Where the time of {name} goes")
        page.preformatted(text)
    return page


def main():
    parser = benchmark.Parser(__doc__, ROOT / "build-cuda" / "colossal", rounds=1)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_names("parts", PARTS, default=list(PARTS))
    parser.add_names("sizes", SIZES, default=DEFAULT_SIZES)
    parser.add_names("systems", NAMES, default=list(NAMES))
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="has PyTorch for the GPU, and transformers")
    arguments = parser.parse_args()
    (arguments.out / "logs").mkdir(parents=True, exist_ok=True)
    clock, results = Clock(arguments.minutes), arguments.out / "gpu.json"
    found = json.loads(results.read_text()) if results.exists() else {}
    found["machine"] = describe_machine(arguments)
    corpus = runner.make_corpus(arguments.out)

    def save():
        results.write_text(json.dumps(found, indent=1))
    if "tests" in arguments.parts:
        found["tests"] = run_tests(arguments, clock)
        save()
    if "speed" in arguments.parts:
        rows = found.setdefault("speed", [])

        def add(row):
            rows.append(row)
            save()
        first = max((row["round"] for row in rows), default=0) + 1
        for number in range(first, first + arguments.rounds):
            measure(arguments, corpus, number, clock, add)
    if "kernels" in arguments.parts:
        for name in arguments.sizes:
            try:
                found.setdefault("kernels", {})[name] = profile(arguments, name, corpus, clock)
            except runner.Failed as failure:
                found["kernels"][name] = str(failure)
        save()
    page = report(found)
    page.write(arguments.out)
    benchmark.show(page, arguments.out)


if __name__ == "__main__":
    main()
