// What a forward pass of the engine works on, as plain numbers: the first rank of those that hold a
// model plans a pass, and tells the others.
//
// Only that rank has requests, a scheduler, page tables and a sampler. So ranks cannot come to
// different decisions, whatever arrives when, is cancelled, or times out; and what a request may do
// (constraints, callbacks) needs no second copy.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colossal/nn/paged_key_value_store.h"

namespace colossal::serve {

struct StepPlan {
  struct Chunk {
    nn::PagedChunk tokens{};
    int64_t prompt = 0;  // tokens of the sequence's prompt
    bool operator==(const Chunk&) const = default;
  };

  std::vector<std::pair<int64_t, int64_t>> copied_pages{};  // from, to; before the pass
  std::vector<Chunk> chunks{};                              // those that attend alone come first
  std::vector<int64_t> tokens{};                            // of all chunks
  // Tokens [begin, begin + count) have this adapter; ascending, disjoint.
  struct Adapted {
    int64_t adapter = 0;  // its number
    int64_t begin = 0;
    int64_t count = 0;
    bool operator==(const Adapted&) const = default;
  };
  std::vector<Adapted> adapted{};
  // Of these, rising, those whose logits are wanted, at least one; and those whose final states
  // are.
  std::vector<int64_t> wanted_logits{}, wanted_states{};

  bool empty() const { return tokens.empty(); }
  bool operator==(const StepPlan&) const = default;
};

// 6 numbers; 2 for each copied page; 5 for each chunk, and 1 for each page of it; 3 for each run of
// tokens with an adapter; 1 for each token and each wanted one.
std::vector<int64_t> to_numbers(const StepPlan& plan);
StepPlan plan_from_numbers(std::span<const int64_t> numbers);

}  // namespace colossal::serve
