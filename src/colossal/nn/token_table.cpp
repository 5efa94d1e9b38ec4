#include "colossal/nn/token_table.h"

#include <algorithm>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::nn {
namespace {

// Calls visit() for blocks of dequantized rows. first: index of the table's first row in the whole
// vocabulary.
void visit_numbers(const ops::QuantizedMatrix& table, int64_t first, const ops::VisitRows& visit) {
  constexpr int64_t kRows = 1024;
  for (int64_t row = 0; row < table.outputs; row += kRows) {
    const int64_t end = std::min(table.outputs, row + kRows);
    visit(ops::dequantized_rows(table, row, end, table.type), first + row);
  }
}

}  // namespace

TokenTable TokenTable::tie() const {
  std::vector<ParameterHandle> tied;
  for (const ParameterHandle& block : blocks_) tied.push_back(block.tie());
  return TokenTable(std::move(tied));
}

Range TokenTable::rows_here() const {
  return {nn::rows_here(*blocks_.front()).begin, nn::rows_here(*blocks_.back()).end};
}

void TokenTable::mark_as_head() const {
  for (const ParameterHandle& block : blocks_) block->role = ParameterRole::head_table;
}

ops::ForEachBlock TokenTable::blocks(const std::string& layer) const {
  return [this, layer](const ops::VisitRows& visit) {
    for (const ParameterHandle& block : blocks_) {
      LayerScope scope = layer.empty() ? scope_of(block) : LayerScope(layer);
      if (block->quantized) {
        visit_numbers(*block->quantized, nn::rows_here(*block).begin, visit);
        continue;
      }
      visit(block.use(scope), nn::rows_here(*block).begin);
    }
  };
}

Range rows_here(const Parameter& table) {
  if (table.placement.held.empty()) return {0, table.shape[0]};
  const std::vector<Range>& runs = table.placement.held.front();
  return runs.empty() ? Range{} : runs.front();
}

std::vector<Range> cut_rows(Range rows, int64_t largest, int64_t block_rows) {
  const int64_t count =
      block_rows == 0 ? 1 : std::max<int64_t>(1, (largest + block_rows - 1) / block_rows);
  std::vector<Range> blocks;
  for (int64_t block = 0; block < count; ++block) {
    blocks.push_back(
        {rows.begin + rows.size() * block / count, rows.begin + rows.size() * (block + 1) / count});
  }
  return blocks;
}

}  // namespace colossal::nn
