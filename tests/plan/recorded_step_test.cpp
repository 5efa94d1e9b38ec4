// A dry step is the program itself: what it records is what the real step does, on every rank and
// at every layout.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "colossal/plan/plan.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

void print_difference(const plan::RecordedStep& dry, const plan::RecordedStep& real) {
  for (int k = 0; k < 6; ++k) {
    const auto kind = static_cast<memory::MemoryKind>(k);
    fmt::print(stderr, "{} {} {}\n", memory_kind_name(kind), dry.recording.at_peak[kind],
               real.recording.at_peak[kind]);
  }
}

void expect_same(const Layout& layout) {
  const Job job = job_of(layout);
  const auto real = real_steps(job);
  at::set_num_threads(1);
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const plan::RecordedStep dry = plan::record_step(job, rank);
    std::ostringstream name;
    name << layout;
    SCOPED_TRACE(fmt::format("{}, rank {}", name.str(), rank));
    const plan::RankPlan planned = plan_of(dry, rank), found = plan_of(real[rank], rank);
    EXPECT_EQ(planned.sent, found.sent);
    EXPECT_EQ(planned.activation_bytes, found.activation_bytes);
    const auto peak = static_cast<double>(found.memory_peak_bytes());
    EXPECT_NEAR(static_cast<double>(planned.memory_peak_bytes()), peak, 0.01 * peak);
    if (testing::Test::HasFailure() && rank == 0) print_difference(dry, real[rank]);
  }
}

TEST(RecordedStep, IsTheRealOne) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const char* compute : {"fp32", "bf16", "fp64"}) {
      for (const int tp : {1, 2}) {
        for (const int sp : {1, 2}) {
          for (const char* mode : {"ring", "ulysses"}) {
            for (const bool shared : {false, true}) {
              expect_same({.family = family,
                           .sp = sp,
                           .tp = tp,
                           .sp_mode = mode,
                           .tp_sequence = shared,
                           .compute = compute,
                           .large = true});
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test
