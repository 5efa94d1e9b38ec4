// A model for inference, loaded from a Hugging Face folder. Weights may be stored in several tiers
// (device, host, NVMe); weights stored off the device are copied to the device when they are used.
// Used by `colossal generate`, `serve` and `evaluate`.
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
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::serve {

struct InferenceOptions {
  at::ScalarType type = at::kFloat;  // dtype of weights and activations
  at::Device device = at::kCPU;
  memory::Tiers tiers;  // tiers that store the parameters
  // Splits a token table (embedding or head) into parameters of at most this many rows, so that not
  // all rows need to be on the device at once. 0: no split.
  int64_t table_rows = 0;
  // If set, weights of linear layers are quantized to this format while they are read. The head's
  // table is quantized, too, but to int8 if the format is int4. Other tables, norms and biases have
  // the dtype `type`. table_rows is then ignored.
  std::optional<ops::Quantization> quantization;
  // For linear weights that the folder stores quantized. True: they keep the folder's format if
  // linear layers can compute with it; the others are dequantized to `type`. False: all are
  // dequantized to `type`. Not used if `quantization` is set: all are then dequantized, and
  // quantized to that format.
  bool as_stored = false;
  // Weights stored off the device (host, NVMe) are copied in chunks of about chunk_bytes; a larger
  // tensor is a chunk of its own. At most window_bytes of these chunks are on the device at once
  // (or two chunks, if two are larger). If weights are on NVMe, up to about window_bytes / 2
  // further bytes are being read from there into host memory.
  int64_t chunk_bytes = int64_t{4} << 20;
  int64_t window_bytes = int64_t{24} << 20;
  // Called while the weights are read, unless empty. done: number of parameters read so far. total:
  // number of all parameters of the model. With pipeline parallelism, both include the parameters
  // of other ranks, which this rank skips.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // How the ranks partition the model: over pp and tp, experts over ep and expert_tp. Only
  // evaluation uses dp and sp: they divide the tokens and, with zero = 3, also the weights. Keep
  // the default for the constructor without a world. tp_sequence is off by default: with few tokens
  // per step, sharding activations over tokens gains little.
  Strategy strategy{.tp_sequence = false};
};

// A language model and its weights. Not thread-safe; see also load_adapter().
class InferenceModel {
 public:
  // Loads the whole model on this rank, from the folder specification.weights. Reads the weights
  // one piece after the other, so that host memory needs little room besides the weights that it
  // stores. Throws ConfigError if the weights do not match the specification, or if weights are
  // quantized and options.tiers stores parameters off the device; IoError for read errors.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options);
  // Loads this rank's part of the model, which options.strategy partitions over the ranks of
  // `world`. `world` must outlive this object. Collective. Throws as the constructor above, and
  // ConfigError if quantized weights do not fit the strategy: a quantization group would be divided
  // between ranks, tp is above 1 in another tensor mode than 1d, or zero is 3.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options,
                 comm::World& world);
  ~InferenceModel();

  // Returns all ranks of `world` with their axes; null if this rank is the only one. Valid as long
  // as this object.
  const ParallelContext* ranks() const;

  // Returns the model, which runs one forward pass at a time.
  models::Model& operator*() const;

  // Reads this rank's part of a PEFT adapter from a folder to the device, to be used by single
  // requests (Request::adapter). Not collective, but every rank of `world` must load the adapter
  // before a request uses it. The returned adapter may outlive this object. May be called while
  // forward passes run on another thread, but not by two threads at once. Throws ConfigError if the
  // folder has no adapter, an adapter of another model, or an adapter that cannot be applied by
  // request (e.g. of experts); IoError for read errors and non-finite values.
  std::shared_ptr<const nn::AdapterWeights> load_adapter(const std::filesystem::path& folder);

  at::ScalarType type() const;  // dtype of weights and activations
  at::Device device() const;
  // Returns a text for the user that says how many bytes of weights each tier stores, and how many
  // of the offloaded bytes are on the device at once. Empty if all weights are stored on the
  // device.
  std::string describe_offload() const;

  // Returns the bytes of all weights of this rank, over all tiers.
  int64_t weight_bytes() const;
  // Whether any weights of this rank are quantized.
  bool is_quantized() const;

 private:
  struct Parts;

  // Implements the constructors.
  void open(const models::ModelSpecification& specification, const InferenceOptions& options,
            comm::World& world);
  // Returns the order in which a forward pass uses the weights of `rank`, from a dry run.
  static memory::OrderOfStages record_order(const models::ModelSpecification& specification,
                                            const InferenceOptions& options, int rank);

  std::unique_ptr<comm::World> alone_;  // the world of this rank alone, if the caller passed none
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
