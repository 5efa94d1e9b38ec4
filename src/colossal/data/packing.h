// Packs documents into rows of a fixed length, to minimize padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::data {

// The names and semantics of TRL.
enum class Packing {
  // Best-fit decreasing: from the longest document to the shortest, puts each into the row with the
  // least sufficient room. Truncates documents to row_length.
  bfd,
  bfd_split,  // like bfd, but splits a document longer than row_length over several rows
  wrapped,    // concatenates the documents and cuts them at the end of each row
};

inline std::vector<std::pair<std::string, Packing>> config_names(Packing) {
  return {{"bfd", Packing::bfd}, {"bfd_split", Packing::bfd_split}, {"wrapped", Packing::wrapped}};
}

// The tokens at the positions `range` of document number `document` (both 0-based).
struct PackedPart {
  int64_t document;
  Range range;
  bool operator==(const PackedPart&) const = default;
};
using PackedRow = std::vector<PackedPart>;  // in order within the row

// lengths: tokens of each document; empty documents are skipped. Each row has 1 to `row_length`
// tokens; with `wrapped`, all rows but the last are full. `bfd_split` cuts a longer document into
// full rows and a remainder, which is placed like a document. Returns the rows in the order in
// which their first parts were placed. Takes O(n log n) time for n parts. If all documents fit into
// a row, bfd needs at most 11/9 R + 1 rows, where R is the smallest possible number. Source:
// Johnson, "Near-optimal Bin Packing Algorithms", 1973.
std::vector<PackedRow> pack_documents(std::span<const int64_t> lengths, int64_t row_length,
                                      Packing packing);

// One row of tokens as model input; each vector has row_length entries.
struct PackedTokens {
  std::vector<int64_t> tokens;
  std::vector<int64_t> documents;  // by token: the index of its part in the row
  std::vector<int64_t> positions;  // by token: its position in its part, 0-based
};

// documents: the tokens of each document. Pads the row to `row_length` with the token `padding`;
// the padding counts as one more part.
PackedTokens fill_row(const PackedRow& row, std::span<const std::vector<int64_t>> documents,
                      int64_t row_length, int64_t padding);

}  // namespace colossal::data
