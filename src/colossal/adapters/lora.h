// Low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): how
// they are described, and which products of a model have one. What they compute is part of those
// products: nn/low_rank_adapter.h.
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
  // Whether A and B begin with the largest singular vectors of a weight, which then has the rest
  // (F. Meng et al. 2024, "PiSSA: Principal Singular Values and Singular Vectors Adaptation").
  // Files have what is learned as an adapter of twice the rank beside the weight as it was.
  bool pissa = false;
  bool dora = false;  // S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"
  // Of modules whose rank or alpha is another: regular expressions, as those of targets. Of several
  // that name a module the first counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  // Modules that are trained as they are, by their names or the ends of these after a dot.
  std::vector<std::string> modules_to_save = {};

  // Returns the factor of what an adapter adds: alpha / rank, or with rslora alpha / sqrt(rank) (D.
  // Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023).
  double scale(const std::string& module) const;
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  // What files say of a rank and an alpha: with pissa as much again for the start, at the same
  // scale.
  int64_t rank_in_files(int64_t own) const { return pissa ? 2 * own : own; }
  double alpha_in_files(double own) const;
};

// A product of a model, or the table that its embedding looks up. In its files it may be a part of
// another, fused one.
struct Product {
  std::string name;    // in the model: "blocks.3.query"
  std::string module;  // in its files: "model.layers.3.self_attn.q_proj"

  bool is_of_blocks() const { return name.starts_with("blocks."); }
  // Whether it is a stack of all experts of a layer, which files of peft name by the parameter:
  // "model.layers.3.mlp.experts.down_proj".
  bool is_of_experts() const { return name.find(".experts.") != std::string::npos; }
};

// Of stacks of experts, `parameters` are such targets.
struct Targets {
  std::vector<std::string> modules, parameters;
};

// Returns the products that any of `targets` names; without any, those of blocks but for experts. A
// target is a regular expression of a module, or of the end of its name after a dot: "q_proj",
// "self_attn\..*". Throws ConfigError for one that names no product, with what there is.
std::vector<Product> choose_products(const std::vector<Product>& products, const Targets& targets);

// Throws ConfigError if `target`, of this key, names none of the products that are adapted.
void require_adapted(const std::string& key, const std::string& target,
                     const std::vector<Product>& adapted);

// Whether `name` is the module, or the end of its name after a dot.
bool names_module(const std::string& name, const std::string& module);

// trained: parameters of the model that are trained as they are.
nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted,
                                   const std::vector<std::string>& trained);

}  // namespace colossal::adapters
