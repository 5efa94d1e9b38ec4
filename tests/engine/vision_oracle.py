"""Makes small random vision transformers and writes what ours must compute from their folders.

vision_oracle.py DIRECTORY: for each variant, DIRECTORY/VARIANT gets
  model/              config.json and weights, as transformers saves them, in float64
  result.safetensors  pixels [3, channels, height, width], targets [3] as float64, logits, loss, gradient.NAME,
                      losses of three steps of AdamW, and trained.NAME, the weights after them. Of models of two
                      towers, tokens [3, positions] as float64 in place of targets, and logits of images and
                      texts. Of models that
                      reconstruct masked patches, masks [3, patches] as float64 and reconstruction, shaped as pixels, in
                      place of targets and logits; their losses are means over the masked pixels, see mean_loss()
Everything is computed in float64.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForImageClassification, AutoModelForMaskedImageModeling, ViTImageProcessor
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

BASES = json.loads((pathlib.Path(__file__).parents[1] / "support" / "vision.json").read_text())
BOTH = {"both": True}  # towers
MASKED = {"masked": True, "num_labels": 2}
ACTIVATIONS = {f"hidden_act_{name}": {"hidden_act": name} for name in ("gelu_new", "quick_gelu", "relu", "silu")}
SWITCHES = {
    "vit": {**ACTIVATIONS, "other_size": {"images": [20, 13], "image_size": 12}, "qkv_bias": {"qkv_bias": False}, "layer_norm_eps": {"layer_norm_eps": 0.01},
            "square": {"image_size": 8}, "one_channel": {"num_channels": 1}, "head_dim": {"head_dim": 8},
            "masked": {**MASKED, "image_size": 12, "encoder_stride": 4},
            "masked_one_channel": {**MASKED, "image_size": 8, "patch_size": 2, "encoder_stride": 2, "num_channels": 1}},
    "deit": {"qkv_bias": {"qkv_bias": True}, "masked": {**MASKED, "encoder_stride": 5}},
    "dinov2": {"other_size": {"images": [20, 13]}, "gated": {"use_swiglu_ffn": True}, "no_mask_token": {"use_mask_token": False}},
    "clip": {"both": BOTH, "both_other_size": {**BOTH, "images": [20, 13]}, "both_highest": {**BOTH, "text_config": {**BASES["clip"]["text_config"], "eos_token_id": 2}},
             "other_size": {"images": [20, 13]}, "gelu": {"vision_config": {**BASES["clip"]["vision_config"], "hidden_act": "gelu"}}},
    "siglip": {"both": BOTH, "both_other_size": {**BOTH, "images": [20, 13]}, "other_size": {"images": [20, 13]}},
    "dinov2_with_registers": {"plain": {"use_swiglu_ffn": False}, "no_registers": {"num_register_tokens": 0}},
}


def use_float64():
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double


def variants():
    for family, base in BASES.items():
        yield family, family, base
        for name, fields in SWITCHES.get(family, {}).items():
            yield f"{family}.{name}", family, {**base, **fields}


def mean_loss(model, pixels, masks):
    """The mean over the masked pixels. The model's own loss divides by their number + 1e-5."""
    count = masks.sum() * model.config.patch_size**2
    return model(pixels, bool_masked_pos=masks).loss * (count + 1e-5) / count


def tokens_of(config):
    """Three texts of all positions. Those of CLIP have its token for the end at several places."""
    tokens = torch.randint(8, config.vocab_size, (3, config.max_position_embeddings))
    if config.eos_token_id < config.vocab_size:
        for row, place in enumerate((2, 5, config.max_position_embeddings - 1)):
            tokens[row, place:] = config.eos_token_id
    return tokens


def train(model, loss_of):
    """Three steps with this loss, with the settings of TinyTraining."""
    parameters = [p for p in model.parameters() if p.grad is not None]  # not of unused mask tokens and norms
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.95), eps=1e-5)
    losses = []
    for _ in range(3):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def write(directory, family, fields):
    """fields: of the configuration, "images": the height and width of images of another size, "masked": whether the
    model reconstructs masked patches, and "both": whether it has both towers."""
    torch.manual_seed(5)
    fields = dict(fields)
    images = fields.pop("images", None)
    masked, both = fields.pop("masked", False), fields.pop("both", False)
    config = CONFIG_MAPPING[family](**fields)
    config._attn_implementation = "eager"
    model_class = AutoModelForMaskedImageModeling if masked else AutoModel if both else AutoModelForImageClassification
    model = model_class.from_config(config, dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    directory.mkdir(parents=True)
    model.save_pretrained(directory / "model")
    vision = getattr(config, "vision_config", config)
    sides = vision.image_size if isinstance(vision.image_size, (list, tuple)) else [vision.image_size] * 2
    more = {}
    if images:
        ViTImageProcessor(size=dict(zip(("height", "width"), images))).save_pretrained(directory / "model")
        sides = images
        more = {"interpolate_pos_encoding": True} if family in ("vit", "clip", "siglip") else {}
    pixels = torch.randn(3, vision.num_channels, *sides)
    if masked:
        masks = torch.rand(3, (sides[0] // config.patch_size) * (sides[1] // config.patch_size)) < 0.5
        inputs = {"masks": masks.double(), "reconstruction": model(pixels, bool_masked_pos=masks).reconstruction.detach()}
        loss_of = lambda: mean_loss(model, pixels, masks)
    elif both:
        tokens = tokens_of(config.text_config)
        run = lambda: model(input_ids=tokens, pixel_values=pixels, return_loss=True, **more)
        inputs = {"tokens": tokens.double(), "logits": run().logits_per_image.detach()}
        loss_of = lambda: run().loss
    else:
        targets = torch.randint(0, config.num_labels, (3,))
        inputs = {"targets": targets.double(), "logits": model(pixels, **more).logits.detach()}
        loss_of = lambda: F.cross_entropy(model(pixels, **more).logits, targets)
    loss = loss_of()
    loss.backward()
    result = {"pixels": pixels, **inputs, "loss": loss.detach()}
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    for name, gradient in revert_weight_conversion(model, gradients).items():
        result["gradient." + name] = gradient.clone()
    result["losses"] = train(model, loss_of)
    trained = {n: p.detach() for n, p in model.named_parameters()}
    for name, weight in revert_weight_conversion(model, trained).items():
        result["trained." + name] = weight.clone()
    save_file({name: tensor.contiguous() for name, tensor in result.items()}, directory / "result.safetensors")


def main(root):
    torch.set_num_threads(1)
    use_float64()
    for name, family, fields in variants():
        write(root / name, family, fields)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
