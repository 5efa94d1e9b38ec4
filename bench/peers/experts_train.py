"""transformers' mixture-of-experts models in one process, weights and AdamW in bf16 or, in autocast, in fp32."""
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from common import Batches, adamw, loss_of, measure, parse_arguments

arguments = parse_arguments(["weights-bf16", "autocast"])
torch.set_num_threads(arguments.threads)
batches = Batches(arguments, 0, 1)
torch.manual_seed(0)
in_bf16 = arguments.system == "weights-bf16"
config = AutoConfig.for_model(**arguments.config, use_cache=False, pad_token_id=None)
config._experts_implementation = "grouped_mm"  # the fastest of eager, batched_mm and grouped_mm
model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16 if in_bf16 else torch.float32).train()
optimizer = adamw(model.parameters())


def step():
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not in_bf16):
        loss = loss_of(model, *batches.next())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


measure(arguments, step)
