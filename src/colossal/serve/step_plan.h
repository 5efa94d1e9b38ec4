// The input of one forward pass of the inference engine, which can be serialized to integers. If
// several ranks hold the model, the first rank plans each pass and sends the plan to the other
// ranks (step_messages.h).
//
// Only the first rank has requests, a scheduler, page tables and a sampler. Ranks therefore cannot
// make different decisions when requests arrive, are cancelled or time out, and the state of
// requests (constraints, callbacks) exists on one rank only.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/token_choice.h"

namespace colossal::serve {

// Which tokens a forward pass computes, and which results it returns.
struct StepPlan {
  // Consecutive tokens of one sequence.
  struct Chunk {
    nn::PagedChunk tokens{};  // their positions and the sequence's pages
    int64_t prompt = 0;       // number of tokens of the sequence's prompt
    int64_t source = 0;       // of an encoder-decoder: number of the sequence's source
    bool operator==(const Chunk&) const = default;
  };

  // Pages to copy before the pass, as page numbers (from, to).
  std::vector<std::pair<int64_t, int64_t>> copied_pages{};
  // A source text of an encoder-decoder, which the encoder reads before the pass.
  struct Source {
    int64_t number = 0;  // Chunk::source of the chunks that attend to it
    std::vector<int64_t> tokens{};
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> sources{};
  // Numbers of sources that no later pass uses, to forget before the pass.
  std::vector<int64_t> dropped_sources{};
  // Chunks whose tokens attend one by one (chunks of one token, and those with tokens.alone) come
  // before the other chunks.
  std::vector<Chunk> chunks{};
  std::vector<int64_t> tokens{};  // token numbers of all chunks, concatenated
  // The type of each token (models::TokenInputs::types); empty: all have type 0.
  std::vector<int64_t> types{};
  // A range of the pass's tokens, elements [begin, begin + count) of `tokens`, that uses an
  // adapter.
  struct Adapted {
    int64_t adapter = 0;  // AdapterWeights::number
    int64_t begin = 0;
    int64_t count = 0;
    bool operator==(const Adapted&) const = default;
  };
  std::vector<Adapted> adapted{};  // ascending, disjoint
  // Ascending indices into `tokens`: the tokens whose logits, and the tokens whose final hidden
  // states, the pass returns. wanted_logits must have at least one element unless the plan is
  // empty, because every pass computes the head.
  std::vector<int64_t> wanted_logits{}, wanted_states{};
  // The rows of wanted_logits, ascending, for which the pass returns a token instead of the logits.
  std::vector<TokenChoice> choices{};

  // Whether the pass computes no tokens.
  bool empty() const { return tokens.empty(); }
  bool operator==(const StepPlan&) const = default;
};

// Serializes a plan. The result begins with 10 numbers, the sizes of the lists. Then it has 2
// numbers for each copied page; 6 for each chunk and 1 for each page of a chunk; 3 for each element
// of `adapted`; 6 for each choice; 2 for each source and 1 for each of its tokens; 1 for each
// element of `tokens`, `types`, `wanted_logits`, `wanted_states` and `dropped_sources`.
std::vector<int64_t> to_numbers(const StepPlan& plan);
// Returns the plan whose to_numbers() are `numbers`. Throws InternalError if there is no such plan.
StepPlan plan_from_numbers(std::span<const int64_t> numbers);

}  // namespace colossal::serve
