"""OpenVINO GenAI: tokens/s of sequences of new tokens and of prompts, as bench/serving.py asks for."""
import argparse
import json
import random
import time

import numpy
import openvino
import openvino_genai as genai

parser = argparse.ArgumentParser()
for name in ("model", "sequences", "prompts"):
    parser.add_argument(f"--{name}", required=True)
for name in ("threads", "prompt", "new"):
    parser.add_argument(f"--{name}", type=int, required=True)
arguments = parser.parse_args()

options = {"INFERENCE_NUM_THREADS": arguments.threads, "INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "LATENCY"}
scheduler = genai.SchedulerConfig()
scheduler.cache_size, scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 2, 2048, 256
scheduler.enable_prefix_caching = False
pipeline = genai.ContinuousBatchingPipeline(arguments.model, scheduler, "CPU", options)
drawn = random.Random(1)


def seconds(sequences, length, new):
    config = genai.GenerationConfig()
    config.max_new_tokens, config.min_new_tokens, config.do_sample, config.ignore_eos = new, new, False, True
    prompts = [openvino.Tensor(numpy.array([drawn.choices(range(300, 20000), k=length)], dtype=numpy.int64))
               for _ in range(sequences)]
    start = time.perf_counter()
    pipeline.generate(prompts, [config] * sequences)
    return time.perf_counter() - start


figures = {}
seconds(1, arguments.prompt, 8)
for count in map(int, arguments.sequences.split(",")):
    first, all_new = seconds(count, arguments.prompt, 1), seconds(count, arguments.prompt, arguments.new)
    suffix = "" if count == 1 else f" of {count}"
    figures["decode" + suffix] = count * (arguments.new - 1) / (all_new - first)
    if count > 1:
        figures["whole" + suffix] = count * arguments.new / all_new
for length in map(int, filter(None, arguments.prompts.split(","))):
    figures[f"prompt {length}"] = length / min(seconds(1, length, 1), seconds(1, length, 1))
print(json.dumps(figures))
