// A model that is not trained: its weights are read from a Hugging Face folder to the tiers where
// they rest, and brought to the device for their uses.
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
  at::ScalarType type = at::kFloat;  // of weights and activations
  at::Device device = at::kCPU;
  memory::Tiers tiers;     // of parameters
  int64_t table_rows = 0;  // the most rows of a token table here at once; 0: all
  // Quantizes the weights of products as they are read, and the head's table, that one to 8 bits at
  // least. Other tables, norms and biases stay in `type`. Tables are then whole, whatever
  // table_rows says.
  std::optional<ops::Quantization> quantization;
  // Without quantization: products' weights that the folder holds in few bits stay in these.
  bool as_stored = false;
  // Weights that rest off the device come in chunks of about this size; a larger tensor is a chunk
  // alone. At most window_bytes of them, or two chunks, are on the device, and half as much on the
  // way from NVMe.
  int64_t chunk_bytes = int64_t{4} << 20;
  int64_t window_bytes = int64_t{24} << 20;
  // Called while the weights are read, with how many of how many tensors are done.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // How ranks hold the model together, over pp and tp. Activations between products are whole where
  // the tensor mode leaves the choice: of few tokens there is little to share out.
  Strategy strategy{.tp_sequence = false};
};

class InferenceModel {
 public:
  // Reads the weights buffer by buffer; no more of them is in memory than rests there. Throws
  // ConfigError where they are of another model, or are to be quantized and rest elsewhere than on
  // the device; IoError for what the disk refuses.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options);
  // One rank's part of the model of `world`'s ranks. Collective. Throws ConfigError, too, where
  // weights are to be quantized in groups that the strategy would cut.
  InferenceModel(const models::ModelSpecification& specification, const InferenceOptions& options,
                 comm::World& world);
  ~InferenceModel();

  // The ranks that hold the model together; null: this one alone.
  const ParallelContext* ranks() const;

  // Forward passes, one at a time, any number of them.
  models::LanguageModel& operator*() const;

  // Reads this rank's part of an adapter from a folder of peft, to the device; it needs the model
  // no more. Not thread-safe by itself, but forward passes may go on. Throws ConfigError for a
  // folder that has none, or that of another model; IoError for what the disk refuses, and for
  // numbers that are not finite.
  std::shared_ptr<const nn::AdapterWeights> load_adapter(const std::filesystem::path& folder);

  at::ScalarType type() const;  // of weights and activations
  at::Device device() const;
  // Describes where weights rest, and how many of them are on the device for their uses; empty: all
  // rest on the device.
  std::string describe_offload() const;

  // The bytes of all weights, where they rest.
  int64_t weight_bytes() const;
  // Whether products' weights are in few bits.
  bool is_quantized() const;

 private:
  struct Parts;

  void open(const models::ModelSpecification& specification, const InferenceOptions& options,
            comm::World& world);
  static memory::OrderOfStages record_order(const models::ModelSpecification& specification,
                                            const InferenceOptions& options, int rank);

  std::unique_ptr<comm::World> alone_;  // where nobody gave a world
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
