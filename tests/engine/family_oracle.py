"""Makes small random models of transformers and writes what ours must compute from their folders.

family_oracle.py DIRECTORY [VARIANT ...]: VARIANT is FAMILY or FAMILY.SWITCH; none: all of them. DIRECTORY/VARIANT gets
  model/              config.json and weights, as transformers saves them, in float64
  result.safetensors  tokens [3, sequence + 1] as float64, logits, loss, and gradient.NAME; of encoder-decoders also
                      source [3, source sequence], and source_documents, -1 for padding
DIRECTORY/refused.json has the switches that transformers itself refuses, with its reason.

Everything is computed in float64: what transformers rounds to float32 (norms, softmax, rotary tables) too.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

SEQUENCE = 11
SOURCE = 8  # positions of the texts that an encoder-decoder reads
VOCABULARY = 97
# A small config of each family, which tests in C++ train too.
SUPPORT = pathlib.Path(__file__).parents[1] / "support"
ENCODERS = json.loads((SUPPORT / "encoders.json").read_text())
ENCODER_DECODERS = json.loads((SUPPORT / "encoder_decoders.json").read_text())
BASES = {**json.loads((SUPPORT / "families.json").read_text()), **ENCODERS, **ENCODER_DECODERS}

ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "silu", "quick_gelu"]
ROTARY = {
    "theta": dict(rope_type="default", rope_theta=500.0),
    "linear": dict(rope_type="linear", rope_theta=500.0, factor=3.0),
    "dynamic": dict(rope_type="dynamic", rope_theta=500.0, factor=3.0),
    "yarn": dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16),
    "yarn_mscale": dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16,
                        mscale=0.7, mscale_all_dim=1.1, beta_fast=4.0, beta_slow=0.5, truncate=False),
    "llama3": dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16),
}


def longrope(pairs, original):
    return dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=original,
                short_factor=[1.0 + 0.1 * i for i in range(pairs)], long_factor=[2.0 + 0.3 * i for i in range(pairs)])


def rotary_switches(pairs):
    switches = {"rope_" + name: dict(rope_parameters=dict(value)) for name, value in ROTARY.items()}
    switches["rope_longrope_short"] = dict(rope_parameters=longrope(pairs, 16))
    switches["rope_longrope_long"] = dict(rope_parameters=longrope(pairs, 8))
    # Beyond the positions of the training: the base grows.
    switches["rope_dynamic_long"] = dict(rope_parameters=dict(ROTARY["dynamic"]), max_position_embeddings=8)
    return switches


def activations(field):
    return {f"{field}_{name}": {field: name} for name in ACTIVATIONS}


SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
# By family, other switches than those that are flipped for their type.
SWITCHES = {
    "gpt2": activations("activation_function"),
    "llama": {**rotary_switches(3), **activations("hidden_act"), "head_dim": dict(head_dim=8)},
    "qwen2": {**rotary_switches(3), "windows": dict(
        use_sliding_window=True, sliding_window=4, max_window_layers=1), "layer_types": dict(
        use_sliding_window=True, sliding_window=4, layer_types=SLIDING)},
    "qwen3": {**rotary_switches(4), "windows": dict(
        use_sliding_window=True, sliding_window=4, max_window_layers=1)},
    "mistral": {**rotary_switches(3), "full": dict(sliding_window=None),
                                                "head_dim": dict(head_dim=8)},
    "gemma": activations("hidden_act"),
    "gemma2": {"no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None),
                "layer_types": dict(layer_types=SLIDING[::-1]), **activations("hidden_activation")},
    "gemma3_text": {"cap": dict(final_logit_softcapping=1.5),
                     "layer_types": dict(layer_types=SLIDING), "linear": dict(layer_types=SLIDING, rope_parameters=dict(
                         sliding_attention=dict(rope_type="default", rope_theta=300.0),
                         full_attention=dict(rope_type="linear", rope_theta=5e3, factor=8.0)))},
    "phi3": {"window": dict(sliding_window=4), "partial": dict(rope_parameters=dict(
        rope_type="default", rope_theta=500.0, partial_rotary_factor=0.67)),
        "longrope_short": dict(rope_parameters=longrope(3, 16), original_max_position_embeddings=16),
        "longrope_long": dict(rope_parameters=longrope(3, 8), original_max_position_embeddings=8)},
    "olmo2": {**rotary_switches(3)},
    "glm4": {},
    "cohere": {},
    "cohere2": {"layer_types": dict(layer_types=SLIDING)},
    "smollm3": {"no_rope_layers": dict(no_rope_layers=[0, 1, 1]), "interval": dict(no_rope_layer_interval=2),
                        "windows": dict(use_sliding_window=True, sliding_window=4, no_rope_layer_interval=2)},
    "gptj": {"all_turns": dict(rotary_dim=12), **activations("activation_function")},
    "gpt_neox": {"all_turns": dict(rope_parameters=dict(rope_type="default", partial_rotary_factor=1.0)),
                  **activations("hidden_act")},
    "opt": {"projected": dict(word_embed_proj_dim=24), **activations("activation_function")},
    "bloom": {},
    "mixtral": {"full": dict(sliding_window=None), "window": dict(sliding_window=4), "one": dict(num_experts_per_tok=1),
                "all": dict(num_experts_per_tok=5), "head_dim": dict(head_dim=8)},
    "qwen3_moe": {"some_dense": dict(mlp_only_layers=[1]), "every_second": dict(decoder_sparse_step=2),
                  "one": dict(num_experts_per_tok=1), "window": dict(use_sliding_window=True, sliding_window=4)},
    "qwen2_moe": {"some_dense": dict(mlp_only_layers=[1]), "one": dict(num_experts_per_tok=1), "windows": dict(
        use_sliding_window=True, sliding_window=4, max_window_layers=2)},
    "deepseek_v2": {**rotary_switches(2), "query_rank": dict(q_lora_rank=14), "all_dense": dict(first_k_dense_replace=3),
                    "groups": dict(topk_method="group_limited_greedy", n_group=3, topk_group=2)},
    "deepseek_v3": {**rotary_switches(2), "no_query_rank": dict(q_lora_rank=None), "one_group": dict(
                        n_group=1, topk_group=1)},
    "gpt_oss": {**rotary_switches(4), "full": dict(sliding_window=None), "layer_types": dict(
                    layer_types=SLIDING[::-1]), "one": dict(num_experts_per_tok=1), "gate": dict(
                    swiglu_alpha=1.2, swiglu_limit=7.0)},
    "bart": {"deeper": dict(encoder_layers=3, decoder_layers=1), "heads": dict(decoder_attention_heads=4),
             "inner": dict(decoder_ffn_dim=50), **activations("activation_function")},
    "t5": {"gated": dict(feed_forward_proj="gated-gelu"), "silu": dict(feed_forward_proj="gated-silu"),
           "buckets": dict(relative_attention_num_buckets=6, relative_attention_max_distance=5),
           "deeper": dict(num_layers=1, num_decoder_layers=3)},
    "bert": activations("hidden_act"),
    "roberta": {"padding": dict(pad_token_id=0)},
    "modernbert": {"layer_types": dict(layer_types=SLIDING), "bases": dict(rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=300.0),
        full_attention=dict(rope_type="default", rope_theta=5e3))), **activations("hidden_activation")},
    "falcon": {"newer": dict(new_decoder_architecture=True), "newer_one_norm": dict(
                   new_decoder_architecture=True, num_ln_in_parallel_attn=1), **activations("activation")},
}
# What changes nothing that is compared: dropout, initial values, generation, and sizes that every base sets.
OTHERS = {"use_cache", "tie_encoder_decoder", "pretraining_tp", "slow_but_exact", "is_decoder", "layerdrop",
          "classifier_dropout", "initializer_range", "init_std", "summary_use_proj", "summary_proj_to_labels",
          "summary_first_dropout", "return_dict", "output_hidden_states", "output_attentions",
          "is_encoder_decoder", "is_gated_act"}


def flipped(config):
    """Every switch that is a truth value, and every epsilon, to something else."""
    switches = {}
    for field, value in config.to_dict().items():
        if field in OTHERS or field.endswith("dropout") or field.endswith("pdrop"):
            continue
        if isinstance(value, bool):
            switches[field] = {field: not value}
        elif "eps" in field and isinstance(value, float):
            switches[field] = {field: 0.01}
        elif field == "logit_scale":
            switches[field] = {field: 0.3}
    return switches


def variants():
    for family, base in BASES.items():
        yield family, family, base
        for name, fields in {**flipped(CONFIG_MAPPING[family](**base)), **SWITCHES.get(family, {})}.items():
            yield f"{family}.{name}", family, {**base, **fields}


def use_float64():
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double


EXPERTS = {"mixtral": ("w1", "w3", "w2")}


def in_files(family, name, tensor, tied=True):
    """By their names in files, the tensors that a module's one is there."""
    if family == "gpt_neox":
        return {name.replace("lm_head", "embed_out"): tensor}
    if family == "xlm-roberta" and tied and name == "lm_head.decoder.weight":  # its head comes first
        return {"roberta.embeddings.word_embeddings.weight": tensor}
    if family == "mixtral":
        name = name.replace(".mlp.", ".block_sparse_moe.")
    if ".experts." not in name or family == "gpt_oss":
        return {name: tensor}
    stem, _, matrix = name.rpartition(".")
    gate, up, down = EXPERTS.get(family, ("gate_proj", "up_proj", "down_proj"))
    parts = {down: tensor} if matrix == "down_proj" else dict(zip((gate, up), tensor.chunk(2, dim=1)))
    return {f"{stem}.{expert}.{part}.weight": stack[expert] for part, stack in parts.items()
            for expert in range(len(stack))}


def read_source(family):
    """What the encoder reads: one of three texts is shorter than the others."""
    if family not in ENCODER_DECODERS:
        return {}
    source = torch.randint(2, VOCABULARY, (3, SOURCE))
    mask = torch.ones(3, SOURCE, dtype=torch.long)
    mask[1, SOURCE - 3:] = 0
    return dict(input_ids=source, attention_mask=mask)


def run(model, tokens, source):
    if not source:
        return model(tokens)
    return model(**source, decoder_input_ids=tokens)


def train(model, tokens, source):
    """Three steps on these tokens, with the settings of TinyTraining."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.95), eps=1e-5)
    losses = []
    for _ in range(3):
        output = run(model, tokens[:, :-1], source)
        loss = F.cross_entropy(output.logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        balance = getattr(output, "aux_loss", None)  # transformers adds it where it is given labels
        (loss if balance is None else loss + model.config.router_aux_loss_coef * balance).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def write(directory, family, fields):
    torch.manual_seed(5)
    config = CONFIG_MAPPING[family](**fields)
    tied = getattr(config, "tie_word_embeddings", True)
    # Of Falcon, the other one adds ALiBi twice.
    config._attn_implementation = "sdpa" if family == "falcon" else "eager"
    config._experts_implementation = "eager"  # a loop over experts
    kind = (AutoModelForMaskedLM if family in ENCODERS else AutoModelForSeq2SeqLM if family in ENCODER_DECODERS
            else AutoModelForCausalLM)
    model = kind.from_config(config, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer += 0.1 * torch.randn(buffer.shape)
    directory.mkdir(parents=True)
    model.save_pretrained(directory / "model")
    tokens = torch.randint(2, VOCABULARY, (3, SEQUENCE + 1))
    source = read_source(family)
    logits = run(model, tokens[:, :-1], source).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
    loss.backward()
    result = {"tokens": tokens.double(), "logits": logits.detach().contiguous(), "loss": loss.detach()}
    if source:
        result["source"] = source["input_ids"].double()
        result["source_documents"] = source["attention_mask"].double() - 1
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            for tensor, gradient in in_files(family, name, parameter.grad, tied).items():
                result["gradient." + tensor] = gradient.contiguous()
    result["losses"] = train(model, tokens, source)
    for name, parameter in model.named_parameters():
        for tensor, weight in in_files(family, name, parameter.detach(), tied).items():
            result["trained." + tensor] = weight.contiguous()
    save_file(result, directory / "result.safetensors")


def main(root, wanted):
    torch.set_num_threads(1)
    use_float64()
    refused = {}
    for name, family, fields in variants():
        if wanted and name not in wanted:
            continue
        try:
            write(root / name, family, fields)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {error}"
    (root / "refused.json").write_text(json.dumps(refused, indent=1))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
