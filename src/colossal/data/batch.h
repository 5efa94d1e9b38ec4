// Batch: the samples of one forward pass, as named fields. BatchSpecification: which fields the
// batches of a run have.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "colossal/nn/sequence_part.h"

namespace colossal::data {

// Tokens, labels, pixels, rewards: one value or tensor of values for each row of a batch.
struct Field {
  at::Tensor values;  // [batch, ...]; or [] or [1]: one value for the whole batch
  // The dimension of `values` that runs over the positions of a sequence, if there is one. Sequence
  // parallelism shards this dimension.
  std::optional<int64_t> sequence_dim = std::nullopt;
};

// A row is a sample. Batches that are read from data are on the CPU. local_batch()
// copies a rank's part of a batch to its device. The task that makes a batch and the model that
// reads it agree on the names of its fields; nothing between the two knows them.
struct Batch {
  // [batch]: a number for each row, from which its random numbers (dropout masks) follow. In
  // training, it is the position of the row in the run's order of samples, so that a sample has new
  // dropout masks in each epoch.
  std::vector<int64_t> sample_ids = {};
  std::map<std::string, Field> fields = {};  // by name
  // What throughput counts, over all rows: tokens without padding, images.
  int64_t units = 0;

  int64_t rows() const { return static_cast<int64_t>(sample_ids.size()); }
  bool has(const std::string& field) const { return fields.contains(field); }
  // Return the values of a field. at() throws InternalError, which names the batch's fields, if the
  // batch lacks the field; find() then returns an undefined tensor.
  at::Tensor& at(const std::string& field);
  const at::Tensor& at(const std::string& field) const;
  at::Tensor find(const std::string& field) const;
  // Adds or replaces a field.
  void set(const std::string& field, at::Tensor values,
           std::optional<int64_t> sequence_dim = std::nullopt);
};

// Returns this rank's part of a batch, on the part's device: every row, with the positions of its
// sequence that this rank computes. The fields that have a sequence_dim are sharded; the others are
// copied as they are.
Batch local_batch(const Batch& batch, const nn::SequencePart& part);

struct FieldSpecification {
  std::string name;
  at::ScalarType type = at::kLong;
  std::vector<int64_t> shape = {};  // of one row
  std::optional<int64_t> sequence_dim = std::nullopt;
};

// The fields that the batches of a run have at least, with the sizes of its longest samples. Dry
// runs make their batches from it.
struct BatchSpecification {
  std::vector<FieldSpecification> fields;
  int64_t units_of_sample = 0;  // Batch::units of one row

  // Returns a batch of `rows` rows with uninitialized values on `device`. Its sample_ids are 0, 1,
  // ..
  Batch make(int64_t rows, at::Device device) const;
};

}  // namespace colossal::data
