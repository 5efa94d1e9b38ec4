// The table of a vocabulary, [vocabulary, features], as embeddings and heads read it. It is one
// parameter, or several with one name, each a block of rows, of which one is here at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/parameter.h"
#include "colossal/ops/row_blocks.h"

namespace colossal::nn {

class TokenTable {
 public:
  explicit TokenTable(std::vector<ParameterHandle> blocks) : blocks_(std::move(blocks)) {}

  bool is_cut() const { return blocks_.size() > 1; }
  // Returns the parameter of a table that is not cut.
  const ParameterHandle& whole() const { return blocks_.front(); }
  int64_t vocabulary() const { return blocks_.front()->shape[0]; }
  TokenTable tie() const;  // for the second layer that reads it
  void mark_as_head() const;

  Range rows_here() const;  // of all blocks
  // Returns the quantized table; null: it is not quantized.
  const ops::QuantizedMatrix* quantized() const { return whole()->quantized.get(); }
  // Returns a loop over the blocks, each in a scope of layer `layer` (empty: the table's). Of a
  // quantized table it visits dequantized rows, some at a time.
  ops::ForEachBlock blocks(const std::string& layer = "") const;

 private:
  std::vector<ParameterHandle> blocks_;
};

// Returns the range of a table's rows that is here.
Range rows_here(const Parameter& table);

// Cuts `rows`, a part of a table, evenly into blocks: as many as the largest part, of `largest`
// rows, needs for blocks of at most `block_rows` rows (0: one).
std::vector<Range> cut_rows(Range rows, int64_t largest, int64_t block_rows);

}  // namespace colossal::nn
