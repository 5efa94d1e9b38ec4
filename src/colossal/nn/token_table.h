// The table of a vocabulary, [vocabulary, features], as embeddings and heads read it. It is one
// parameter, or several parameters with the same name, each a block of rows. Layers that visit it
// block by block need only one block on the device at a time.
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
  // The parameter of a table that is not cut into blocks.
  const ParameterHandle& whole() const { return blocks_.front(); }
  int64_t vocabulary() const { return blocks_.front()->shape[0]; }
  TokenTable tie() const;  // returns the table for a second layer that reads it
  void mark_as_head() const;

  Range rows_here() const;  // rows of all blocks on this rank
  // Returns the quantized table, or null if the table is not quantized.
  const ops::QuantizedMatrix* quantized() const { return whole()->quantized.get(); }
  // Returns a function that visits the blocks, each in a LayerScope with the name `layer` (empty:
  // the name of the table's layer). A quantized table is visited as dequantized blocks of at most
  // 1024 rows. The TokenTable must outlive the function.
  ops::ForEachBlock blocks(const std::string& layer = "") const;

 private:
  std::vector<ParameterHandle> blocks_;
};

// Returns the range of a table's rows on this rank.
Range rows_here(const Parameter& table);

// Cuts `rows`, one rank's part of a table, evenly into blocks. `largest` is the number of rows of
// the rank with the most rows. All ranks get the same number of blocks: as many as that rank needs
// if a block has at most `block_rows` rows (0: one block).
std::vector<Range> cut_rows(Range rows, int64_t largest, int64_t block_rows);

}  // namespace colossal::nn
