// Tables of layers that say where a decoder's parameters lie in Hugging Face files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// A layer of ours and the one of the file that holds it. Parameters keep their last name ("weight",
// "bias"); one that files name otherwise is here by its whole name, before its layer.
struct LayerName {
  // The rows of the file's layer that are ours.
  struct Rows {
    std::vector<Range> runs;
    int64_t total = 0;  // of the file's layer
  };

  std::string_view ours, theirs;
  Rows rows{};  // no total: all
  // The columns of the file's layer that are ours, and how many it has; none: all.
  Range columns{};
  int64_t num_columns = 0;
  // How many layers of the file hold one index of our first dim each; "{}" in `theirs` is the
  // index. 0: one layer holds all.
  int64_t stacked = 0;
};

struct WeightNames {
  std::string_view blocks;  // what precedes a block's number: "transformer.h."
  std::vector<LayerName> of_a_block;
  std::vector<LayerName> others;
  // Ends of names of tensors in older files that the model computes itself.
  std::vector<std::string_view> computed = {};
  // Beginnings of the names of tensors that files hold and no layer of ours uses.
  std::vector<std::string> unused = {};

  // Sets where a layer of a block lies.
  void set(std::string_view ours, std::string_view theirs, LayerName::Rows rows = {});
};

// Returns where a parameter lies. Throws InternalError if the tables do not have it.
TensorSlice slice_of(const WeightNames& names, const std::string& parameter);

// Queries, keys and values one after the other.
LayerName::Rows stacked_queries(const DecoderConfig& config);
LayerName::Rows stacked_keys(const DecoderConfig& config);
LayerName::Rows stacked_values(const DecoderConfig& config);
// For each key head: the query heads that see it, that head, and its values.
LayerName::Rows grouped_queries(const DecoderConfig& config);
LayerName::Rows grouped_keys(const DecoderConfig& config);
LayerName::Rows grouped_values(const DecoderConfig& config);
// Of latent attention: in each head of a file's queries those features come last that turn.
LayerName::Rows latent_queries(const DecoderConfig& config);
// Gate and up one after the other.
LayerName::Rows stacked_gate(const DecoderConfig& config);
LayerName::Rows stacked_up(const DecoderConfig& config);

}  // namespace colossal::models
