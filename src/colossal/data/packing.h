// Packs documents into rows of a given length, so that little is padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::data {

// TRL's names.
enum class Packing {
  bfd,        // best-fit decreasing: each document whole, in the row with the least room that has
              // enough; what of a document does not fit a row is dropped
  bfd_split,  // the same, but a document that does not fit a row is cut into several
  wrapped,    // one document after the other, cut where a row ends
};

inline std::vector<std::pair<std::string, Packing>> config_names(Packing) {
  return {{"bfd", Packing::bfd}, {"bfd_split", Packing::bfd_split}, {"wrapped", Packing::wrapped}};
}

// Tokens `range` of document `document`, both numbered from 0.
struct PackedPart {
  int64_t document;
  Range range;
  bool operator==(const PackedPart&) const = default;
};
using PackedRow = std::vector<PackedPart>;  // one after the other

// lengths: of each document, in tokens; empty ones are left out. Each row has at most `row_length`
// tokens, at least 1; with `wrapped` all but the last are full. `bfd_split` cuts a longer document
// into full rows and a rest, which is placed like a document. Rows come in the order in which they
// were begun.
// Takes O(n log n) time for n parts. Source of bfd: Johnson, "Near-optimal Bin Packing Algorithms",
// 1973; no more than 11/9 of the fewest rows possible, and 1, for documents that fit a row.
std::vector<PackedRow> pack_documents(std::span<const int64_t> lengths, int64_t row_length,
                                      Packing packing);

// A row of tokens as a model takes it.
struct PackedTokens {
  std::vector<int64_t> tokens;
  std::vector<int64_t> documents;  // which part of the row each token is of, from 0
  std::vector<int64_t> positions;  // of each token in its part, from 0
};

// documents: their tokens. Padded to `row_length` by `padding`, which is a part of its own.
PackedTokens fill_row(const PackedRow& row, std::span<const std::vector<int64_t>> documents,
                      int64_t row_length, int64_t padding);

}  // namespace colossal::data
