// The table of a vocabulary, [vocabulary, features], as embeddings and heads read it: one
// parameter, or several of one name, each a block of its rows, of which one is here at a time.
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

  // The table in few bits; null where it is in numbers.
  const ops::QuantizedMatrix* quantized() const { return whole()->quantized.get(); }
  // Each block while a layer of that name (empty: the table's) runs on it alone; of a table in few
  // bits the numbers of some rows after others.
  ops::ForEachBlock blocks(const std::string& layer = "") const;

 private:
  std::vector<ParameterHandle> blocks_;
};

// The one run of rows of [rows, features] that is here.
Range rows_here(const Parameter& table);

// The rows of each block of `rows`, which are at most `block_rows` (0: any number) of the `largest`
// part of a table: evenly cut, and into as many blocks as that one.
std::vector<Range> cut_rows(Range rows, int64_t largest, int64_t block_rows);

}  // namespace colossal::nn
