// Layouts at which adapters train, and what their tests have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

TinyTraining at_layout(TinyTraining training, const LayoutCase& which);

// As nn::AdapterOptions::adapted: of the blocks' products, and of those with tables of the
// vocabulary too.
std::optional<std::string> every_product(const std::string& product);
std::optional<std::string> every_product_and_table(const std::string& product);

// Bytes of all ranks; expects that what left them is what the laws say.
int64_t sent(const TinyResult& result, comm::Reason reason);

}  // namespace colossal::test
