// Same numbers with gradients and weights in parts, and with activations computed again.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/layout_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::sharding {
namespace {

enum class Kept { everything, selective, one_block, nothing };
constexpr Kept kKept[] = {Kept::everything, Kept::selective, Kept::one_block, Kept::nothing};

enum class Rest { device, host, nvme, optimizer_on_host, optimizer_on_nvme, spread };
constexpr Rest kRests[] = {
    Rest::device, Rest::host, Rest::nvme, Rest::optimizer_on_host, Rest::optimizer_on_nvme,
    Rest::spread};

struct Case {
  Strategy layout;
  int64_t micro_batch;  // 0: no accumulation
  bool reduce_once_per_step;
  bool order_known;
  int64_t window_bytes;
  Kept kept;
  Rest rest;
  double dropout;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_micro{}{}{}_ahead{}_kept{}_rest{}_dropout{}", layout_name(c.layout),
                     c.micro_batch, c.reduce_once_per_step ? "_whole" : "",
                     c.order_known ? "_ordered" : "", c.window_bytes, static_cast<int>(c.kept),
                     static_cast<int>(c.rest), c.dropout > 0 ? "on" : "off");
}

std::vector<Strategy> all_layouts() {
  std::vector<Strategy> all;
  for (int dp : {1, 2, 3, 4}) {
    for (int zero : {0, 1, 2, 3}) all.push_back({.dp = dp, .zero = zero});
  }
  for (int zero : {1, 2, 3}) {
    all.push_back({.dp = 4, .zero = zero, .zero_group = 2});
    all.push_back({.dp = 3, .zero = zero, .zero_group = 1});
  }
  return all;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Strategy& layout : all_layouts()) {
    for (int64_t micro_batch : {0, 1}) {
      for (bool whole : {false, true}) {
        for (Rest rest : kRests) {
          for (Kept kept : kKept) {
            if (layout.zero < 2 && whole) continue;
            // What has no part in the rest goes along with it, in turn.
            const size_t turn = cases.size();
            const bool fetches = layout.zero == 3 || rest != Rest::device;
            cases.push_back({layout, micro_batch, whole, fetches && turn % 2 == 0,
                             turn % 3 == 0 ? 20'000 : 0, kept, rest, turn % 5 == 0 ? 0.2 : 0.0});
          }
        }
      }
    }
  }
  return cases;
}

memory::Tiers tiers_of(Rest rest) {
  memory::Tiers tiers;
  tiers.nvme_path = std::filesystem::temp_directory_path();
  const auto all = [&](memory::TierShares shares) {
    tiers.parameters = tiers.gradients = tiers.optimizer = tiers.activations = shares;
  };
  switch (rest) {
    case Rest::device:
      break;
    case Rest::host:
      all({.host = 1});
      break;
    case Rest::nvme:
      all({.nvme = 1});
      break;
    case Rest::optimizer_on_host:
      tiers.optimizer.host = 1;
      break;
    case Rest::optimizer_on_nvme:
      tiers.optimizer.nvme = 1;
      break;
    case Rest::spread:
      all({.host = 0.3, .nvme = 0.4});
      tiers.optimizer = {.host = 0.5, .nvme = 0.3};
      break;
  }
  return tiers;
}

memory::Recompute recompute_of(Kept kept) {
  switch (kept) {
    case Kept::everything:
      return {};
    case Kept::selective:
      return {.selective = true};
    case Kept::one_block:
      return {.selective = true, .full_blocks = 1};
    case Kept::nothing:
      return {.full_blocks = memory::Recompute::kAllBlocks};
  }
  return {};
}

TinyTraining training_of(const Case& c, at::ScalarType type) {
  TinyTraining training;
  training.model = tiny_gpt2(c.dropout);
  training.layout = c.layout;
  training.micro_batch = c.micro_batch;
  training.reduce_once_per_step = c.reduce_once_per_step;
  training.order_known = c.order_known;
  training.chunk_bytes = 8000;  // a few parameters
  training.window_bytes = c.window_bytes;
  training.recompute = recompute_of(c.kept);
  training.tiers = tiers_of(c.rest);
  training.compute = training.gradient = type;
  training.steps = 5;
  training.eps = 1e-6;  // see tests/parallel/uneven_training.h
  return training;
}

const TinyResult& serial(double dropout, at::ScalarType type) {
  static std::map<std::pair<double, at::ScalarType>, TinyResult> results;
  const auto [found, is_new] = results.try_emplace({dropout, type});
  if (is_new) {
    TinyTraining training =
        training_of({{}, 0, false, false, 0, Kept::everything, Rest::device, dropout}, type);
    found->second = train_tiny(training, 1);
  }
  return found->second;
}

class Sharding : public testing::TestWithParam<Case> {};

TEST_P(Sharding, Fp64EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kDouble);
  expect_same(train_tiny(training, GetParam().layout.dp), serial(GetParam().dropout, at::kDouble),
              1e-9, training);
}

// In fp32 with the slow tests only.
class ShardingFp32 : public Sharding {};

TEST_P(ShardingFp32, EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kFloat);
  expect_same(train_tiny(training, GetParam().layout.dp), serial(GetParam().dropout, at::kFloat),
              1e-4, training);
}

std::vector<double> settings_of(const Case& c) {
  return layout_settings(
      c.layout, {static_cast<double>(c.micro_batch), static_cast<double>(c.reduce_once_per_step),
                 static_cast<double>(c.order_known), static_cast<double>(c.window_bytes),
                 static_cast<double>(c.kept), static_cast<double>(c.rest), c.dropout});
}

INSTANTIATE_TEST_SUITE_P(Layouts, Sharding, testing::ValuesIn(pairwise(all_cases(), settings_of)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, Sharding, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowLayouts, ShardingFp32,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);

// What is computed again has the same bits as what was kept.
TEST(Recompute, GivesTheSameBits) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Case layout{{}, 1, false, false, 0, Kept::everything, Rest::device, 0.2};
    const TinyResult kept = train_tiny(training_of(layout, type), 1);
    for (Kept less : kKept) {
      layout.kept = less;
      const TinyResult again = train_tiny(training_of(layout, type), 1);
      EXPECT_EQ(again.losses, kept.losses);
      for (const auto& [name, weight] : kept.weights) {
        EXPECT_TRUE(at::equal(again.weights.at(name), weight)) << name;
      }
    }
  }
}

// Wherever it rests: the same sums of the same terms in the same order.
TEST(Sharding, TiersGiveTheSameBits) {
  const std::pair<int, at::ScalarType> runs[] = {
      {0, at::kFloat}, {1, at::kBFloat16}, {3, at::kBFloat16}};
  for (const auto& [zero, type] : runs) {
    Case layout{{.dp = 2, .zero = zero}, 1, false, false, 0, Kept::everything, Rest::device, 0.2};
    const TinyResult on_device = train_tiny(training_of(layout, type), 2);
    for (Rest rest : kRests) {
      if (rest == Rest::device) continue;
      layout.rest = rest;
      const TinyResult result = train_tiny(training_of(layout, type), 2);
      TRACED_CASE(name_of({layout, 0}));
      EXPECT_EQ(result.losses, on_device.losses);
      EXPECT_EQ(result.grad_norms, on_device.grad_norms);
      for (const auto& [name, weight] : on_device.weights) {
        EXPECT_TRUE(at::equal(result.weights.at(name), weight)) << name;
      }
    }
  }
}

// Stage 1's step, once more with gradients and weights in parts: the same sums, of the same terms,
// in the same order.
TEST(Sharding, StagesGiveTheSameBits) {
  const Case layout{{.dp = 3, .zero = 1}, 0, false, false, 0, Kept::everything, Rest::device, 0.2};
  const TinyResult one = train_tiny(training_of(layout, at::kFloat), 3);
  for (int zero : {2, 3}) {
    Case sharded = layout;
    sharded.layout.zero = zero;
    const TinyResult result = train_tiny(training_of(sharded, at::kFloat), 3);
    EXPECT_EQ(result.losses, one.losses);
    for (const auto& [name, weight] : one.weights) {
      EXPECT_TRUE(at::equal(result.weights.at(name), weight)) << name << ", stage " << zero;
    }
  }
}

}  // namespace
}  // namespace colossal::test::sharding
