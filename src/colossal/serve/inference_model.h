// A model for inference. Its weights are read from a Hugging Face folder into their memory tiers
// and copied to the device when used.
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
  // Quantizes the weights of linear layers while reading them, and the table of the head (to at
  // least 8 bits). Other tables, norms and biases keep `type`. table_rows is then ignored: tables
  // are whole.
  std::optional<ops::Quantization> quantization;
  // Applies if `quantization` is nullopt. True: linear weights that are quantized in the folder
  // stay quantized, in the same format, where linear layers support the format. False: such weights
  // are dequantized to `type`.
  bool as_stored = false;
  // Weights stored off the device (host, NVMe) are in chunks of about this size; a larger tensor is
  // a chunk by itself. At most window_bytes of chunks, or two chunks if larger, are on the device
  // at once, and up to half as many bytes are being read from NVMe.
  int64_t chunk_bytes = int64_t{4} << 20;
  int64_t window_bytes = int64_t{24} << 20;
  // Called while the weights are read, with the number of tensors read and the total.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // How the ranks partition the model, over pp and tp. Sequence parallelism of tp is off by
  // default: with few tokens per step, sharding activations over tokens gains little.
  Strategy strategy{.tp_sequence = false};
};

class InferenceModel {
 public:
  // Reads the weights buffer by buffer; host memory never holds more weights than are stored in it.
  // Throws ConfigError if the weights do not match the specification, or if weights are to be
  // quantized and are not stored on the device; IoError for read errors.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options);
  // Reads this rank's part of the model, partitioned over the ranks of `world`. Collective. Throws
  // ConfigError also if the strategy would split quantization groups between ranks.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options,
                 comm::World& world);
  ~InferenceModel();

  // The ranks that hold the model; null: this rank holds the whole model.
  const ParallelContext* ranks() const;

  // The model, for any number of forward passes, one at a time.
  models::LanguageModel& operator*() const;

  // Reads this rank's part of a PEFT adapter from a folder to the device. The returned adapter does
  // not depend on this object. Not thread-safe against itself; safe while forward passes run.
  // Throws ConfigError if the folder has no adapter, or an adapter of another model; IoError for
  // read errors and non-finite values.
  std::shared_ptr<const nn::AdapterWeights> load_adapter(const std::filesystem::path& folder);

  at::ScalarType type() const;  // dtype of weights and activations
  at::Device device() const;
  // Describes in which tiers the weights are stored, and how many bytes of them are on the device
  // at once; empty if all are stored on the device.
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
