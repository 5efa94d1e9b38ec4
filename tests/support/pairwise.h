// A small set of cases in which every pair of settings occurs that occurs in a large one.
#pragma once

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace colossal::test {

// settings(case): its settings as numbers, equally many for each case. Greedy: always the case that
// adds the most pairs, the first of equals.
template <typename Case, typename Settings>
std::vector<Case> pairwise(const std::vector<Case>& all, const Settings& settings) {
  using Pair = std::tuple<size_t, double, size_t, double>;
  const auto pairs_of = [&](const Case& one) {
    const std::vector<double> values = settings(one);
    std::set<Pair> pairs;
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = i + 1; j < values.size(); ++j) pairs.insert({i, values[i], j, values[j]});
    }
    return pairs;
  };
  std::set<Pair> covered;
  const auto gain = [&](const Case& one) {
    const std::set<Pair> pairs = pairs_of(one);
    return std::count_if(pairs.begin(), pairs.end(),
                         [&](const Pair& pair) { return !covered.contains(pair); });
  };
  std::vector<Case> chosen;
  while (true) {
    const auto best = std::max_element(
        all.begin(), all.end(), [&](const Case& a, const Case& b) { return gain(a) < gain(b); });
    if (best == all.end() || gain(*best) == 0) return chosen;
    covered.merge(pairs_of(*best));
    chosen.push_back(*best);
  }
}

}  // namespace colossal::test
