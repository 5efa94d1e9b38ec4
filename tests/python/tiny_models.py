"""Small models with random weights and a tokenizer, in Hugging Face folders."""
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM)

TEXT = "The quick brown fox jumps over the lazy dog. naïve 日本 1234\n" * 4
TEMPLATE = """{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
SIZES = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "initializer_range": 0.3}


def make_tokenizer(template=TEMPLATE):
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT], vocab_size=300, show_progress=False, special_tokens=["<|endoftext|>", *SPECIAL])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>", chat_template=template)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    return tokenizer


def make_model(folder, family="llama", positions=256, **tokenizer_settings):
    config, model = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[family]
    tokenizer = make_tokenizer(**tokenizer_settings)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    model(config(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, max_position_embeddings=positions, **SIZES)).save_pretrained(folder)


def make_classifier(folder, labels):
    tokenizer = make_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForSequenceClassification(LlamaConfig(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, max_position_embeddings=256,
        id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)}, **SIZES)).save_pretrained(folder)
