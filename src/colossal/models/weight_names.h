// Maps a decoder's parameters to the tensors of Hugging Face files ("ours" to "theirs").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Maps one layer of the model to the layer of the file that holds it. The last component of a
// parameter's name ("weight", "bias") is the same in both. A parameter for which it is not has an
// entry with its full name, before the entry of its layer.
struct LayerMapping {
  // The rows of the file's layer that belong to the model's layer.
  struct Rows {
    std::vector<Range> runs;
    int64_t total = 0;  // rows of the file's layer
  };

  std::string_view ours, theirs;
  Rows rows{};  // total = 0: all rows
  // The columns of the file's layer that belong to the model's layer, and their total; total 0: all
  // columns.
  Range columns{};
  int64_t num_columns = 0;
  // Number of layers in files that together form the model's layer, each with one index of its
  // first dim (an expert); "{}" in `theirs` stands for the index. 0: one layer in files has all.
  int64_t stacked = 0;
};

struct WeightNames {
  std::string_view blocks;  // what precedes a block's number in files: "transformer.h."
  std::vector<LayerMapping> of_a_block;  // layers of a block, named relative to it
  std::vector<LayerMapping> others;      // all other layers
  // Suffixes of tensors in older files that the model does not read because it computes them.
  std::vector<std::string_view> computed = {};
  // Prefixes of other tensors in files that the model does not use.
  std::vector<std::string> unused = {};

  // Adds or replaces the entry of the layer `ours` in of_a_block.
  void set(std::string_view ours, std::string_view theirs, LayerMapping::Rows rows = {});
};

// Returns where a parameter is stored. Throws InternalError if `names` has no entry for it.
TensorSlice slice_of(const WeightNames& names, const std::string& parameter);

// The rows of queries, keys and values in a fused layer with all queries, then all keys, then all
// values.
LayerMapping::Rows stacked_queries(const DecoderConfig& config);
LayerMapping::Rows stacked_keys(const DecoderConfig& config);
LayerMapping::Rows stacked_values(const DecoderConfig& config);
// The same in a fused layer that is grouped by key head: query heads of the first group, its key
// head, its value head, then the next group.
LayerMapping::Rows grouped_queries(const DecoderConfig& config);
LayerMapping::Rows grouped_keys(const DecoderConfig& config);
LayerMapping::Rows grouped_values(const DecoderConfig& config);
// The rows in files of latent attention's queries, in the model's order: the rotary features of
// each head are the last in files and the first in the model.
LayerMapping::Rows latent_queries(const DecoderConfig& config);
// The rows of the gate and the up projection in a fused layer with all of gate, then all of up.
LayerMapping::Rows stacked_gate(const DecoderConfig& config);
LayerMapping::Rows stacked_up(const DecoderConfig& config);

}  // namespace colossal::models
