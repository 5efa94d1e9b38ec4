// A small set of cases in which every pair of settings occurs that occurs in a large one.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace colossal::test {

// settings(case): its settings as numbers, equally many for each case. Greedy: always the case that
// adds the most pairs, the first of equals.
template <typename Case, typename Settings>
std::vector<Case> pairwise(const std::vector<Case>& all, const Settings& settings) {
  using Pair = std::tuple<size_t, double, size_t, double>;
  std::map<Pair, size_t> numbers;
  std::vector<std::vector<size_t>> pairs_of(all.size());  // of each case, by their numbers
  for (size_t one = 0; one < all.size(); ++one) {
    const std::vector<double> values = settings(all[one]);
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = i + 1; j < values.size(); ++j) {
        const Pair pair{i, values[i], j, values[j]};
        pairs_of[one].push_back(numbers.try_emplace(pair, numbers.size()).first->second);
      }
    }
  }
  std::vector<bool> covered(numbers.size());
  const auto gain = [&](const std::vector<size_t>& pairs) {
    return std::ranges::count_if(pairs, [&](size_t pair) { return !covered[pair]; });
  };
  std::vector<Case> chosen;
  while (true) {
    const auto best = std::ranges::max_element(pairs_of, {}, gain);
    if (best == pairs_of.end() || gain(*best) == 0) return chosen;
    for (const size_t pair : *best) covered[pair] = true;
    chosen.push_back(all[best - pairs_of.begin()]);
  }
}

// Those of pairwise() that add most: a third of the cases, with most of the pairs.
template <typename Case, typename Settings>
std::vector<Case> most_pairs(const std::vector<Case>& all, const Settings& settings) {
  std::vector<Case> chosen = pairwise(all, settings);
  chosen.resize((chosen.size() + 2) / 3);
  return chosen;
}

}  // namespace colossal::test
