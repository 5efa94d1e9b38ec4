// The input of one forward pass of the engine, serializable to integers. The first of the ranks
// that hold a model plans each pass and sends the plan to the others.
//
// Only the first rank has requests, a scheduler, page tables and a sampler. Ranks therefore cannot
// make different decisions, regardless of when requests arrive, are cancelled or time out, and the
// state of requests (constraints, callbacks) needs no copy on other ranks.
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
    int64_t prompt = 0;  // number of tokens of the sequence's prompt
    bool operator==(const Chunk&) const = default;
  };

  // (from, to): pages to copy before the pass
  std::vector<std::pair<int64_t, int64_t>> copied_pages{};
  // Chunks whose tokens attend alone (a single token, or `alone` is set) come first.
  std::vector<Chunk> chunks{};
  std::vector<int64_t> tokens{};  // token numbers of all chunks, concatenated
  // Rows [begin, begin + count) of `tokens` use this adapter. Ascending and disjoint.
  struct Adapted {
    int64_t adapter = 0;  // AdapterWeights::number
    int64_t begin = 0;
    int64_t count = 0;
    bool operator==(const Adapted&) const = default;
  };
  std::vector<Adapted> adapted{};
  // Rows of `tokens`, ascending: rows whose logits are returned (at least one), and rows whose
  // final hidden states are returned.
  std::vector<int64_t> wanted_logits{}, wanted_states{};

  bool empty() const { return tokens.empty(); }
  bool operator==(const StepPlan&) const = default;
};

// Serializes a plan: 6 numbers; 2 per copied page; 5 per chunk and 1 per page of the chunk; 3 per
// entry of `adapted`; 1 per token, per wanted row of logits and per wanted row of states.
std::vector<int64_t> to_numbers(const StepPlan& plan);
StepPlan plan_from_numbers(std::span<const int64_t> numbers);

}  // namespace colossal::serve
