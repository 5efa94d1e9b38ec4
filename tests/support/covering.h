// A small set of cases in which settings meet in all ways that are possible.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <unordered_set>
#include <vector>

namespace colossal::test {

// Of each setting, which of its options.
using Choice = std::vector<int>;

// Choices in which every three settings meet in each way in which a possible choice has them.
// Greedy: for each way that has not occurred, the best of some choices that have it, the rest of
// them drawn at random; a way that none of them makes possible counts as impossible. The same at
// every call.
class ThreeWiseCovering {
 public:
  ThreeWiseCovering(std::vector<int> num_options, std::function<bool(const Choice&)> possible)
      : num_options_(std::move(num_options)), possible_(std::move(possible)) {}

  std::vector<Choice> make() {
    const auto n = static_cast<int>(num_options_.size());
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        for (int k = j + 1; k < n; ++k) cover({i, j, k});
      }
    }
    return std::move(chosen_);
  }

 private:
  static constexpr int kDraws = 64, kPossibleDraws = 8;
  using Settings = std::array<int, 3>;

  static uint64_t way_of(const Settings& settings, const Choice& choice) {
    uint64_t way = 0;
    for (const int setting : settings) way = way << 16 | setting << 8 | choice[setting];
    return way;
  }

  template <typename Visit>
  static void for_each_way(const Choice& choice, const Visit& visit) {
    const auto n = static_cast<int>(choice.size());
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) {
        for (int k = j + 1; k < n; ++k) visit(way_of({i, j, k}, choice));
      }
    }
  }

  void cover(const Settings& settings) {
    Choice choice(num_options_.size());
    for (int a = 0; a < num_options_[settings[0]]; ++a) {
      for (int b = 0; b < num_options_[settings[1]]; ++b) {
        for (int c = 0; c < num_options_[settings[2]]; ++c) {
          choice[settings[0]] = a;
          choice[settings[1]] = b;
          choice[settings[2]] = c;
          if (!covered_.contains(way_of(settings, choice))) add_best(settings, choice);
        }
      }
    }
  }

  void add_best(const Settings& settings, const Choice& wanted) {
    Choice best;
    int64_t best_gain = 0;
    int found = 0;
    for (int draw = 0; draw < kDraws && found < kPossibleDraws; ++draw) {
      Choice choice = wanted;
      for (size_t i = 0; i < choice.size(); ++i) {
        if (std::ranges::count(settings, static_cast<int>(i)) == 0) {
          choice[i] = static_cast<int>(draws_() % num_options_[i]);
        }
      }
      if (!possible_(choice)) continue;
      ++found;
      int64_t gain = 0;
      for_each_way(choice, [&](uint64_t way) { gain += !covered_.contains(way); });
      if (gain > best_gain) {
        best_gain = gain;
        best = std::move(choice);
      }
    }
    if (found == 0) return;
    for_each_way(best, [&](uint64_t way) { covered_.insert(way); });
    chosen_.push_back(std::move(best));
  }

  std::vector<int> num_options_;
  std::function<bool(const Choice&)> possible_;
  std::mt19937_64 draws_{1};
  std::unordered_set<uint64_t> covered_;
  std::vector<Choice> chosen_;
};

}  // namespace colossal::test
