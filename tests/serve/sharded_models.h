// Small models and strategies for tests of several ranks.
#pragma once

#include <vector>

#include "colossal/layout/heads.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"

namespace colossal::test {

// Sizes that do not divide evenly, 4 layers, 6 heads.
inline models::ModelSpecification uneven_gpt2() {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 4},
                                              {"n_embd", 36},
                                              {"n_head", 6},
                                              {"vocab_size", 53},
                                              {"n_positions", 64}}});
}

// Fewer heads of keys and values than ranks.
inline models::ModelSpecification grouped_llama(bool tied) {
  return models::resolve_model({.preset = "llama-tiny",
                                .overrides = {{"num_hidden_layers", 4},
                                              {"hidden_size", 36},
                                              {"head_dim", 8},
                                              {"num_attention_heads", 6},
                                              {"num_key_value_heads", 2},
                                              {"intermediate_size", 96},
                                              {"vocab_size", 53},
                                              {"max_position_embeddings", 64},
                                              {"tie_word_embeddings", tied}}});
}

// All heads share the latents that are kept.
inline models::ModelSpecification latent_deepseek() {
  return models::resolve_model({.preset = "deepseek-v3",
                                .overrides = {{"num_hidden_layers", 4},
                                              {"hidden_size", 36},
                                              {"num_attention_heads", 6},
                                              {"num_key_value_heads", 6},
                                              {"q_lora_rank", 10},
                                              {"kv_lora_rank", 9},
                                              {"qk_nope_head_dim", 6},
                                              {"qk_rope_head_dim", 4},
                                              {"v_head_dim", 7},
                                              {"first_k_dense_replace", 4},
                                              {"intermediate_size", 40},
                                              {"vocab_size", 53},
                                              {"rope_scaling", nullptr},
                                              {"max_position_embeddings", 64}}});
}

inline models::ModelSpecification gpt_oss_of_few_experts() {
  return models::resolve_model({.preset = "gpt-oss-20b",
                                .overrides = {{"num_hidden_layers", 4},
                                              {"hidden_size", 36},
                                              {"head_dim", 8},
                                              {"num_attention_heads", 6},
                                              {"num_key_value_heads", 2},
                                              {"intermediate_size", 20},
                                              {"num_local_experts", 5},
                                              {"num_experts_per_tok", 2},
                                              {"sliding_window", 8},
                                              {"vocab_size", 53},
                                              {"max_position_embeddings", 64}}});
}

inline models::ModelSpecification qwen_of_few_experts() {
  return models::resolve_model({.preset = "qwen3-30b-a3b",
                                .overrides = {{"num_hidden_layers", 4},
                                              {"hidden_size", 36},
                                              {"head_dim", 8},
                                              {"num_attention_heads", 6},
                                              {"num_key_value_heads", 2},
                                              {"intermediate_size", 40},
                                              {"moe_intermediate_size", 22},
                                              {"num_experts", 5},
                                              {"num_experts_per_tok", 2},
                                              {"vocab_size", 53},
                                              {"max_position_embeddings", 64}}});
}

inline Strategy tensor_strategy(TensorMode mode, int tp, int depth = 1, int pp = 1) {
  return {.pp = pp, .tp = tp, .tensor_mode = mode, .tp_depth = depth, .tp_sequence = false};
}

// Every tensor mode, and stages of two of them.
inline std::vector<Strategy> tensor_and_pipeline_strategies() {
  return {tensor_strategy(TensorMode::one_d, 2),
          tensor_strategy(TensorMode::one_d, 1, 1, 2),
          tensor_strategy(TensorMode::one_d, 2, 1, 2),
          tensor_strategy(TensorMode::two_d, 4),
          tensor_strategy(TensorMode::two_and_half_d, 8, 2),
          tensor_strategy(TensorMode::three_d, 8),
          tensor_strategy(TensorMode::two_d, 4, 1, 2)};
}

// Completed for a model, as even a cut of its blocks as it goes.
inline Strategy for_model(Strategy strategy, const models::ModelFacts& facts) {
  strategy.key_value_replicas =
      key_value_replicas(facts.heads, facts.kv_heads, strategy.head_ranks());
  const int stages = strategy.num_stages();
  for (int stage = 0; stages > 1 && stage < stages; ++stage) {
    strategy.stage_blocks.push_back(facts.layers * (stage + 1) / stages -
                                    facts.layers * stage / stages);
  }
  return strategy;
}

}  // namespace colossal::test
