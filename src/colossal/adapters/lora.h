// Low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): how
// they are described, and which products of a model have one. What they compute is part of those
// products: nn/low_rank_adapter.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/nn/builder.h"

namespace colossal::adapters {

struct LoraSettings {
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0.05;
  bool rslora = false;
  // How the weights of the model's products are held; unset: as numbers. It is no part of what an
  // adapter's folder says.
  std::optional<ops::PackedType> base = std::nullopt;

  // Returns the factor of what an adapter adds: alpha / rank, or with rslora alpha / sqrt(rank) (D.
  // Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", 2023).
  double scale() const;
};

// A product of a model. In its files it may be a part of another, fused one.
struct Product {
  std::string name;    // in the model: "blocks.3.query"
  std::string module;  // in its files: "model.layers.3.self_attn.q_proj"
};

// Returns the products that any of `targets` names; without targets, all. A target is a regular
// expression of a module, or of the end of its name after a dot: "q_proj", "self_attn\..*". Throws
// ConfigError for one that names no product, with what there is.
std::vector<Product> choose_products(const std::vector<Product>& products,
                                     const std::vector<std::string>& targets);

nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted);

}  // namespace colossal::adapters
