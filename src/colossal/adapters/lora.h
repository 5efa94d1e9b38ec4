// Settings of low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language
// Models", 2021), and the choice of the layers of a model that have an adapter.
// nn/low_rank_adapter.h computes with the adapters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"

namespace colossal::adapters {

// Settings with the meaning of PEFT's LoraConfig. A "module" is a layer, by its name in the model's
// files: "model.layers.3.self_attn.q_proj". For an input x, the adapter of a module adds scale() *
// B A x to the module's output, with matrices A [rank, inputs] and B [outputs, rank].
struct LoraSettings {
  int64_t rank = 16;      // of A and B
  double alpha = 32;      // see scale()
  double dropout = 0.05;  // dropout probability of the adapter's input
  bool rslora = false;    // see scale()
  // PiSSA (F. Meng et al. 2024, "Principal Singular Values and Singular Vectors Adaptation"): A and
  // B start from the weight's `rank` largest singular values and their vectors, so that scale() *
  // B A is the best approximation of the weight. The frozen weight of the model is the original
  // weight minus this initial scale() * B A. Adapter files are relative to the original weight: as
  // one adapter of twice the rank, they store the trained A and B, the initial A, and the negative
  // of the initial B.
  bool pissa = false;
  // DoRA (S. Liu et al. 2024, "Weight-Decomposed Low-Rank Adaptation"): the norm of each row of the
  // adapted weight is a trained parameter of its own.
  bool dora = false;
  // Exceptions to `rank` and `alpha` for some modules: pairs of a regular expression and a value.
  // An expression applies to a module if it matches the module's whole name, or the end of the name
  // after a dot. If several expressions do, only the first one counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  // Modules that are trained fully and have no adapter. An element is a module's name, or the end
  // of its name after a dot.
  std::vector<std::string> modules_to_save = {};

  // Returns the factor of B A x in a module's output: alpha / rank, or, with rslora, alpha /
  // sqrt(rank) (D. Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA",
  // 2023). alpha and rank are those of the module, exceptions applied.
  double scale(const std::string& module) const;
  // Return the rank and the alpha of a module, with the exceptions applied. Throw ConfigError if a
  // regular expression is not valid; so does scale().
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  // Return the rank or the alpha that adapter files state for a module with rank or alpha `own`.
  // They differ from `own` only with pissa: the rank is doubled, and alpha is increased such that
  // scale() of the stated values is the same.
  int64_t rank_in_files(int64_t own) const { return pissa ? 2 * own : own; }
  double alpha_in_files(double own) const;
};

// A layer of a model that can have an adapter: a linear layer, a token embedding, a head, or a
// stack of experts. If a layer is a part of a fused layer in the model's files, several Products
// have the same module.
struct Product {
  std::string name;    // name in the model: "blocks.3.query"
  std::string module;  // name in the model's files: "model.layers.3.self_attn.q_proj"

  // Returns whether the layer is in a block.
  bool is_of_blocks() const { return name.starts_with("blocks."); }
  // Returns whether the layer is a stack of the experts of a block. PEFT files name such a layer by
  // its parameter: "model.layers.3.mlp.experts.down_proj".
  bool is_of_experts() const { return name.find(".experts.") != std::string::npos; }
};

// Patterns of the modules that get an adapter. A pattern is a regular expression that matches a
// module's whole name, or the end of the name after a dot: "q_proj", "self_attn\..*".
struct Targets {
  // The patterns in `modules` (adapter.targets) choose among all layers except stacks of experts;
  // those in `parameters` (adapter.target_parameters) choose among the stacks of experts.
  std::vector<std::string> modules, parameters;
};

// Returns the layers in `products` that match at least one pattern in `targets`, in the order of
// `products`. If `targets` has no pattern, returns all linear layers of blocks except experts.
// Throws ConfigError if a pattern is not a valid regular expression, or if it matches no layer; the
// message then lists the available names.
std::vector<Product> choose_products(const std::vector<Product>& products, const Targets& targets);

// Throws ConfigError if the pattern `target`, such as one of LoraSettings::rank_pattern, is not a
// valid regular expression or matches none of the layers `adapted`, so that it would have no
// effect. key: the configuration key that has the pattern, for the message.
void require_adapted(const std::string& key, const std::string& target,
                     const std::vector<Product>& adapted);

// Returns whether `name` is equal to `module`, or to the part of `module` after one of its dots.
bool names_module(const std::string& name, const std::string& module);

// Returns the options for nn::Builder::adapt(). adapted: the layers that have an adapter. trained:
// the model's own parameters that are trained fully, by their names in the model, such as
// "head.weight": those of the modules in LoraSettings::modules_to_save.
nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted,
                                   const std::vector<std::string>& trained);

}  // namespace colossal::adapters
