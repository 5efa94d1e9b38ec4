#include "colossal/layout/runs.h"

namespace colossal {

namespace {

// Calls visit(common run, position of its first index in the concatenated `runs`), ascending.
template <typename Visit>
void for_each_common(const Runs& wanted, const Runs& runs, const Visit& visit) {
  int64_t line = 0;
  auto want = wanted.begin();
  for (const Range& run : runs) {
    while (want != wanted.end() && want->end <= run.begin) ++want;
    for (auto it = want; it != wanted.end() && it->begin < run.end; ++it) {
      const Range common = intersect(*it, run);
      visit(common, line + common.begin - run.begin);
    }
    line += run.size();
  }
}

}  // namespace

int64_t num_indices(const Runs& runs) {
  int64_t count = 0;
  for (const Range& run : runs) count += run.size();
  return count;
}

void append(Runs& runs, const Range& run) {
  if (run.empty()) return;
  if (!runs.empty() && runs.back().end == run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(run);
  }
}

Runs indices_at(const Runs& runs, const Range& places) {
  Runs found;
  int64_t begin = 0;
  for (const Range& run : runs) {
    const Range common = intersect({begin, begin + run.size()}, places);
    append(found, {run.begin + common.begin - begin, run.begin + common.end - begin});
    begin += run.size();
  }
  return found;
}

Runs places_of(const Runs& wanted, const Runs& runs) {
  Runs places;
  for_each_common(wanted, runs, [&](const Range& common, int64_t place) {
    append(places, {place, place + common.size()});
  });
  return places;
}

int64_t num_common(const Runs& a, const Runs& b) {
  int64_t count = 0;
  for_each_common(a, b, [&](const Range& common, int64_t) { count += common.size(); });
  return count;
}

}  // namespace colossal
