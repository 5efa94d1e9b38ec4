// ModelFacts: the sizes of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::models {

// Sizes of a model, for validation and estimates before anything is allocated.
struct ModelFacts {
  std::string family;      // model_type in config.json
  int64_t layers = 0;      // number of blocks
  int64_t hidden = 0;      // features of the residual stream
  int64_t heads = 0;       // query heads
  int64_t kv_heads = 0;    // heads of keys and of values
  int64_t head_size = 0;   // features per query or key head
  int64_t value_size = 0;  // features per value head
  // Number of key heads in the KV cache of a layer, which is also the number of its value heads:
  // kv_heads, or 1 if the cache stores the latents of latent attention
  // (TransformerConfig::key_value_cache_heads()).
  int64_t key_value_cache_heads = 0;
  // Numbers that the KV cache stores per token and layer: the features of the keys and values of
  // all heads together.
  int64_t key_value_cache_features = 0;
  bool causal = true;  // TransformerConfig::causal: false for encoders
  // Of an encoder-decoder: how many of `layers` are the encoder's, and the token that precedes the
  // first token of each target. 0: the model is no encoder-decoder.
  int64_t encoder_layers = 0;
  int64_t decoder_start_token = 0;
  // Of an encoder-decoder: the tokens that precede generated ones: the start token and, of models
  // that were trained to begin each text with the same token, that token.
  std::vector<int64_t> decoder_prompt;
  bool is_decoder() const { return causal && encoder_layers == 0; }
  int64_t scores = 0;        // TransformerConfig::scores; 0: the head returns logits of tokens
  int64_t vocabulary = 0;    // number of rows of the token embedding
  int64_t positions = 0;     // maximum sequence length, without the virtual tokens of a prefix
  int64_t experts = 0;       // routed experts of each layer that has experts; 0: no layer has any
  int64_t expert_inner = 0;  // intermediate size of an expert
  // In sequences of more tokens than this, the rotary frequencies depend on the sequence length. 0:
  // they never depend on it.
  int64_t fixed_rotary_length = 0;
  int64_t parameters = 0;  // number of the model's parameters, without an adapter's
  // For each layer: the maximum number of keys that a query sees because of the layer's sliding
  // window; 0: the layer has no window.
  std::vector<int64_t> windows;
  // Returns the FLOPs per token of a forward and a backward pass over sequences of `sequence`
  // tokens: 6 * product_weights (the last field), plus 6 * heads * (head_size + value_size) * T for
  // the attention of each layer, where T is the smaller of `sequence` and the layer's window
  // (`sequence` without a window). 6: a multiply-add is 2 FLOPs, and for each product of the
  // forward pass there are two in the backward pass. The causal mask is not taken into account.
  // Of a model of two towers, `sequence` tokens are an image, and flops_of_text / sequence is
  // added.
  double flops_per_token(int64_t sequence) const;
  // Of a model of two towers: how many of `layers`, the last ones, are the tower's for texts, and
  // the FLOPs of a text of all positions in this tower.
  int64_t text_layers = 0;
  double flops_of_text = 0;
  // Number of weights that multiply each token, the head's included; of experts, only the weights
  // of the experts to which a token is routed.
  int64_t product_weights = 0;
};

}  // namespace colossal::models
