"""Small random models of many architectures of transformers, a UNet of diffusers, and batches for them."""
import diffusers
import torch
import transformers

VOCABULARY, WIDTH = 67, 24
_TEXT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_IMAGE = {"image_size": 16, "patch_size": 4, "num_channels": 3}
_TOWER = {"hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
_SPEECH = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "conv_dim": (16, 16),
           "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2, "vocab_size": VOCABULARY,
           "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0,
           "activation_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0, "apply_spec_augment": False,
           "mask_time_prob": 0.0, "pad_token_id": 0}
_SEQ2SEQ = {"vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64, "dropout": 0.0,
            "attention_dropout": 0.0, "activation_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": 2}


def _ids(rows=3, columns=11):
    return torch.randint(3, VOCABULARY, (rows, columns))


def _text():
    ids = _ids()
    mask = torch.ones_like(ids)
    mask[0, 7:] = 0  # a padded row
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def _pair():
    return {"input_ids": _ids(), "labels": _ids(columns=7)}


def _image():
    return {"pixel_values": torch.randn(3, 3, 16, 16), "labels": torch.randint(0, 5, (3,))}


def _large_image():
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 5, (2,))}


def _image_and_text():
    return {"pixel_values": torch.randn(3, 3, 16, 16), "input_ids": _ids(), "return_loss": True}


# name: (class, arguments of its config's class, batch)
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", _GROUPED, _text),
    "mistral": ("MistralForCausalLM", {**_GROUPED, "head_dim": 6}, _text),
    "qwen2": ("Qwen2ForCausalLM", {**_GROUPED, "tie_word_embeddings": True}, _text),
    "qwen3": ("Qwen3ForCausalLM", {**_GROUPED, "head_dim": 8}, _text),
    "gemma2": ("Gemma2ForCausalLM", {**_GROUPED, "head_dim": 8}, _text),
    "gemma3": ("Gemma3ForCausalLM", {**_GROUPED, "head_dim": 8}, _text),
    "phi3": ("Phi3ForCausalLM", {**_GROUPED, "resid_pdrop": 0.0, "embd_pdrop": 0.0}, _text),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 64,
                                 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}, _text),
    "gpt_neox": ("GPTNeoXForCausalLM", {**_TEXT, "hidden_dropout": 0.0}, _text),
    "opt": ("OPTForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "ffn_dim": 40, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "max_position_embeddings": 64, "word_embed_proj_dim": WIDTH, "dropout": 0.0,
                               "pad_token_id": 0}, _text),
    "bloom": ("BloomForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4}, _text),
    "falcon": ("FalconForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4},
               _text),
    "stablelm": ("StableLmForCausalLM", _GROUPED, _text),
    "olmo2": ("Olmo2ForCausalLM", _GROUPED, _text),
    "cohere": ("CohereForCausalLM", _GROUPED, _text),
    "mamba": ("MambaForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "state_size": 4}, _text),
    "mixtral": ("MixtralForCausalLM", {**_GROUPED, "num_local_experts": 4}, _text),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**_GROUPED, **_EXPERTS, "num_experts": 4, "head_dim": 8}, _text),
    "bert": ("BertForMaskedLM", {**_TEXT, **_NO_DROPOUT}, _text),
    "roberta": ("RobertaForSequenceClassification", {**_TEXT, **_NO_DROPOUT},
                lambda: {"input_ids": _ids(), "labels": torch.randint(0, 2, (3,))}),
    "distilbert": ("DistilBertForMaskedLM", {"vocab_size": VOCABULARY, "dim": WIDTH, "hidden_dim": 40, "n_layers": 2, "n_heads": 4,
                                             "dropout": 0.0, "attention_dropout": 0.0}, _text),
    "modernbert": ("ModernBertForMaskedLM", {**_TEXT, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}, _text),
    "deberta_v2": ("DebertaV2ForMaskedLM", {**_TEXT, **_NO_DROPOUT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, _text),
    "t5": ("T5ForConditionalGeneration", {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 6, "d_ff": 40, "num_layers": 2,
                                          "num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0}, _pair),
    "bart": ("BartForConditionalGeneration", _SEQ2SEQ, _pair),
    "vit": ("ViTForImageClassification", {**_TOWER, **_IMAGE, **_NO_DROPOUT, "num_labels": 5}, _image),
    "dinov2": ("Dinov2ForImageClassification", {**_TOWER, **_IMAGE, **_NO_DROPOUT, "num_labels": 5}, _image),
    "swin": ("SwinForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 4],
                                            "window_size": 4, "num_labels": 5, "drop_path_rate": 0.0, **_NO_DROPOUT}, _large_image),
    "convnext": ("ConvNextForImageClassification", {"num_stages": 2, "hidden_sizes": [12, 24], "depths": [1, 2], "num_labels": 5},
                 _large_image),
    "resnet": ("ResNetForImageClassification", {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 1], "num_labels": 5,
                                                "layer_type": "basic"}, _large_image),
    "clip": ("CLIPModel", {"text_config": {**_TEXT}, "vision_config": {**_TOWER, **_IMAGE}, "projection_dim": 12}, _image_and_text),
    "siglip": ("SiglipModel", {"text_config": {**_TEXT}, "vision_config": {**_TOWER, **_IMAGE}}, _image_and_text),
    "whisper": ("WhisperForConditionalGeneration", {**_SEQ2SEQ, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32},
                lambda: {"input_features": torch.randn(2, 8, 32), "labels": _ids(2, 7)}),
    "wav2vec2": ("Wav2Vec2ForCTC", _SPEECH, lambda: {"input_values": torch.randn(2, 400), "labels": _ids(2, 5)}),
}


class UNet(diffusers.UNet2DConditionModel):
    """With the loss that the models of transformers compute themselves."""

    def forward(self, noised, noise, step, text):
        predicted = super().forward(noised, step, encoder_hidden_states=text).sample
        return transformers.modeling_outputs.MaskedLMOutput(loss=(predicted - noise).square().mean())


ARCHITECTURES["unet"] = (
    "UNet", {"sample_size": 8, "in_channels": 3, "out_channels": 3, "layers_per_block": 1, "block_out_channels": (8, 16),
             "norm_num_groups": 4, "attention_head_dim": 4, "cross_attention_dim": 12,
             "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
    lambda: {"noised": torch.randn(2, 3, 8, 8), "noise": torch.randn(2, 3, 8, 8), "step": torch.randint(0, 1000, (2,)),
             "text": torch.randn(2, 5, 12)})


def model_of(name):
    """The same weights on each rank, in fp64."""
    kind, arguments, _ = ARCHITECTURES[name]
    torch.manual_seed(1)
    if name == "unet":
        return UNet(**arguments).double()
    kind = getattr(transformers, kind)
    config = kind.config_class(**arguments)
    config._experts_implementation = "eager"  # grouped products have no fp64
    return kind(config).double()


def batch_of(name, seed):
    torch.manual_seed(seed)
    return {key: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for key, value in ARCHITECTURES[name][2]().items()}
