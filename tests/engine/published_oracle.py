"""Makes small models from the config.json files of published models and writes what ours must compute from their folders.

published_oracle.py DIRECTORY [PART OF A NAME ...]: for each model of tests/support/published_configs.json (none given: all),
DIRECTORY/NUMBER gets
  name                the model's name
  model/              its config.json as published, with smaller sizes, and weights in float64 under the names of the published files
  result.safetensors  tokens [3, sequence + 1] as float64, and loss; of encoder-decoders also source and source_documents

DIRECTORY/fields.json says for each family (by model_type) which fields of config.json transformers' classes read, and the
values that they give to missing fields.
"""
import ast
import copy
import importlib
import inspect
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from family_oracle import ENCODER_DECODERS, ENCODERS, SUPPORT, VOCABULARY, read_source, run, use_float64

PUBLISHED = json.loads((SUPPORT / "published_configs.json").read_text())
SEQUENCE = 11
LAYERS = 7  # more than the period of every pattern of layers

# By name of a field: its value in a small model.
SMALL = dict(vocab_size=VOCABULARY, n_positions=64, n_ctx=64, seq_length=64, max_position_embeddings=64, n_inner=52,
             intermediate_size=52, ffn_dim=52, d_ff=52, encoder_ffn_dim=52, decoder_ffn_dim=52, hidden_dim=52,
             ffn_hidden_size=52, num_local_experts=6, num_experts=6, n_routed_experts=6, moe_intermediate_size=12,
             shared_expert_intermediate_size=20, kv_lora_rank=10, q_lora_rank=14, qk_nope_head_dim=6, qk_rope_head_dim=4,
             v_head_dim=8, sliding_window=4, local_attention=8, rotary_dim=4, num_experts_per_tok=2, experts_per_token=2,
             original_max_position_embeddings=8, n_group=3, topk_group=2, query_pre_attn_scalar=10)
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "word_embed_proj_dim")
DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads")
PREFIXES = {"openai-community/gpt2": "transformer.", "bigscience/bloom-560m": "transformer.", "facebook/bart-base": "model.",
            "Qwen/Qwen3-Embedding-0.6B": "model.", "sentence-transformers/all-MiniLM-L6-v2": "bert.",
            "BAAI/bge-small-en-v1.5": "bert.", "BAAI/bge-m3": "roberta."}


def reduced(config, defaults):
    """The config with small sizes. What is a special case (no window, one key head ...) stays one."""
    small = copy.deepcopy(config)
    if "text_config" in config:  # most of its sizes are defaults
        small["text_config"] = {**reduced(config["text_config"], defaults.text_config), **dict(
            vocab_size=VOCABULARY, num_attention_heads=6, num_key_value_heads=2, head_dim=16, max_position_embeddings=64)}
        return small
    get = lambda field: config.get(field, getattr(defaults, field, None))
    heads = next(get(field) for field in HEADS if get(field))
    hidden = next(get(field) for field in HIDDEN if get(field))
    size = get("head_dim") if isinstance(get("head_dim"), int) else hidden // heads
    for field, value in config.items():
        if value is None or isinstance(value, bool):
            continue
        if field in SMALL and value != 1:
            small[field] = SMALL[field]
        elif field in HIDDEN:
            small[field] = 96
        elif field in DEPTH:
            small[field] = LAYERS
        elif field in HEADS:
            small[field] = 6
        elif field in ("num_key_value_heads", "num_kv_heads"):
            small[field] = 6 if value == heads else 1 if value == 1 else 2
        elif field in ("head_dim", "d_kv"):
            small[field] = 16 if size * heads == hidden else 24
        elif field in ("max_window_layers",):
            small[field] = LAYERS if value >= next(get(f) for f in DEPTH if get(f)) else 1
        elif field == "first_k_dense_replace":
            small[field] = 1
        elif field in ("layer_types", "no_rope_layers"):
            small[field] = value[:LAYERS]
        elif field.endswith("_token_id"):
            small[field] = [v % VOCABULARY for v in value] if isinstance(value, list) else value % VOCABULARY
        elif field == "rope_scaling":
            turning = 16 if size * heads == hidden else 24
            pairs = int(turning * config.get("partial_rotary_factor", 1)) // 2
            for name, setting in value.items():
                if name in ("short_factor", "long_factor"):
                    small[field][name] = setting[:pairs]
                if name == "original_max_position_embeddings":
                    small[field][name] = 8
    if "pad_token_id" not in small and getattr(defaults, "pad_token_id", None):
        small["pad_token_id"] = defaults.pad_token_id % VOCABULARY
    small.pop("auto_map", None)  # names code that is published beside it
    return small


def kind_of(family):
    return (AutoModelForMaskedLM if family in ENCODERS else AutoModelForSeq2SeqLM if family in ENCODER_DECODERS
            else AutoModelForCausalLM)


def write(directory, name, published):
    torch.manual_seed(5)
    family = published["model_type"]
    config_type = CONFIG_MAPPING[family]
    small = reduced(published, config_type())
    folder = directory / "model"
    folder.mkdir(parents=True)
    (directory / "name").write_text(name)
    (folder / "config.json").write_text(json.dumps(small))
    config = AutoConfig.from_pretrained(folder)
    if family == "gemma3":
        config = config.text_config
    config._attn_implementation = "sdpa" if family == "falcon" else "eager"
    config._experts_implementation = "eager"
    model = kind_of(family).from_config(config, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    if name in PREFIXES:  # names as published: without the model's own part
        prefix = PREFIXES[name]
        weights = {tensor.removeprefix(prefix): value for tensor, value in load_file(folder / "model.safetensors").items()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(small))
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(2, VOCABULARY, (3, SEQUENCE + 1))
    source = read_source(family)
    with torch.no_grad():
        logits = run(model, tokens[:, :-1], source).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
    result = {"tokens": tokens.double(), "loss": loss}
    if source:
        result["source"] = source["input_ids"].double()
        result["source_documents"] = source["attention_mask"].double() - 1
    save_file(result, directory / "result.safetensors")


def fields_read(tree):
    """The names X of all config.X, self.config.X and getattr(config, "X") in a module."""
    is_config = lambda node: (isinstance(node, ast.Name) and node.id == "config" or
                              isinstance(node, ast.Attribute) and node.attr == "config")
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_config(node.value):
            found.add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            if is_config(node.args[0]) and isinstance(node.args[1], ast.Constant):
                found.add(node.args[1].value)
    return found


def fields_of_families(families):
    fields = {}
    for family in families:
        config_type = CONFIG_MAPPING[family]
        module = importlib.import_module(config_type.__module__.replace("configuration_", "modeling_"))
        defaults = config_type().to_dict()
        fields[family] = {"read": sorted(fields_read(ast.parse(inspect.getsource(module)))),
                          "defaults": {name: value for name, value in defaults.items() if name != "dtype"}}
    return fields


def main(root, wanted):
    torch.set_num_threads(1)
    use_float64()
    root.mkdir(exist_ok=True)
    families = [*json.loads((SUPPORT / "families.json").read_text()), *ENCODERS, *ENCODER_DECODERS,
                *json.loads((SUPPORT / "vision.json").read_text())]
    (root / "fields.json").write_text(json.dumps(fields_of_families(families)))
    for number, (name, published) in enumerate(PUBLISHED.items()):
        if not wanted or any(part in name for part in wanted):
            write(root / f"{number:03}", name, published)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
