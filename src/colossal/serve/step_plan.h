// The input of one forward pass of the engine, serializable to integers. The first of the ranks
// that hold a model plans each pass and sends the plan to the others.
//
// Only the first rank has requests, a scheduler, page tables and a sampler. So ranks cannot make
// different decisions, whenever requests arrive, are cancelled or time out, and the state of
// requests (constraints, callbacks) exists on one rank only.
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

  // page numbers (from, to): pages to copy before the pass
  std::vector<std::pair<int64_t, int64_t>> copied_pages{};
  // Chunks of one token, and chunks with tokens.alone, come first: their tokens attend one by one.
  std::vector<Chunk> chunks{};
  std::vector<int64_t> tokens{};  // token numbers of all chunks, concatenated
  // The tokens [begin, begin + count) use this adapter. Entries are ascending and disjoint.
  struct Adapted {
    int64_t adapter = 0;  // AdapterWeights::number
    int64_t begin = 0;
    int64_t count = 0;
    bool operator==(const Adapted&) const = default;
  };
  std::vector<Adapted> adapted{};
  // Ascending indices into `tokens`: the tokens whose logits are returned (at least one), and those
  // whose final hidden states are returned.
  std::vector<int64_t> wanted_logits{}, wanted_states{};

  bool empty() const { return tokens.empty(); }
  bool operator==(const StepPlan&) const = default;
};

// Serializes a plan: 6 numbers; 2 for each copied page; 5 for each chunk and 1 for each of its
// pages; 3 for each entry of `adapted`; 1 for each token, each wanted row of logits and each wanted
// row of states.
std::vector<int64_t> to_numbers(const StepPlan& plan);
StepPlan plan_from_numbers(std::span<const int64_t> numbers);

}  // namespace colossal::serve
