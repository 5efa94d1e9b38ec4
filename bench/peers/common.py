"""What the peers share: arguments, GPT-2 of transformers, batches, timed steps, one JSON line.

A step is batch, forward, loss, backward, optimizer and the loss as a number: what a step of
`colossal train` is.
"""
import argparse
import datetime
import json
import os
import statistics
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.distributed as dist
import torch.nn.functional as F

LEARNING_RATE = 3e-4
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1


def parse_arguments(systems):
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=systems)
    parser.add_argument("--config", type=json.loads, help="a config.json; else the sizes of a GPT-2")
    for name in ("layers", "hidden", "heads", "vocabulary"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("sequence", "threads", "warmup", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="sequences of a step, all ranks together")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--corpus", required=True, help="a file whose bytes are the tokens")
    return parser.parse_args()


def join_ranks():
    """(rank, number of ranks); as torchrun's environment says, over Gloo on loopback."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class Batches:
    """Random windows of the corpus; a step's are the same for any number of ranks."""

    def __init__(self, arguments, rank, ranks):
        self.bytes = torch.from_file(arguments.corpus, size=os.path.getsize(arguments.corpus),
                                     dtype=torch.uint8)
        self.generator = torch.Generator().manual_seed(0)
        self.batch, self.sequence = arguments.batch, arguments.sequence
        share = self.batch // ranks
        self.mine = slice(rank * share, (rank + 1) * share)

    def next(self):
        """inputs and labels, [batch / ranks, sequence] each"""
        begins = torch.randint(self.bytes.numel() - self.sequence, [self.batch],
                               generator=self.generator)[self.mine]
        windows = self.bytes[begins[:, None] + torch.arange(self.sequence + 1)].long()
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def build_model(arguments):
    from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    if arguments.config:
        config = AutoConfig.for_model(**arguments.config, use_cache=False, pad_token_id=None)
        return AutoModelForCausalLM.from_config(config).train()
    config = GPT2Config(n_layer=arguments.layers, n_embd=arguments.hidden, n_head=arguments.heads,
                        vocab_size=arguments.vocabulary, n_positions=1024, embd_pdrop=0.0,
                        resid_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
                        use_cache=False)
    config._attn_implementation = "sdpa"
    return GPT2LMHeadModel(config).train()


def adamw(parameters):
    """Decay on parameters of two or more dims only."""
    parameters = list(parameters)
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, fused=True)


def loss_of(model, inputs, labels):
    logits = model(input_ids=inputs).logits
    return F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1))


def autocast(arguments):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.dtype == "bf16")


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def loopback_bytes():
    with open("/proc/net/dev") as devices:
        line = next(line for line in devices if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def measure(arguments, step, rank=0, ranks=1):
    """Runs step() -> loss, and prints what it cost on rank 0."""
    def barrier():
        if ranks > 1:
            dist.barrier()

    losses, seconds = [], []
    for index in range(arguments.warmup + arguments.steps):
        if index == arguments.warmup:
            barrier()
            sent_before = loopback_bytes()
        start = time.perf_counter()
        losses.append(float(step()))
        seconds.append(time.perf_counter() - start)
    barrier()
    sent = (loopback_bytes() - sent_before) / arguments.steps
    peaks = [peak_bytes()] * ranks
    if ranks > 1:
        dist.all_gather_object(peaks, peak_bytes())
    if rank == 0:
        timed = seconds[arguments.warmup:]
        print(json.dumps({
            "step_seconds": statistics.median(timed),
            "step_seconds_all": timed,
            "loss_first": losses[0],
            "loss_last": losses[-1],
            "memory_peak_bytes": max(peaks),
            "bytes_sent": sent / ranks,
        }), flush=True)
    if ranks > 1:
        dist.destroy_process_group()
