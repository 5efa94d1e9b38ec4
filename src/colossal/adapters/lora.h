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
  // PiSSA (F. Meng et al. 2024, "Principal Singular Values and Singular Vectors Adaptation"):
  // initializes A and B from the principal singular vectors of the weight, which keeps the
  // residual. Files store the trained change as an adapter of twice the rank, relative to the
  // original weight.
  bool pissa = false;
  bool dora = false;  // S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"
  // Rank and alpha of modules that differ from `rank` and `alpha`. Keys are regular expressions
  // like those of Targets; the first match applies.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  // Modules that are fully trained, by name or by the end of the name after a dot.
  std::vector<std::string> modules_to_save = {};

  // Returns the scaling factor of B A x: alpha / rank, or with rslora alpha / sqrt(rank) (D.
  // Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023).
  double scale(const std::string& module) const;
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  // Rank and alpha as stored in files. With pissa, files hold the initial A and B too, so the rank
  // doubles; alpha keeps the scale.
  int64_t rank_in_files(int64_t own) const { return pissa ? 2 * own : own; }
  double alpha_in_files(double own) const;
};

// A linear layer or token embedding of a model. In files, its weight may be a part of a fused
// weight.
struct Product {
  std::string name;    // name in the model: "blocks.3.query"
  std::string module;  // name in files: "model.layers.3.self_attn.q_proj"

  bool is_of_blocks() const { return name.starts_with("blocks."); }
  // Whether the layer is the stack of all experts of a block. PEFT files name such layers by the
  // parameter: "model.layers.3.mlp.experts.down_proj".
  bool is_of_experts() const { return name.find(".experts.") != std::string::npos; }
};

// Target patterns: `modules` for linear layers and embeddings, `parameters` for stacks of experts.
struct Targets {
  std::vector<std::string> modules, parameters;
};

// Returns the layers that match any of `targets`; if there are no targets, all linear layers of
// blocks except experts. A target is a regular expression that matches a module name, or the end of
// a module name after a dot: "q_proj", "self_attn\..*". Throws ConfigError, listing the available
// names, if a target matches nothing.
std::vector<Product> choose_products(const std::vector<Product>& products, const Targets& targets);

// Throws ConfigError if `target` matches none of the adapted layers. key: configuration key, for
// the message.
void require_adapted(const std::string& key, const std::string& target,
                     const std::vector<Product>& adapted);

// Whether `name` is the module's name, or the end of the module's name after a dot.
bool names_module(const std::string& name, const std::string& module);

// trained: parameters of the model that are fully trained.
nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted,
                                   const std::vector<std::string>& trained);

}  // namespace colossal::adapters
