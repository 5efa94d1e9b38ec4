// A request in beam search. Each beam is a sequence of the scheduler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "colossal/serve/beam_search.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

struct BeamGroup {
  BeamSearch search;
  std::vector<Sequence*> beams{};  // in the order of BeamSearch::advance()
  // Candidates per beam. Filled when the logits of a beam arrive; a beam whose candidates are
  // filled waits until those of all beams are.
  std::vector<std::vector<BeamSearch::Candidate>> candidates{};
  int64_t num_forks = 0;  // forks made so far; numbers the beams

  int64_t index_of(const Sequence& beam) const {
    return std::ranges::find(beams, &beam) - beams.begin();
  }
  bool is_complete() const {
    return std::ranges::all_of(beams, [](const Sequence* beam) { return beam->waits; });
  }
};

}  // namespace colossal::serve
