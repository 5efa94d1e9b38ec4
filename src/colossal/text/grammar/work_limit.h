// Limits the work that one schema causes while its rules are made.
#pragma once

#include <cstdint>

namespace colossal::text::grammar {

// While an object lives, work that its thread does on automata is counted. Objects may nest: the
// outermost one counts.
class WorkLimit {
 public:
  WorkLimit();
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  // Counts so many transitions. Throws GrammarError if all together take more than a few seconds.
  // Without an object, nothing is counted.
  static void count(int64_t transitions);
};

}  // namespace colossal::text::grammar
