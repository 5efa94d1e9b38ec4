#include "colossal/data/packing.h"

#include <algorithm>
#include <map>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

std::vector<PackedRow> wrap(std::span<const int64_t> lengths, int64_t row_length) {
  std::vector<PackedRow> rows;
  int64_t room = 0;  // free tokens in the last row
  for (int64_t document = 0; document < std::ssize(lengths); ++document) {
    for (int64_t begin = 0; begin < lengths[document];) {
      if (room == 0) {
        rows.emplace_back();
        room = row_length;
      }
      const int64_t end = std::min(lengths[document], begin + room);
      rows.back().push_back({document, {begin, end}});
      room -= end - begin;
      begin = end;
    }
  }
  return rows;
}

// Returns pieces of the documents that fit a row, longest first; pieces of equal length keep their
// order. Of a longer document, returns all pieces or only the first.
std::vector<PackedPart> cut_to_fit(std::span<const int64_t> lengths, int64_t row_length,
                                   bool all_pieces) {
  std::vector<PackedPart> parts;
  for (int64_t document = 0; document < std::ssize(lengths); ++document) {
    const int64_t length = all_pieces ? lengths[document] : std::min(lengths[document], row_length);
    for (int64_t begin = 0; begin < length; begin += row_length) {
      parts.push_back({document, {begin, std::min(begin + row_length, length)}});
    }
  }
  std::ranges::stable_sort(parts, std::greater<>(),
                           [](const PackedPart& part) { return part.range.size(); });
  return parts;
}

std::vector<PackedRow> pack_best_fit(std::span<const PackedPart> parts, int64_t row_length) {
  std::vector<PackedRow> rows;
  // Rows with free tokens, ordered by the number of these. Of equal rows, the one that reached this
  // number first comes first.
  std::multimap<int64_t, size_t> rows_by_room;
  for (const PackedPart& part : parts) {
    const auto best = rows_by_room.lower_bound(part.range.size());
    const bool fits = best != rows_by_room.end();
    const size_t row = fits ? best->second : rows.size();
    const int64_t room = (fits ? best->first : row_length) - part.range.size();
    if (fits) {
      rows_by_room.erase(best);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(part);
    if (room > 0) rows_by_room.emplace(room, row);
  }
  return rows;
}

}  // namespace

std::vector<PackedRow> pack_documents(std::span<const int64_t> lengths, int64_t row_length,
                                      Packing packing) {
  COLOSSAL_CHECK(row_length > 0, "rows of {} tokens", row_length);
  if (packing == Packing::wrapped) return wrap(lengths, row_length);
  return pack_best_fit(cut_to_fit(lengths, row_length, packing == Packing::bfd_split), row_length);
}

PackedTokens fill_row(const PackedRow& row, std::span<const std::vector<int64_t>> documents,
                      int64_t row_length, int64_t padding) {
  PackedTokens filled;
  const auto append = [&](int64_t token, int64_t part, int64_t position) {
    filled.tokens.push_back(token);
    filled.documents.push_back(part);
    filled.positions.push_back(position);
  };
  int64_t part = 0;
  for (const auto& [document, range] : row) {
    for (int64_t i = 0; i < range.size(); ++i) {
      append(documents[document][range.begin + i], part, i);
    }
    ++part;
  }
  const auto used = std::ssize(filled.tokens);
  COLOSSAL_CHECK(used <= row_length, "{} tokens in a row of {}", used, row_length);
  for (int64_t i = 0; i < row_length - used; ++i) append(padding, part, i);
  return filled;
}

}  // namespace colossal::data
