#include "colossal/models/weight_names.h"

#include <fmt/format.h>

#include <string>

#include "colossal/base/error.h"

namespace colossal::models {
namespace {

// A layer of this program, and the last part of the parameter's name if the mapping is of a layer.
struct Found {
  const LayerMapping& layer;
  std::string kind;  // ".weight", ".bias"; empty: the mapping is of the parameter itself
};

// local: the parameter's name without its block.
Found find_layer(const std::vector<LayerMapping>& names, std::string_view local,
                 const std::string& parameter) {
  for (const LayerMapping& name : names) {
    if (name.ours == local) return {name, ""};
  }
  const size_t last = local.rfind('.');
  COLOSSAL_CHECK(last != std::string_view::npos, "no parameter {} in this family", parameter);
  for (const LayerMapping& name : names) {
    if (name.ours == local.substr(0, last)) return {name, std::string(local.substr(last))};
  }
  COLOSSAL_CHECK(false, "no parameter {} in this family", parameter);
}

// Returns rows [begin, begin + count) of each group. A group has `size` rows and belongs to one
// head of keys.
LayerMapping::Rows rows_of_groups(const TransformerConfig& config, int64_t begin, int64_t count,
                                  int64_t size) {
  LayerMapping::Rows rows{{}, config.kv_heads * size};
  for (int64_t group = 0; group < config.kv_heads; ++group) {
    rows.runs.push_back({group * size + begin, group * size + begin + count});
  }
  return rows;
}

int64_t group_queries(const TransformerConfig& config) {
  return config.query_features() / config.kv_heads;
}

int64_t stacked_size(const TransformerConfig& config) {
  return config.query_features() + 2 * config.key_features();
}

}  // namespace

void WeightNames::set(const std::string& ours, const std::string& theirs, LayerMapping::Rows rows) {
  std::erase_if(of_a_block, [&](const LayerMapping& name) { return name.ours == ours; });
  of_a_block.push_back({.ours = ours, .theirs = theirs, .rows = std::move(rows)});
}

std::string WeightNames::prefix_of(int64_t block) const {
  return block < encoder_layers ? fmt::format("{}{}.", encoder_blocks, block)
                                : fmt::format("{}{}.", blocks, block - encoder_layers);
}

TensorSlice slice_of(const WeightNames& names, const std::string& parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  std::string_view local = parameter;
  std::string before;
  const bool of_a_block = local.starts_with(kBlocks);
  const std::vector<LayerMapping>* layers = of_a_block ? &names.of_a_block : &names.others;
  if (of_a_block) {
    const size_t dot = local.find('.', kBlocks.size());
    COLOSSAL_CHECK(dot != std::string::npos, "no parameter {} in this family", parameter);
    const int64_t block = std::stoll(std::string(local.substr(kBlocks.size(), dot)));
    before = names.prefix_of(block);
    const bool has_names = !names.of_an_encoder_block.empty();
    if (has_names && block < names.encoder_layers) layers = &names.of_an_encoder_block;
    local = local.substr(dot + 1);
  }
  const auto [layer, kind] = find_layer(*layers, local, parameter);
  TensorSlice slice{.name = fmt::format("{}{}{}", before, layer.theirs, kind)};
  for (int64_t index = 0; index < layer.stacked; ++index) {
    const std::string_view theirs = layer.theirs;
    const size_t number = theirs.find("{}");
    slice.stacked.push_back(fmt::format("{}{}{}{}{}", before, theirs.substr(0, number), index,
                                        theirs.substr(number + 2), kind));
  }
  if (!slice.stacked.empty()) slice.name = slice.stacked.front();
  slice.rows = layer.rows.runs;
  slice.num_rows = layer.rows.total;
  slice.columns = layer.columns;
  slice.num_columns = layer.num_columns;
  slice.num_ones = layer.num_ones;
  return slice;
}

LayerMapping::Rows stacked_queries(const TransformerConfig& config) {
  return {{{0, config.query_features()}}, stacked_size(config)};
}

LayerMapping::Rows stacked_keys(const TransformerConfig& config) {
  const int64_t begin = config.query_features();
  return {{{begin, begin + config.key_features()}}, stacked_size(config)};
}

LayerMapping::Rows stacked_values(const TransformerConfig& config) {
  const int64_t begin = config.query_features() + config.key_features();
  return {{{begin, begin + config.key_features()}}, stacked_size(config)};
}

LayerMapping::Rows grouped_queries(const TransformerConfig& config) {
  const int64_t queries = group_queries(config);
  return rows_of_groups(config, 0, queries, queries + 2 * config.head_size);
}

LayerMapping::Rows grouped_keys(const TransformerConfig& config) {
  const int64_t queries = group_queries(config);
  return rows_of_groups(config, queries, config.head_size, queries + 2 * config.head_size);
}

LayerMapping::Rows grouped_values(const TransformerConfig& config) {
  const int64_t queries = group_queries(config);
  return rows_of_groups(config, queries + config.head_size, config.head_size,
                        queries + 2 * config.head_size);
}

LayerMapping::Rows latent_queries(const TransformerConfig& config) {
  const int64_t size = config.head_size;
  const int64_t plain = size - config.attention.front().rotary.channels;
  LayerMapping::Rows rows{{}, config.query_features()};
  for (int64_t begin = 0; begin < rows.total; begin += size) {
    rows.runs.push_back({begin + plain, begin + size});
    rows.runs.push_back({begin, begin + plain});
  }
  return rows;
}

LayerMapping::Rows stacked_gate(const TransformerConfig& config) {
  return {{{0, config.inner}}, 2 * config.inner};
}

LayerMapping::Rows stacked_up(const TransformerConfig& config) {
  return {{{config.inner, 2 * config.inner}}, 2 * config.inner};
}

}  // namespace colossal::models
