// Damaged inputs of parsers, from a fixed seed: a second of them, or as many as
// COLOSSAL_FUZZ_SECONDS says, from a seed of the clock's.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace colossal::test {

// Texts that begin as these and lose, get and repeat pieces.
class Mutator {
 public:
  Mutator(std::vector<std::string> texts, std::string alphabet, uint64_t seed)
      : texts_(std::move(texts)), alphabet_(std::move(alphabet)), random_(seed) {}

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (size_t changes = below(8); changes > 0; --changes) change(text);
    return text;
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  std::string piece() {
    const std::string& other = texts_[below(texts_.size())];
    const size_t begin = below(other.size());
    return other.substr(begin, 1 + below(12));
  }
  void change(std::string& text) {
    const size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.erase(at, 1 + below(10));
        return;
      case 1:
        text.insert(at, piece());
        return;
      case 2:
        text.insert(at, 1, alphabet_[below(alphabet_.size())]);
        return;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        return;
      case 4:
        text.resize(at);
        return;
      default:
        text.insert(at, text.substr(at, 1 + below(40)));
    }
  }

  std::vector<std::string> texts_;
  std::string alphabet_;
  std::mt19937_64 random_;
};

struct MutationBudget {
  double seconds = 1;
  uint64_t seed = 1;

  static MutationBudget of_environment() {
    const char* const given = std::getenv("COLOSSAL_FUZZ_SECONDS");
    if (!given) return {};
    return {std::atof(given),
            static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  }
};

// That this thread has computed for: other programs may keep the machine busy.
inline double computing_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Calls run(text, mutator) until the time is over; each may compute for a second at most.
template <typename Run>
void for_mutations(std::vector<std::string> texts, const std::string& alphabet, const Run& run) {
  const MutationBudget budget = MutationBudget::of_environment();
  Mutator mutator(std::move(texts), alphabet, budget.seed);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int64_t runs = 0;
  for (; seconds() < budget.seconds; ++runs) {
    const std::string text = mutator.next();
    const double before = computing_seconds();
    run(text, mutator);
    ASSERT_LT(computing_seconds() - before, 1)
        << "seed " << budget.seed << ": " << testing::PrintToString(text);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "seed " << budget.seed << ": " << testing::PrintToString(text);
  }
  testing::Test::RecordProperty("runs", std::to_string(runs));
  std::printf("%lld runs from seed %llu\n", static_cast<long long>(runs),
              static_cast<unsigned long long>(budget.seed));
}

}  // namespace colossal::test
