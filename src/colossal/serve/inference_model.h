// A model for inference. Its weights are read from a Hugging Face folder into the tiers that store
// them. Weights stored off the device are copied to it when they are used.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "colossal/comm/world.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/families.h"
#include "colossal/ops/quantized_matrix.h"

namespace colossal::serve {

struct InferenceOptions {
  at::ScalarType type = at::kFloat;  // dtype of weights and activations
  at::Device device = at::kCPU;
  memory::Tiers tiers;     // tiers that store the parameters
  int64_t table_rows = 0;  // most rows of a token table on this rank at once; 0: all
  // If set, weights of linear layers are quantized while they are read, and so is the table of the
  // head, to at least 8 bits. Other tables, norms and biases keep `type`. table_rows is then
  // ignored: all rows are on the device.
  std::optional<ops::Quantization> quantization;
  // Used only if `quantization` is nullopt. True: linear weights that the folder stores quantized
  // stay so, in the folder's format, if linear layers can compute with that format. False: such
  // weights are dequantized to `type`.
  bool as_stored = false;
  // Weights stored off the device (host, NVMe) are moved in chunks of about this size; a larger
  // tensor is a chunk by itself. The device holds at most window_bytes of chunks at once (two
  // chunks if these are larger), and at most half as many bytes are being read from NVMe.
  int64_t chunk_bytes = int64_t{4} << 20;
  int64_t window_bytes = int64_t{24} << 20;
  // Called while the weights are read, with the number of tensors read and of all tensors.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // How the ranks partition the model, over pp and tp. tp_sequence is off by default: with few
  // tokens per step, sharding activations over tokens gains little.
  Strategy strategy{.tp_sequence = false};
};

class InferenceModel {
 public:
  // Reads the weights piece by piece, so that host memory holds little besides the weights stored
  // there. Throws ConfigError if the weights do not match the specification, or if weights are to
  // be quantized and are not stored on the device; IoError for read errors.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options);
  // Reads this rank's part of the model, which options.strategy partitions over the ranks of
  // `world`. Collective. Throws ConfigError also if the strategy would split quantization groups
  // between ranks.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options,
                 comm::World& world);
  ~InferenceModel();

  // The ranks that hold the model; null: this rank holds the whole model.
  const ParallelContext* ranks() const;

  // The model. It runs one forward pass at a time, any number of times.
  models::LanguageModel& operator*() const;

  // Reads this rank's part of a PEFT adapter from a folder to the device. The returned adapter may
  // outlive this object. May be called while forward passes run on another thread, but not by two
  // threads at once. Throws ConfigError if the folder has no adapter, or an adapter of another
  // model; IoError for read errors and non-finite values.
  std::shared_ptr<const nn::AdapterWeights> load_adapter(const std::filesystem::path& folder);

  at::ScalarType type() const;  // dtype of weights and activations
  at::Device device() const;
  // Describes in words in which tiers the weights are stored, and how many bytes of them are on the
  // device at once; empty if all weights are stored on the device.
  std::string describe_offload() const;

  // Bytes of all weights of this rank, over all tiers.
  int64_t weight_bytes() const;
  // Whether any linear weights are quantized.
  bool is_quantized() const;

 private:
  struct Parts;

  void open(const models::ModelSpecification& specification, const InferenceOptions& options,
            comm::World& world);
  static memory::OrderOfStages record_order(const models::ModelSpecification& specification,
                                            const InferenceOptions& options, int rank);

  std::unique_ptr<comm::World> alone_;  // the world of this rank alone, if the caller passed none
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
