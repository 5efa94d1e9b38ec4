// Packs documents (or samples) of different lengths into rows of a fixed length, to minimize
// padding. Used by pack_samples() (tune/samples/samples.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::data {

// How documents are packed. Names and behaviour are those of TRL.
enum class Packing {
  // Best-fit decreasing: takes the documents from the longest to the shortest, and puts each into
  // the row with the least room in which it fits, or into a new row if it fits in none. Truncates
  // documents to row_length.
  bfd,
  bfd_split,  // like bfd, but splits documents that are longer than row_length
  wrapped,    // concatenates the documents, and splits them wherever a row is full
};

// Returns the names of the values in configuration files.
inline std::vector<std::pair<std::string, Packing>> config_names(Packing) {
  return {{"bfd", Packing::bfd}, {"bfd_split", Packing::bfd_split}, {"wrapped", Packing::wrapped}};
}

// A document, or a part of it, in a row.
struct PackedPart {
  int64_t document;  // index of the document
  Range range;       // which tokens of the document
  bool operator==(const PackedPart&) const = default;
};
using PackedRow = std::vector<PackedPart>;  // the parts of a row, from left to right

// Returns the rows into which documents are packed. Each row has 1 to row_length tokens; with
// Packing::wrapped, all rows except the last have row_length. With bfd_split, a document that is
// longer than row_length is split into parts of row_length tokens and a remainder, which is packed
// like a document. Rows are in the order in which their first parts were placed.
//
// lengths: number of tokens of each document; empty documents are skipped. Takes O(n log n) time
// for n parts. If all documents have at most row_length tokens, bfd needs at most 11/9 R + 4 rows,
// where R is the smallest possible number of rows (Johnson, "Near-optimal Bin Packing Algorithms",
// 1973). Throws InternalError if row_length is below 1.
std::vector<PackedRow> pack_documents(std::span<const int64_t> lengths, int64_t row_length,
                                      Packing packing);

// A row as input of a model. Each vector has row_length elements, one per token.
struct PackedTokens {
  std::vector<int64_t> tokens;
  std::vector<int64_t> documents;  // index of the token's part within the row, from 0
  std::vector<int64_t> positions;  // position of the token within its part, from 0
};

// Returns the tokens of a row, padded to row_length tokens with the token `padding`. The padding
// counts as a further part of the row. documents: the tokens of each document. Throws InternalError
// if the row has more than row_length tokens.
PackedTokens fill_row(const PackedRow& row, std::span<const std::vector<int64_t>> documents,
                      int64_t row_length, int64_t padding);

}  // namespace colossal::data
