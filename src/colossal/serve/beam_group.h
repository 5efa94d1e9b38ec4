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
  // Candidates of each beam, in the order of `beams`. A beam's candidates are filled when its
  // logits arrive; the beam then waits (Sequence::waits) until the candidates of all beams are
  // filled.
  std::vector<std::vector<BeamSearch::Candidate>> candidates{};
  int64_t num_forks = 0;  // forks made so far; fork n gets beam number n

  int64_t index_of(const Sequence& beam) const {
    return std::ranges::find(beams, &beam) - beams.begin();
  }
  // Whether the candidates of all beams are filled.
  bool is_complete() const {
    return std::ranges::all_of(beams, [](const Sequence* beam) { return beam->waits; });
  }
};

}  // namespace colossal::serve
