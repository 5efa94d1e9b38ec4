// Short trainings of a small model at any layout, and their comparison within contract tolerances.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/comm/world.h"
#include "colossal/engine/engine.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"
#include "colossal/models/model.h"
#include "colossal/models/text_tower.h"
#include "colossal/models/transformer_config.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::test {

// A preset with other fields of its config.json.
models::TransformerConfig decoder(const std::string& preset, const nlohmann::json& fields);

// Sizes that divide by nothing convenient.
models::TransformerConfig tiny_gpt2(double dropout = 0);
models::TransformerConfig tiny_llama(double dropout = 0);
// Six experts in pairs of stacks, whose routers and products have biases.
models::TransformerConfig tiny_gpt_oss(int64_t layers);
// Sizes that are multiples of 8, of which chunks pad none.
models::TransformerConfig unpadded_gpt2();

struct TinyTraining {
  models::TransformerConfig model = tiny_gpt2();
  std::optional<models::TextTower> text_tower;  // then `model` is the tower for images beside it
  // Makes another model of those sizes than the decoder that all families share.
  std::function<std::unique_ptr<models::Model>(nn::Builder& build)> make_model;
  // Errors that a test puts in: another builder than that of the layout, other placements before
  // the parameters get their storage, factors of gradients by a part of the parameter's name.
  std::function<std::unique_ptr<nn::Builder>(const ParallelContext&)> make_builder;
  std::function<void(const nn::ParameterList&, const ParallelContext&)> misplace;
  std::map<std::string, double> gradient_factors;
  std::optional<nn::AdapterOptions> adapter;  // then these are trained, and the model is frozen
  Strategy layout;                            // dp is what sp and tp leave of the ranks
  bool reduce_once_per_step = false;
  memory::Recompute recompute;
  int64_t chunk_bytes = memory::ChunkOptions{}.chunk_bytes;
  int64_t window_bytes = memory::ChunkOptions{}.window_bytes;
  bool order_known = false;  // by a dry run
  memory::Tiers tiers;
  int64_t steps = 3;
  int64_t global_batch = 12;
  int64_t micro_batch = 0;
  int64_t sequence = 10;
  at::ScalarType compute = at::kDouble;
  at::ScalarType gradient = at::kDouble;
  double learning_rate = 1e-2;
  double eps = 1e-8;                 // of AdamW
  optim::OptimizerConfig optimizer;  // its learning_rate and eps do not count, those above do
  bool one_batch = false;            // every step sees the same samples, in the same order
  at::Tensor tokens;  // [global batch, sequence + 1]: every step sees these; undefined: hashed
  // Length of each sample of a step, with a micro_batch of 1; none: `sequence`.
  std::function<int64_t(int64_t sample)> sequence_of;
  std::optional<int64_t> end_of_document;     // token; attention stays within documents
  std::map<std::string, at::Tensor> initial;  // weights by our names; empty: from the seed
  // Another loss than the cross-entropy, and what it tells beside itself; `fields` fills what it
  // asks for of a batch.
  HeadLoss loss;
  std::vector<std::string> metrics;
  double router_bias_rate = 0;
  std::function<void(data::Batch& batch)> fields;
  // Labels for which this holds are ignored.
  std::function<bool(int64_t sample, int64_t position)> ignored;

  // With text_tower: whether `fields` fills in the tokens and their pooling.
  bool texts_given = false;

  // The model without weights, for models::build_model().
  models::ModelSpecification specification() const;
  parallel::Shardings shardings() const { return models::shardings(specification()); }
  // Whether a model or adapter has dropout. Rows then have lengths of their own, and are padded to
  // the longest of their micro-batch, unless tokens, sequence_of or end_of_document are given:
  // masks must not depend on the padding.
  bool drops() const;
  // Of a sample of a step, of what is not padding.
  int64_t length_of(int64_t sample) const;
};

// Gathered over ranks: whole tensors by parameter name.
struct TinyResult {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<std::map<std::string, double>> metrics;
  std::map<std::string, at::Tensor> gradients;  // of the last step, of the mean loss, if trained
  std::map<std::string, at::Tensor> weights;    // after it
  std::vector<std::map<comm::Ledger::Key, comm::Traffic>> traffic;  // by rank, of all steps
  std::vector<memory::TierPools::Traffic> tier_traffic;             // the same
};

// Weights of the training's adapters that are not zeros, of which nothing would be seen at first.
std::map<std::string, at::Tensor> adapters_that_add(const TinyTraining& training);

Strategy strategy_of(const TinyTraining& training, int ranks);

// The samples of a step: tokens and targets by hashing, equal at every layout.
data::Batch tiny_batch(const TinyTraining& training, int64_t step, int64_t begin, int64_t count);

// Trains on `ranks` ranks as threads.
TinyResult train_tiny(const TinyTraining& training, int ranks);

// contract.md's tolerances; `steps` and `learning_rate` scale the weights'.
void expect_same(const TinyResult& result, const TinyResult& reference, double tolerance,
                 const TinyTraining& training);

}  // namespace colossal::test
