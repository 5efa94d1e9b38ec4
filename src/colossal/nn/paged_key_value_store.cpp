#include "colossal/nn/paged_key_value_store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/ops/attention/virtual_tokens.h"

namespace colossal::nn {
namespace {

ops::VirtualTokens virtual_tokens_of_row(
    int64_t row, const ops::AttentionOptions& options,
    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) {
  for (const RowsWithVirtualTokens& rows : rows_with_virtual_tokens) {
    if (row >= rows.begin && row < rows.begin + rows.count) return rows.tokens;
  }
  return options.virtual_tokens;
}

// Returns the end of the rows from `row` on that have the same virtual tokens.
int64_t end_of_rows(int64_t row,
                    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) {
  for (const RowsWithVirtualTokens& rows : rows_with_virtual_tokens) {
    if (row < rows.begin) return rows.begin;
    if (row < rows.begin + rows.count) return rows.begin + rows.count;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

PagedKeyValueStore::PagedKeyValueStore(const PagedKeyValueOptions& options)
    : options_(options), layers_(options.layers) {}

void PagedKeyValueStore::begin_step(const std::vector<PagedChunk>& chunks) {
  std::vector<int64_t> pages, places, sequences, positions;
  int64_t most_pages = 1;
  for (const PagedChunk& chunk : chunks) {
    most_pages = std::max(most_pages, std::ssize(chunk.pages));
  }
  const at::Tensor tables = at::zeros({std::ssize(chunks), most_pages}, at::kLong);
  together_.clear();
  alone_ = {};
  for (int64_t sequence = 0; sequence < std::ssize(chunks); ++sequence) {
    const PagedChunk& chunk = chunks[sequence];
    const bool alone = options_.each_token_alone || chunk.alone || chunk.positions.size() == 1;
    COLOSSAL_CHECK(!alone || together_.empty(), "chunk {}: single tokens after longer chunks",
                   sequence);
    if (!alone) {
      together_.push_back({std::ssize(pages), chunk.positions,
                           ops::DeviceTable(at::tensor(chunk.pages, at::kLong))});
    }
    std::ranges::copy(chunk.pages, tables.mutable_data_ptr<int64_t>() + sequence * most_pages);
    for (int64_t position = chunk.positions.begin; position < chunk.positions.end; ++position) {
      pages.push_back(chunk.pages.at(position / options_.page_size));
      places.push_back(position % options_.page_size);
      if (!alone) continue;
      sequences.push_back(sequence);
      positions.push_back(position);
    }
    if (!alone) continue;
    alone_.count += chunk.positions.size();
    alone_.longest = std::max(alone_.longest, chunk.positions.end);
  }
  const auto table = [](const std::vector<int64_t>& numbers) {
    return ops::DeviceTable(at::tensor(numbers, at::kLong));
  };
  page_of_token_ = table(pages);
  slot_of_token_ = table(places);
  alone_.tables = ops::DeviceTable(tables);
  alone_.sequences = table(sequences);
  alone_.positions = table(positions);
}

void PagedKeyValueStore::copy_page(int64_t from, int64_t to) {
  for (const ops::KeyValuePages& layer : layers_) {
    if (!layer.keys.defined()) continue;
    layer.keys.select(0, to).copy_(layer.keys.select(0, from));
    layer.values.select(0, to).copy_(layer.values.select(0, from));
    if (!options_.int8) continue;
    layer.key_scales.select(0, to).copy_(layer.key_scales.select(0, from));
    layer.value_scales.select(0, to).copy_(layer.value_scales.select(0, from));
  }
}

void PagedKeyValueStore::write(const ops::KeyValuePages& layer, const at::Tensor& keys,
                               const at::Tensor& values) {
  const at::Device device = keys.device();
  ops::write_to_pages(layer, keys.squeeze(0), values.squeeze(0), page_of_token_.on(device),
                      slot_of_token_.on(device));
}

// layer: [pages, kv_heads, page_size]. scales: [1, kv_heads, tokens].
void PagedKeyValueStore::write_scales(const at::Tensor& layer, const at::Tensor& scales) {
  at::Tensor rows = layer.permute({0, 2, 1});
  rows.index_put_({page_of_token_.on(layer.device()), slot_of_token_.on(layer.device())},
                  scales.squeeze(0).transpose(0, 1));
}

ops::KeyValuePages PagedKeyValueStore::make_pages(const at::Tensor& keys,
                                                  const at::Tensor& values) const {
  const int64_t pages = options_.pages, page_size = options_.page_size, heads = keys.size(1);
  const at::TensorOptions numbers =
      options_.int8 ? keys.options().dtype(at::kChar) : keys.options();
  ops::KeyValuePages made{.keys = at::empty({pages, heads, keys.size(3), page_size}, numbers),
                          .values = at::empty({pages, heads, page_size, values.size(3)}, numbers),
                          .key_scales = {},
                          .value_scales = {}};
  if (options_.int8) {
    const at::TensorOptions scales = keys.options().dtype(at::kFloat);
    made.key_scales = at::empty({pages, heads, page_size}, scales);
    made.value_scales = at::empty({pages, heads, page_size}, scales);
  }
  return made;
}

at::Tensor PagedKeyValueStore::attend(
    int64_t index, const at::Tensor& queries, const at::Tensor& given_keys,
    const at::Tensor& given_values, const ops::AttentionOptions& options,
    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) {
  ops::KeyValuePages& layer = layers_.at(index);
  if (!layer.keys.defined()) layer = make_pages(given_keys, given_values);
  const int64_t tokens = queries.size(2);
  COLOSSAL_CHECK(queries.size(0) == 1 && tokens == page_of_token_.on_host().numel(),
                 "{} rows of {} tokens, {} in the step", queries.size(0), tokens,
                 page_of_token_.on_host().numel());
  // A rank that works only on tokens of other ranks has no tokens itself.
  if (tokens == 0) return queries.new_empty({1, queries.size(1), 0, given_values.size(3)});
  at::Tensor keys = given_keys, values = given_values;
  if (options_.int8) {
    const ops::ScaledRows of_keys = ops::ScaledRows::of(keys),
                          of_values = ops::ScaledRows::of(values);
    write(layer, of_keys.codes, of_values.codes);
    write_scales(layer.key_scales, of_keys.scales);
    write_scales(layer.value_scales, of_values.scales);
    if (!together_.empty()) {
      keys = of_keys.numbers(keys.scalar_type());
      values = of_values.numbers(values.scalar_type());
    }
  } else {
    write(layer, keys, values);
  }
  const at::Tensor rows = queries.squeeze(0).transpose(0, 1);
  std::vector<at::Tensor> parts;
  if (alone_.count > 0) {
    parts.push_back(
        attend_alone(layer, rows.narrow(0, 0, alone_.count), options, rows_with_virtual_tokens));
  }
  for (const JointChunk& chunk : together_) {
    ops::AttentionOptions of_chunk = options;
    of_chunk.virtual_tokens = virtual_tokens_of_row(chunk.row, options, rows_with_virtual_tokens);
    parts.push_back(attend_together(layer, chunk, queries, keys, values, of_chunk));
  }
  const at::Tensor seen = parts.size() == 1 ? parts.front() : at::cat(parts);
  return seen.transpose(0, 1).unsqueeze(0);
}

at::Tensor PagedKeyValueStore::attend_alone(
    const ops::KeyValuePages& layer, const at::Tensor& rows, const ops::AttentionOptions& options,
    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) const {
  const ops::AttentionResult seen =
      ops::paged_attention(rows, layer, alone_.on(rows.device()), options);
  if (options.virtual_tokens.count() == 0 && rows_with_virtual_tokens.empty()) return seen.output;
  // Views [tokens, heads, size] as [1, heads, tokens, size].
  const auto as_sequence = [](const at::Tensor& x) { return x.unsqueeze(0).transpose(1, 2); };
  const ops::AttentionRule rule(options, rows.size(2));
  const bool one_by_one =
      options_.each_token_alone || rule.window > 0 || !rule.alibi_slopes.empty();
  const at::Tensor output = seen.output.to(seen.logsumexp.scalar_type());
  const auto* positions = alone_.positions.on_host().const_data_ptr<int64_t>();
  for (int64_t row = 0, count = 0; row < alone_.count; row += count) {
    const ops::VirtualTokens tokens = virtual_tokens_of_row(row, options, rows_with_virtual_tokens);
    count =
        one_by_one ? 1 : std::min(alone_.count, end_of_rows(row, rows_with_virtual_tokens)) - row;
    if (tokens.count() == 0) continue;
    // The positions are right for the first row only. They matter only if rows are passed one by
    // one; otherwise each row sees all virtual tokens.
    ops::attend_virtual_tokens(
        {as_sequence(rows.narrow(0, row, count)), {{positions[row], positions[row] + count}}},
        tokens, rule,
        {as_sequence(output.narrow(0, row, count)),
         seen.logsumexp.narrow(0, row, count).t().unsqueeze(0)});
  }
  return output.to(rows.scalar_type());
}

// Copies the keys and values of earlier positions from the pages, except for whole pages that the
// window hides.
at::Tensor PagedKeyValueStore::attend_together(const ops::KeyValuePages& layer,
                                               const JointChunk& chunk, const at::Tensor& queries,
                                               const at::Tensor& keys, const at::Tensor& values,
                                               const ops::AttentionOptions& options) const {
  const int64_t count = chunk.positions.size(), before = chunk.positions.begin;
  const at::Tensor query = queries.narrow(2, chunk.row, count);
  at::Tensor key = keys.narrow(2, chunk.row, count), value = values.narrow(2, chunk.row, count);
  const int64_t hidden = options.window > 0 ? std::max<int64_t>(0, before - options.window + 1) : 0;
  const int64_t first_page = hidden / options_.page_size;
  const int64_t begin = first_page * options_.page_size;
  if (before > begin) {
    const int64_t end_page = (before + options_.page_size - 1) / options_.page_size;
    const at::Tensor pages =
        chunk.pages.on(layer.keys.device()).narrow(0, first_page, end_page - first_page);
    // Reorders [pages, kv_heads, page_size, size] to [1, kv_heads, positions, size].
    const auto in_order = [&](const at::Tensor& taken) {
      return taken.transpose(0, 1).flatten(1, 2).narrow(1, 0, before - begin).unsqueeze(0);
    };
    const auto taken = [&](const at::Tensor& rows, const at::Tensor& scales) {
      if (!options_.int8) return rows;
      return ops::ScaledRows{rows, scales.index_select(0, pages)}.numbers(query.scalar_type());
    };
    const at::Tensor earlier_keys =
        taken(layer.keys.index_select(0, pages).transpose(2, 3), layer.key_scales);
    const at::Tensor earlier_values =
        taken(layer.values.index_select(0, pages), layer.value_scales);
    key = at::cat({in_order(earlier_keys), key}, 2);
    value = at::cat({in_order(earlier_values), value}, 2);
  }
  ops::AttentionOptions of_these = options;
  if (begin > 0) of_these.virtual_tokens = {};  // the window hides them, too
  return ops::attention(query, key, value, of_these).squeeze(0).transpose(0, 1);
}

}  // namespace colossal::nn
