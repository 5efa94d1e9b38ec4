// The vocabulary table [vocabulary, features] that token embeddings and vocabulary heads read. A
// table is one parameter, or, to save device memory, several parameters with the same name, each of
// which is a block of rows (Parameter::block). Layers visit a table block by block, so that only
// one block must be on the device at a time.
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
  // blocks: at least one, in the order of their rows.
  explicit TokenTable(std::vector<ParameterHandle> blocks) : blocks_(std::move(blocks)) {}

  // Returns whether the table consists of several blocks.
  bool is_cut() const { return blocks_.size() > 1; }
  // Returns the only block of a table that is not cut.
  const ParameterHandle& whole() const { return blocks_.front(); }
  // Returns the number of rows of the table over all ranks. Parameter::shape of each block is the
  // shape of the whole table (RowBlock).
  int64_t vocabulary() const { return blocks_.front()->shape[0]; }
  // Marks the blocks as read by a second layer (Parameter::tied), and returns the table with which
  // that layer reads them. Throws InternalError if they are marked already.
  TokenTable tie() const;
  void mark_as_head() const;  // sets Parameter::head of all blocks

  Range rows_here() const;  // returns the rows of all blocks on this rank
  // Returns this rank's rows as a quantized matrix, or null if the table is not quantized. A
  // quantized table is never cut.
  const ops::QuantizedMatrix* quantized() const { return whole()->quantized.get(); }
  // Returns a function that visits the blocks on this rank (see ops::ForEachBlock). Each block is
  // visited in a LayerScope with the name `layer`; if `layer` is empty, with the name of the layer
  // to which the table belongs. A quantized table is visited as dequantized blocks of at most 1024
  // rows. The TokenTable must outlive the function.
  ops::ForEachBlock blocks(const std::string& layer = "") const;

 private:
  std::vector<ParameterHandle> blocks_;
};

// Returns the range of rows of a table, or of a block of a table, on this rank.
Range rows_here(const Parameter& table);

// Cuts the rows of one rank into blocks of about equal sizes and returns the blocks. Ranks with
// different numbers of rows get the same number of blocks: ceil(largest / block_rows), but at least
// 1.
//   rows        the rank's rows of the table
//   largest     the largest number of rows that a rank has
//   block_rows  maximum number of rows of a block; 0: one block
std::vector<Range> cut_rows(Range rows, int64_t largest, int64_t block_rows);

}  // namespace colossal::nn
