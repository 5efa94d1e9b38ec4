// A request in beam search: each of its beams is a sequence that the engine works on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "colossal/serve/beam_search.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

struct BeamGroup {
  BeamSearch search;
  std::vector<Sequence*> beams{};  // in the search's order
  // Of each beam, once its logits were there; the others wait for it.
  std::vector<std::vector<BeamSearch::Candidate>> candidates{};
  int64_t num_forks = 0;  // that were made so far

  int64_t index_of(const Sequence& beam) const {
    return std::ranges::find(beams, &beam) - beams.begin();
  }
  bool is_complete() const {
    return std::ranges::all_of(beams, [](const Sequence* beam) { return beam->waits; });
  }
};

}  // namespace colossal::serve
