// TransformerConfig: everything that a transformer computes, a decoder such as Llama, an encoder
// such as BERT, an encoder-decoder such as BART or a vision transformer, in terms that all families
// share. Each family
// converts its config.json to a TransformerConfig, from which Transformer is built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/models/model_facts.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/patch_embedding.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/attention/rotary.h"
#include "colossal/ops/clamped_gate.h"

namespace colossal::models {

// The attention settings that may differ between layers.
struct LayerAttention {
  double scale = 0;  // factor of the attention scores; 0: 1 / sqrt(head_size)
  // Sliding window: number of keys that a query sees, its own included; 0: all. Without a causal
  // mask: number of keys on each side of the query, its own included.
  int64_t window = 0;
  ops::RotaryOptions rotary{};  // default: no rotary embedding

  bool operator==(const LayerAttention&) const = default;
};

struct TransformerConfig {
  std::string family;      // model_type in config.json
  int64_t vocabulary = 0;  // number of rows of the token embedding
  int64_t hidden = 0;      // features of the residual stream
  int64_t layers = 0;      // number of blocks
  int64_t positions = 0;   // maximum sequence length

  // Whether each position attends only to itself and the positions before it, as in a decoder.
  // false: it attends to all positions, as in an encoder, which is trained to predict masked
  // tokens.
  bool causal = true;

  // An encoder-decoder (A. Vaswani et al., "Attention Is All You Need", 2017) if encoder_layers >
  // 0: the first `encoder_layers` of the `layers` blocks are its encoder, which reads the source
  // text and is not causal. The others are its decoder, whose blocks also attend to the encoder's
  // output, between attention and MLP. Both embed tokens by one table; `learned_positions`,
  // `embedding_norm` and `final_norm` say what each of the two has of its own.
  int64_t encoder_layers = 0;
  int64_t decoder_start_token = 0;              // precedes the first token of each target
  std::optional<int64_t> forced_first_token{};  // of each generated text

  // Of an encoder-decoder: number of buckets of the relative position bias that the self-attention
  // of all blocks of the encoder shares, and that of the decoder (nn::RelativeBiasOptions); 0: no
  // bias. relative_distance: RelativeBiasOptions::max_distance.
  int64_t relative_buckets = 0;
  int64_t relative_distance = 0;

  // Input of the first block: embedding(tokens) * embedding_scale + embedding of token types +
  // learned positions, then a norm, then dropout. The next five fields describe what comes before
  // the dropout, whose probability is embedding_dropout.
  double embedding_scale = 1;
  // Number of token types ("segments"), which tell apart the two texts of a pair. 0: the model has
  // no embedding of token types.
  int64_t token_types = 0;
  bool learned_positions = false;  // whether there is a table of position embeddings
  int64_t position_offset = 0;     // unused rows at the start of the position table
  bool embedding_norm = false;
  // Whether the model is an EAGLE draft model. The input of its first block is then a linear layer
  // of two concatenated vectors: the token's embedding, and the target model's final hidden state
  // of the previous token (Y. Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature
  // Uncertainty", 2024).
  bool is_draft_head = false;

  // Of a model that reads images: its first layer, which replaces all of the above but the norm.
  // `vocabulary` is then 0, and `positions` is the number of tokens of an image.
  std::optional<nn::PatchEmbeddingOptions> patches{};

  enum class Norm { rms, layer };  // RMS norm, layer norm
  Norm norm = Norm::rms;
  double norm_epsilon = 1e-5;
  bool norm_weight = true;        // false: norms have no parameters
  bool norm_bias = true;          // whether layer norms have a bias; RMS norms never have one
  bool norm_unit_offset = false;  // true: norms multiply by 1 + weight instead of weight

  // Where the norms of a block's two branches are. x: the residual stream; branch: attention or
  // MLP.
  enum class NormPlace {
    before,   // x + branch(norm(x))
    after,    // x + norm(branch(x))
    around,   // x + norm(branch(norm(x)))
    residual  // norm(x + branch(x))
  };
  NormPlace norm_place = NormPlace::before;
  // With NormPlace::before: whether the first block's attention has a norm.
  bool first_attention_norm = true;
  bool residual_of_norm = false;  // with NormPlace::before: norm(x) + branch(norm(x)) instead
  // true: both branches read the block's input x: x + attention(norm(x)) + mlp(norm(x)).
  // shared_norm: both branches use one norm instead of a norm for each (B. Wang, GPT-J, 2021).
  bool parallel_branches = false;
  bool shared_norm = false;
  double branch_scale = 1;  // factor of each branch's output; not used with parallel_branches
  // With NormPlace::before: initial value of learned factors of each branch's output, one for each
  // feature (nn::FeatureScale); nullopt: there are none.
  std::optional<double> feature_scale{};
  bool final_norm = true;  // whether there is a norm between the last block and the head

  int64_t heads = 0;       // query heads
  int64_t kv_heads = 0;    // heads of keys and of values; divides heads
  int64_t head_size = 0;   // features per query or key head
  int64_t value_size = 0;  // features per value head; 0: head_size
  // Multi-head latent attention (see nn::LatentAttentionOptions) if key_value_rank > 0. In each
  // query and key head, the first LayerAttention::rotary.channels features then have rotary
  // embedding; the others have none.
  int64_t query_rank = 0;      // features of a query latent; 0: queries have no latents
  int64_t key_value_rank = 0;  // features of a latent of keys and values
  // A single entry for all layers, or one entry per layer.
  std::vector<LayerAttention> attention{{}};
  // Whether queries, keys and values have biases; in latent attention: the down-projections.
  bool qkv_bias = false;
  bool attention_output_bias = false;
  nn::QueryKeyNormOptions query_key_norm{};  // default: no norms of queries and keys
  double attention_soft_cap = 0;  // scores become cap * tanh(scores / cap); 0: no soft cap
  double alibi = 0;               // factor of the ALiBi slopes; 0: no ALiBi
  // Whether the softmax of each head includes one more, learned logit, which belongs to no key
  // ("attention sinks").
  bool attention_sinks = false;

  int64_t inner = 0;  // intermediate size of the MLP
  bool gated = true;  // MLP: down(act(gate(x)) * up(x)); false: down(act(up(x)))
  ops::Activation activation = ops::Activation::silu;
  bool mlp_up_bias = false;  // also of the gate
  bool mlp_down_bias = false;

  // Mixture of experts: if router.experts > 0, experts with intermediate size `expert_inner`
  // replace the MLP in the layers whose entry in layers_with_experts is true (empty: in all
  // layers).
  nn::RouterOptions router{};
  int64_t expert_inner = 0;
  std::optional<ops::ClampedGate> clamped_gate{};  // replaces the experts' activation and gate
  nn::RouterLosses router_losses{};
  std::vector<bool> layers_with_experts{};
  // Shared expert: an MLP with intermediate size `shared_inner` (0: none) that processes all
  // tokens, in addition to the routed experts. shared_gate: whether the shared expert's output is
  // multiplied by the sigmoid of one logit per token, from a linear layer.
  int64_t shared_inner = 0;
  bool shared_gate = false;

  // What the head multiplies: norm(activation(linear(x))), where x is the output of the final norm.
  struct HeadTransform {
    bool bias = true;  // of the linear layer
    ops::Activation activation = ops::Activation::gelu;
    bool norm = true;  // false: no norm
    bool operator==(const HeadTransform&) const = default;
  };
  std::optional<HeadTransform> head_transform{};  // nullopt: the head multiplies x
  // Number of scores that the head returns for each position, instead of logits of tokens: 1 in a
  // reward model, the number of classes in a model that classifies texts. 0: logits.
  int64_t scores = 0;
  // With `scores`: the position whose scores are those of the whole text or image, whether scores
  // have a bias, and the dropout probabilities of the input of `head_transform` and of the head's
  // input. For images also: the mean over all patches or over all tokens, and the sum of the first
  // token's scores and the mean over all patches of the scores of a second head
  // ("score_of_patches").
  enum class ScoredPosition { first, last, mean_of_patches, mean_of_tokens, first_and_patches };
  ScoredPosition scored_position = ScoredPosition::last;
  bool score_bias = false;
  // With `scores`: whether the head reads the output of the last block. The parameters of the final
  // norm are then frozen.
  bool scores_before_norm = false;
  double head_transform_dropout = 0, score_dropout = 0;
  // Of a model that reads images, without `scores`: whether the head ("reconstruction") returns the
  // pixels of each patch, which are learned from those of masked patches (Z. Xie et al., "SimMIM: A
  // Simple Framework for Masked Image Modeling", 2022). patches->mask_token is then `trained`.
  bool reconstructs = false;
  // Of the tower for images of a model of two towers: whether its vectors come from
  // AttentionPooling, instead of from a projection of the first token.
  bool attention_pooling = false;
  // Whether there is a second head, which returns one value (the expected reward) per position.
  bool value_head = false;
  bool tied_head = false;     // whether the head multiplies by the token embedding's table
  bool head_bias = false;     // whether logits have a bias
  double logit_scale = 1;     // factor of the logits
  double logit_soft_cap = 0;  // logits become cap * tanh(logits / cap); 0: no soft cap

  // Which parameters the blocks' linear layers have. true: as in GPT-2 and its files, weights are
  // [in, out], and queries, keys and values have one common weight. false: weights are [out, in],
  // and queries, keys and values have one weight each.
  bool stored_in_out = false;

  // Standard deviation of newly initialized weights. residual_initializer_range: for linear layers
  // whose output is added to the residual stream; 0: initializer_range.
  double initializer_range = 0.02;
  double residual_initializer_range = 0;
  // Other standard deviations than initializer_range, as T5 has; 0: initializer_range.
  struct InitialRanges {
    double embedding = 0, head = 0, relative_bias = 0;
    double query = 0;             // also of cross-attention
    double attention_output = 0;  // also of cross-attention
    double mlp_down = 0;
    bool operator==(const InitialRanges&) const = default;
  };
  InitialRanges initial_ranges{};

  // Dropout probabilities.
  double embedding_dropout = 0;
  double attention_dropout = 0;         // of attention probabilities
  double attention_output_dropout = 0;  // of the attention branch's output
  double mlp_inner_dropout = 0;         // of the input of the MLP's down layer
  double mlp_dropout = 0;               // of the MLP branch's output
  double final_dropout = 0;             // of the final norm's output
  // With parallel branches: whether both branches use the same dropout mask.
  bool one_branch_dropout = false;

  bool is_of_encoder(int64_t layer) const { return layer < encoder_layers; }
  // Returns whether block number `layer` attends to the output of an encoder.
  bool has_cross_attention(int64_t layer) const {
    return encoder_layers > 0 && !is_of_encoder(layer);
  }
  // Returns the attention settings of block number `layer`.
  const LayerAttention& attention_of(int64_t layer) const {
    return attention.size() == 1 ? attention.front() : attention.at(layer);
  }
  // Returns whether block number `layer` has experts instead of an MLP.
  bool has_experts(int64_t layer) const {
    return router.experts > 0 && (layers_with_experts.empty() || layers_with_experts.at(layer));
  }
  int64_t query_features() const { return heads * head_size; }   // of all query heads
  int64_t key_features() const { return kv_heads * head_size; }  // of all key heads
  int64_t size_of_value() const { return value_size > 0 ? value_size : head_size; }
  // Features of the attention's output, before the output projection.
  int64_t attended_features() const { return heads * size_of_value(); }
  // The size of the KV cache, per token and layer. key_value_cache_heads() returns the number of
  // key heads, which is also the number of value heads. key_value_cache_features() returns the sum
  // of the features of all keys and all values. of_latents: true if the cache stores, instead of
  // the heads' keys and values, the latents from which latent attention computes them. The cache
  // then has one head: its key is the token's latent (key_value_rank features) and the rotary
  // features of the token's key; its value is the same latent again.
  int64_t key_value_cache_heads(bool of_latents) const { return of_latents ? 1 : kv_heads; }
  int64_t key_value_cache_features(bool of_latents) const {
    const int64_t rotary = attention.front().rotary.channels;
    return of_latents ? rotary + 2 * key_value_rank : kv_heads * (head_size + size_of_value());
  }
  bool has_latents() const { return key_value_rank > 0; }  // whether it is latent attention
  bool has_norm_before() const {                           // whether branches read norm(x)
    return norm_place == NormPlace::before || norm_place == NormPlace::around;
  }
  bool operator==(const TransformerConfig&) const = default;
};

// Returns the sizes of the model, such as its number of parameters, for estimates and checks.
ModelFacts facts(const TransformerConfig& config);

}  // namespace colossal::models
