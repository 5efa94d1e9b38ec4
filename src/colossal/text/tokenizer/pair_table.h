// A hash table from a pair of tokens to the rank of the merge of this pair, for the inner loop of
// BPE. Merges of lower rank are applied first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace colossal::text {

// A hash table with linear probing. Thread-safe once all pairs are inserted.
class PairTable {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  // num_pairs: maximum number of distinct pairs that the table will hold.
  explicit PairTable(size_t num_pairs) {
    size_t size = 16;
    while (size < 2 * num_pairs) size *= 2;
    entries_.resize(size);
  }

  // Inserts the pair of token ids (left, right), or replaces the pair's rank. Ids must be >= 0.
  void insert(int32_t left, int32_t right, uint32_t rank) {
    entries_[slot_of(key_of(left, right))] = {key_of(left, right), rank};
  }

  // Returns the rank of the pair's merge; kAbsent if the pair is not in the table.
  uint32_t rank(int32_t left, int32_t right) const {
    return entries_[slot_of(key_of(left, right))].rank;
  }

 private:
  // One slot of the table.
  struct Entry {
    uint64_t key = UINT64_MAX;  // the pair, see key_of(); UINT64_MAX, which no pair has: empty
    uint32_t rank = kAbsent;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  // Returns the slot that holds `key`, or the empty slot for it. Linear probing from a
  // multiplicative hash (Knuth, TAOCP 3, 6.4).
  size_t slot_of(uint64_t key) const {
    const size_t mask = entries_.size() - 1;
    size_t slot = (key * 0x9E3779B97F4A7C15u) >> 32 & mask;
    while (entries_[slot].key != key && entries_[slot].key != UINT64_MAX) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Entry> entries_;
};

}  // namespace colossal::text
