#include "tests/engine/adapter_layouts.h"

#include <gtest/gtest.h>

namespace colossal::test {
namespace {

Strategy pipeline(const char* schedule) {
  Strategy layout{.pp = 2};
  layout.pp_schedule = schedule;
  layout.stage_ranks = {0, 1};
  layout.stage_blocks = {1, 1};
  return layout;
}

}  // namespace

const std::vector<LayoutCase>& layouts_of_adapters() {
  static const std::vector<LayoutCase> kCases{
      {.name = "accumulated", .micro_batch = 5},
      {.name = "recomputed", .recompute = {.selective = true, .full_blocks = 1}},
      {.name = "dp3", .ranks = 3},
      {.name = "dp3_zero1", .ranks = 3, .layout = {.zero = 1}},
      {.name = "dp3_zero2", .ranks = 3, .layout = {.zero = 2}, .micro_batch = 3},
      {.name = "dp3_zero3", .ranks = 3, .layout = {.zero = 3}},
      {.name = "dp2_zero3_host", .ranks = 2, .layout = {.zero = 3}, .tier = {.host = 1}},
      {.name = "1d3", .ranks = 3, .layout = {.tp = 3}},
      {.name = "1d2_copied", .ranks = 2, .layout = {.tp = 2, .tp_sequence = false}},
      {.name = "1d2_dp2_zero3_recomputed",
       .ranks = 4,
       .layout = {.tp = 2, .zero = 3},
       .recompute = {.full_blocks = 2},
       .micro_batch = 4},
      {.name = "2d4", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}},
      {.name = "2d9", .ranks = 9, .layout = {.tp = 9, .tensor_mode = TensorMode::two_d}},
      {.name = "2.5d8",
       .ranks = 8,
       .layout = {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}},
      {.name = "3d8", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}},
      // A rank holds no sequence of some micro-batches.
      {.name = "3d8_short",
       .ranks = 8,
       .layout = {.tp = 8, .tensor_mode = TensorMode::three_d},
       .micro_batch = 3},
      {.name = "ring3", .ranks = 3, .layout = {.sp = 3}},
      {.name = "ulysses3", .ranks = 3, .layout = {.sp = 3, .sequence_mode = SequenceMode::ulysses}},
      {.name = "pp2", .ranks = 2, .layout = pipeline("1f1b"), .micro_batch = 5},
      {.name = "pp2_zb", .ranks = 2, .layout = pipeline("zb-h1"), .micro_batch = 5},
  };
  return kCases;
}

TinyTraining at_layout(TinyTraining training, const LayoutCase& which) {
  const int64_t table_rows = training.layout.table_rows;
  training.layout = which.layout;
  training.layout.table_rows = table_rows;
  training.micro_batch = which.micro_batch;
  training.recompute = which.recompute;
  training.tiers = {.parameters = which.tier,
                    .gradients = which.tier,
                    .optimizer = which.tier,
                    .activations = which.tier};
  return training;
}

std::optional<std::string> every_product(const std::string& product) {
  return product.starts_with("blocks.") ? std::optional(product) : std::nullopt;
}

std::optional<std::string> every_product_and_table(const std::string& product) {
  return product;
}

int64_t sent(const TinyResult& result, comm::Reason reason) {
  int64_t bytes = 0;
  for (const auto& traffic : result.traffic) {
    for (const auto& [key, sum] : traffic) {
      EXPECT_EQ(sum.law_bytes, sum.wire_bytes) << key.axis;
      if (key.reason == reason) bytes += sum.law_bytes;
    }
  }
  return bytes;
}

}  // namespace colossal::test
