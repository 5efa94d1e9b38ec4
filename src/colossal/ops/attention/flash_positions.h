// The positions and documents of the queries and keys of a flash attention, in the form in which
// flash_attention.cpp walks over them: runs of positions, blocks of keys, and small numbers for
// documents.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/attention/flash_formats.h"

namespace colossal::ops::flash {

// The document numbers of queries and keys, replaced by small numbers that a float represents
// exactly. Within a sample, equal numbers stay equal.
struct NumberedDocuments {
  at::Tensor queries, keys;  // of type `type`; undefined: all are of one document

  NumberedDocuments(const AttentionPart& part, at::ScalarType type) {
    if (!part.query_documents.defined()) return;
    queries = at::empty(part.query_documents.sizes(), part.query_documents.options().dtype(type));
    keys = at::empty(part.key_documents.sizes(), part.key_documents.options().dtype(type));
    if (part.query_documents.is_meta()) return;
    for (int64_t sample = 0; sample < keys.size(0); ++sample) {
      const at::Tensor of_queries = part.query_documents[sample].contiguous();
      const at::Tensor of_keys = part.key_documents[sample].contiguous();
      std::vector<int64_t> ids = ids_of(of_queries);
      std::ranges::copy(ids_of(of_keys), std::back_inserter(ids));
      std::ranges::sort(ids);
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      number(of_queries, ids, queries[sample]);
      number(of_keys, ids, keys[sample]);
    }
  }

 private:
  // Returns the document number of each run of tokens with equal ones.
  static std::vector<int64_t> ids_of(const at::Tensor& documents) {
    const auto* begin = documents.const_data_ptr<int64_t>();
    std::vector<int64_t> ids;
    std::unique_copy(begin, begin + documents.numel(), std::back_inserter(ids));
    return ids;
  }

  static void number(const at::Tensor& documents, const std::vector<int64_t>& ids,
                     const at::Tensor& numbers) {
    for (int64_t i = 0; i < documents.numel(); ++i) {
      const int64_t id = documents.const_data_ptr<int64_t>()[i];
      const auto place = std::ranges::lower_bound(ids, id) - ids.begin();
      if (numbers.scalar_type() == at::kDouble) {
        numbers.mutable_data_ptr<double>()[i] = static_cast<double>(place);
      } else {
        numbers.mutable_data_ptr<float>()[i] = static_cast<float>(place);
      }
    }
  }
};

// Rows of a tensor that are at consecutive positions of the sequence.
struct PositionRun {
  int64_t row;  // the first row
  Range positions;
};

// Returns the number of keys in the block that begins at `position`. Blocks end at positions that
// are multiples of `size`, wherever a run begins, so a block needs only one group of random words.
// end: end of the run.
inline int64_t keys_from(int64_t position, int64_t end, int64_t size) {
  return std::min(end - position, size - position % size);
}

// Returns the blocks of keys, of at most kKeys keys, into which the runs are divided.
inline std::vector<KeyRows> blocks_of(const std::vector<PositionRun>& runs) {
  std::vector<KeyRows> blocks;
  for (const auto& [row, positions] : runs) {
    for (int64_t position = positions.begin; position < positions.end;) {
      const int64_t count = keys_from(position, positions.end, kKeys);
      blocks.push_back({row + position - positions.begin, count});
      position += count;
    }
  }
  return blocks;
}

// Returns the runs of a tensor whose rows are at these positions.
inline std::vector<PositionRun> runs_of(const std::vector<Range>& positions) {
  std::vector<PositionRun> runs;
  int64_t row = 0;
  for (const Range& range : positions) {
    if (!range.empty()) runs.push_back({row, range});
    row += range.size();
  }
  return runs;
}

// The smallest and the largest of some document numbers.
template <typename Real>
struct Bounds {
  Real least, most;

  Bounds(const Real* numbers, int64_t count) : least(numbers[0]), most(numbers[0]) {
    for (int64_t i = 1; i < count; ++i) {
      least = std::min(least, numbers[i]);
      most = std::max(most, numbers[i]);
    }
  }
  bool meets(const Bounds& other) const { return least <= other.most && other.least <= most; }
  bool is_one() const { return least == most; }
};

}  // namespace colossal::ops::flash
