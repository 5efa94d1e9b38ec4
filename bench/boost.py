#!/usr/bin/env python3
"""Times colossal.boost() and what torch has in its place, in turn: GPT-2 of transformers in bf16 with AdamW's state in fp32, on two
ranks of one thread each. DistributedDataParallel under autocast stands beside ZeRO 0 and 1, FSDP2 beside ZeRO 3.

  PYTHONPATH=build/python .venv/bin/python bench/boost.py [--layers 12 --width 768 --steps 4 --rounds 3 --out results.json]
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import torch

SUBJECTS = ["ddp", "zero0", "zero1", "fsdp2", "zero3"]


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("width", 768), ("vocabulary", 50257), ("rows", 2), ("tokens", 256), ("steps", 4), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--subjects", default=",".join(SUBJECTS))
    parser.add_argument("--out", help="a file for the figures, as JSON")
    parser.add_argument("--subject", help=argparse.SUPPRESS)  # of one rank of a measurement
    return parser.parse_args(arguments)


def prepared(subject, model):
    """(what runs forward, optimizer, context of the forward pass)"""
    if subject.startswith("zero"):
        import colossal
        model.bfloat16()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        colossal.boost(model, optimizer, zero=int(subject[-1]))
        return model, optimizer, torch.autocast("cpu", enabled=False)
    torch.distributed.init_process_group("gloo")
    if subject == "ddp":
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        return parallel, torch.optim.AdamW(model.parameters(), lr=1e-4), torch.autocast("cpu", dtype=torch.bfloat16)
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), torch.autocast("cpu", enabled=False)


def measure(arguments):
    """One rank: prints seconds of the median step, peak memory and the last loss."""
    import transformers
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = transformers.GPT2Config(vocab_size=arguments.vocabulary, n_embd=arguments.width, n_layer=arguments.layers,
                                     n_head=arguments.width // 64 or 1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model, optimizer, context = prepared(arguments.subject, transformers.GPT2LMHeadModel(config).train())
    torch.manual_seed(int(os.environ["RANK"]))
    times = []
    for _ in range(arguments.steps + 1):
        inputs = torch.randint(0, arguments.vocabulary, (arguments.rows, arguments.tokens))
        begin = time.perf_counter()
        with context:
            loss = model(input_ids=inputs, labels=inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
    if os.environ["RANK"] == "0":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": statistics.median(times[1:]), "peak_mib": peak, "loss": loss.item()}))


def main():
    arguments = parse()
    if arguments.subject:
        return measure(arguments)
    found = {subject: [] for subject in arguments.subjects.split(",")}
    for number in range(arguments.rounds):
        for subject in found:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", os.path.abspath(__file__),
                       *sys.argv[1:], "--subject", subject]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
            found[subject].append(json.loads(output.splitlines()[-1]))
            print(f"round {number + 1}: {subject:6} {found[subject][-1]}", flush=True)
    for subject, rival in (("zero0", "ddp"), ("zero1", "ddp"), ("zero3", "fsdp2")):
        if {subject, rival} <= found.keys():
            speed = statistics.median(b["seconds"] / a["seconds"] for a, b in zip(found[subject], found[rival]))
            memory = max(a["peak_mib"] for a in found[subject]) / max(b["peak_mib"] for b in found[rival])
            print(f"{subject} beside {rival}: {speed:.2f} times as fast, {memory:.2f} of its memory")
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
