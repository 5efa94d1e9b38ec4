// Layouts at which adapters train, and what their tests have in common.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {

struct LayoutCase {
  std::string name;
  int ranks = 1;
  Strategy layout{};
  memory::Recompute recompute{};
  memory::TierShares tier{};
  int64_t micro_batch = 0;
};

// Every axis, stage and mode, and tiers and recomputation.
const std::vector<LayoutCase>& layouts_of_adapters();

// What trains at these layouts, by name.
using Trainings = std::vector<std::pair<std::string, TinyTraining>>;

// Calls expect_parity(training, layouts) for each: every third layout, another third for the next
// training. Slow tests take all layouts for each.
template <typename ExpectParity>
void for_thirds_of_layouts(const Trainings& trainings, const ExpectParity& expect_parity) {
  for (size_t i = 0; i < trainings.size(); ++i) {
    const auto& [name, training] = trainings[i];
    TRACED_CASE(name);
    std::vector<LayoutCase> third;
    for (size_t k = i % 3; k < layouts_of_adapters().size(); k += 3) {
      third.push_back(layouts_of_adapters()[k]);
    }
    expect_parity(training, third);
  }
}
template <typename ExpectParity>
void for_all_layouts(const Trainings& trainings, const ExpectParity& expect_parity) {
  for (const auto& [name, training] : trainings) {
    TRACED_CASE(name);
    expect_parity(training, layouts_of_adapters());
  }
}

TinyTraining at_layout(TinyTraining training, const LayoutCase& which);

// As nn::AdapterOptions::adapted: of the blocks' products, and of those with tables of the
// vocabulary too.
std::optional<std::string> every_product(const std::string& product);
std::optional<std::string> every_product_and_table(const std::string& product);

// Bytes of all ranks; expects that what left them is what the laws say.
int64_t sent(const TinyResult& result, comm::Reason reason);

}  // namespace colossal::test
