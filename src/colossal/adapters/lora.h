// Low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021):
// their settings, and which linear layers of a model have an adapter. The computation is in
// nn/low_rank_adapter.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"

namespace colossal::adapters {

struct LoraSettings {
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0.05;
  bool rslora = false;
  // PiSSA (F. Meng et al. 2024, "Principal Singular Values and Singular Vectors Adaptation"): A and
  // B are initialized from the principal singular vectors of the weight, and what they
  // compute is taken out of the weight. Files store the trained change relative to the original
  // weight, as an adapter of twice the rank.
  bool pissa = false;
  bool dora = false;  // S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"
  // Ranks and alphas of the modules for which they are not `rank` and `alpha`. Keys are regular
  // expressions like those of Targets; the first that matches applies.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  // Modules that are trained fully, without an adapter. A module is given by its name, or by the
  // end of its name after a dot.
  std::vector<std::string> modules_to_save = {};

  // Returns the factor of B A x in the module's output: alpha / rank, or alpha / sqrt(rank) with
  // rslora (D. Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA",
  // 2023).
  double scale(const std::string& module) const;
  // The rank and alpha of a module, with the patterns applied.
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  // Return the rank and alpha that files store for a module whose rank or alpha is `own`. With
  // pissa, files also hold the initial A and B, so the rank doubles; alpha grows so that scale()
  // stays the same.
  int64_t rank_in_files(int64_t own) const { return pissa ? 2 * own : own; }
  double alpha_in_files(double own) const;
};

// A linear layer or token embedding of a model, which may have an adapter. In files, its weight may
// be a part of a fused weight.
struct Product {
  std::string name;    // name in the model: "blocks.3.query"
  std::string module;  // name in files: "model.layers.3.self_attn.q_proj"

  bool is_of_blocks() const { return name.starts_with("blocks."); }
  // Whether the layer is a stack of all experts of a block. PEFT files name such a layer by its
  // parameter: "model.layers.3.mlp.experts.down_proj".
  bool is_of_experts() const { return name.find(".experts.") != std::string::npos; }
};

// Which layers get an adapter, as patterns: `modules` for linear layers and embeddings,
// `parameters` for stacks of experts.
struct Targets {
  std::vector<std::string> modules, parameters;
};

// Returns the layers that match any of `targets`; if both lists are empty, all linear layers of
// blocks except experts. A target is a regular expression; it must match the module's whole name,
// or the end of the name after a dot: "q_proj", "self_attn\..*". Throws ConfigError, listing the
// available names, if a target matches no layer.
std::vector<Product> choose_products(const std::vector<Product>& products, const Targets& targets);

// Throws ConfigError if the pattern `target` matches none of the adapted layers. key: the
// configuration key, for the message.
void require_adapted(const std::string& key, const std::string& target,
                     const std::vector<Product>& adapted);

// Whether `name` is the module's name, or the end of the module's name after a dot.
bool names_module(const std::string& name, const std::string& module);

// Returns the options with which a model with these adapters is built. trained: names of the
// model's parameters that are trained fully.
nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted,
                                   const std::vector<std::string>& trained);

}  // namespace colossal::adapters
