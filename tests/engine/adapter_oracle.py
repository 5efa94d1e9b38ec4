"""Makes small models of transformers with adapters of peft, and writes what ours must compute.

adapter_oracle.py DIRECTORY: DIRECTORY/VARIANT gets
  model/              config.json and weights, as transformers saves them, in float64
  adapter/            adapter_config.json and adapter_model.safetensors, as peft saves them
  result.safetensors  tokens [3, sequence + 1] as float64, logits, loss, and gradient.NAME of the adapter's tensors
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from family_oracle import BASES, SEQUENCE, VOCABULARY, use_float64
from peft import LoraConfig, PrefixTuningConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Whose files have products apart, stacked as [in, out], stacked, and in groups of heads.
VARIANTS = {
    "llama": ("llama", dict(target_modules="all-linear")),
    "llama_some": ("llama", dict(target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=True)),
    "llama_pattern": ("llama", dict(target_modules=r".*layers\.1\.(self_attn|mlp)\.(o|up)_proj")),
    "gpt2": ("gpt2", dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "phi3": ("phi3", dict(target_modules=["qkv_proj", "gate_up_proj"])),
    "llama_dora": ("llama", dict(target_modules="all-linear", use_dora=True)),
    "gpt2_dora": ("gpt2", dict(target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, use_dora=True)),
    "phi3_dora": ("phi3", dict(target_modules=["qkv_proj", "down_proj"], use_dora=True)),
    "llama_sizes": ("llama", dict(target_modules="all-linear", alpha_pattern={r".*1\.self_attn\.v_proj": 3},
                                  rank_pattern={"mlp.up_proj": 2, r"layers\.0\.self_attn\..*": 7})),
    "llama_modules": ("llama", dict(target_modules=["q_proj", "up_proj"],
                                    modules_to_save=["lm_head", "embed_tokens", "layers.0.mlp.down_proj"])),
    # Tables of the vocabulary: two, one that both share, one whose rows are scaled.
    "llama_vocabulary": ("llama", dict(target_modules=["q_proj", "embed_tokens", "lm_head"])),
    "gpt2_vocabulary": ("gpt2", dict(target_modules=["wte", "lm_head", "c_fc"], fan_in_fan_out=True)),
    "gemma2_vocabulary": ("gemma2", dict(target_modules=["embed_tokens", "lm_head"])),
    # Stacks of experts, one of which is beside another, or alone.
    "qwen3_moe": ("qwen3_moe", dict(target_modules=["q_proj"],
                                    target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "gpt_oss": ("gpt_oss", dict(target_modules=[],
                                target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "mixtral": ("mixtral", dict(target_modules=["o_proj"], target_parameters=["mlp.experts.down_proj"])),
    "mixtral_first": ("mixtral", dict(target_modules=[], target_parameters=["experts.gate_up_proj"],
                                      rank_pattern={"experts.gate_up_proj": 3})),
    # A prefix: keys and values of fewer heads, behind learned positions, within windows, with ALiBi.
    "llama_prefix": ("llama", dict(num_virtual_tokens=4)),
    "gpt2_prefix": ("gpt2", dict(num_virtual_tokens=4)),
    "gemma2_prefix": ("gemma2", dict(num_virtual_tokens=3)),
    "bloom_prefix": ("bloom", dict(num_virtual_tokens=3)),
    "gpt_neox": ("gpt_neox", dict(target_modules=["query_key_value", "dense"])),
}


def write(directory, family, options):
    torch.manual_seed(5)
    config = CONFIG_MAPPING[family](**BASES[family])
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    directory.mkdir(parents=True)
    model.save_pretrained(directory / "model")
    if "num_virtual_tokens" in options:
        adapter = PrefixTuningConfig(task_type="CAUSAL_LM", **options)
    else:
        adapter = LoraConfig(r=5, lora_alpha=9, init_lora_weights=False, task_type="CAUSAL_LM", **options)
    adapted = get_peft_model(model, adapter, autocast_adapter_dtype=False).eval()
    for name, parameter in adapted.named_parameters():
        if "magnitude" in name or "modules_to_save" in name:
            parameter.data *= 1 + 0.3 * torch.rand_like(parameter)
    adapted.save_pretrained(directory / "adapter")
    tokens = torch.randint(2, VOCABULARY, (3, SEQUENCE + 1))
    logits = adapted(tokens[:, :-1]).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
    loss.backward()
    result = {"tokens": tokens.double(), "logits": logits.detach().contiguous(), "loss": loss.detach()}
    for name, parameter in adapted.named_parameters():
        if parameter.grad is not None:
            name = name.replace(".modules_to_save.default", "").replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector")
            name = name.replace("prompt_encoder.embedding.weight", "prompt_embeddings")
            result["gradient." + name] = parameter.grad
    save_file(result, directory / "result.safetensors")


def main(root):
    torch.set_num_threads(1)
    use_float64()
    for name, (family, options) in VARIANTS.items():
        write(root / name, family, options)


main(pathlib.Path(sys.argv[1]))
