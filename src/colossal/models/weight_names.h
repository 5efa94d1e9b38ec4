// Maps a decoder's parameters to the tensors of Hugging Face files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Maps one layer of the model to the layer of the file that holds it. Parameters keep their last
// name ("weight", "bias"). An exception is listed with its full name, before its layer.
struct LayerName {
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
  // Number of file layers that together form the model's layer, each holding one index of its first
  // dimension; "{}" in `theirs` stands for the index. 0: one file layer holds all.
  int64_t stacked = 0;
};

struct WeightNames {
  std::string_view blocks;  // prefix of a block's number: "transformer.h."
  std::vector<LayerName> of_a_block;
  std::vector<LayerName> others;
  // Suffixes of tensors that older files contain and that the model computes itself.
  std::vector<std::string_view> computed = {};
  // Prefixes of tensors in files that the model does not use.
  std::vector<std::string> unused = {};

  // Sets or replaces the entry of a block's layer.
  void set(std::string_view ours, std::string_view theirs, LayerName::Rows rows = {});
};

// Returns where a parameter is stored. Throws InternalError if the parameter is not in the tables.
TensorSlice slice_of(const WeightNames& names, const std::string& parameter);

// Rows of a fused layer with all queries, then all keys, then all values.
LayerName::Rows stacked_queries(const DecoderConfig& config);
LayerName::Rows stacked_keys(const DecoderConfig& config);
LayerName::Rows stacked_values(const DecoderConfig& config);
// Rows of a fused layer grouped by key head: the group's query heads, its key head, its value head.
LayerName::Rows grouped_queries(const DecoderConfig& config);
LayerName::Rows grouped_keys(const DecoderConfig& config);
LayerName::Rows grouped_values(const DecoderConfig& config);
// Rows of latent attention's queries: in files, the rotary features are the last of each head; in
// the model, the first.
LayerName::Rows latent_queries(const DecoderConfig& config);
// Rows of a fused layer with the gate projection, then the up projection.
LayerName::Rows stacked_gate(const DecoderConfig& config);
LayerName::Rows stacked_up(const DecoderConfig& config);

}  // namespace colossal::models
