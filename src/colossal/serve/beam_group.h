// The engine's state of a request with beam search: its current beams and their candidate tokens.
// Used by EngineCore and Scheduler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "colossal/serve/beam_search.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

// All beams of one request. Each beam is a Sequence of its own, which the scheduler owns.
struct BeamGroup {
  BeamSearch search;
  // The current beams, in the order of the last result of BeamSearch::advance(). Before the first
  // call: one beam with the prompt alone.
  std::vector<Sequence*> beams{};
  // candidates[i]: candidates for the next token of beams[i]. They are set when the logits of that
  // beam arrive; the beam then waits (Sequence::waits) for the logits of the other beams. The
  // engine clears them, and Sequence::waits, after each BeamSearch::advance().
  std::vector<std::vector<BeamSearch::Candidate>> candidates{};
  // Number of sequences forked so far. The first beam has Sequence::beam = 0, the n-th fork has
  // Sequence::beam = n, counted from 1.
  int64_t num_forks = 0;

  // Returns the index of `beam` in `beams`; beams.size() if `beam` is not one of them.
  int64_t index_of(const Sequence& beam) const {
    return std::ranges::find(beams, &beam) - beams.begin();
  }
  // Whether the logits of all beams have arrived, so that BeamSearch::advance() can be called.
  bool is_complete() const {
    return std::ranges::all_of(beams, [](const Sequence* beam) { return beam->waits; });
  }
};

}  // namespace colossal::serve
