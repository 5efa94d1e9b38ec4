#include "colossal/nn/step_context.h"

#include <gtest/gtest.h>

namespace colossal::nn {
namespace {

TEST(StepContext, WithoutAdaptersIsSoInTheEncoderToo) {
  StepContext context = make_step_context(2, 3, at::kCPU);
  EXPECT_EQ(context.without_adapters().source, nullptr);
  const auto source = std::make_shared<const StepContext>(make_step_context(2, 5, at::kCPU));
  context.source = source;
  const StepContext plain = context.without_adapters();
  EXPECT_FALSE(plain.adapted);
  EXPECT_EQ(plain.sequence, 3);
  ASSERT_NE(plain.source, nullptr);
  EXPECT_FALSE(plain.source->adapted);
  EXPECT_EQ(plain.source->sequence, 5);
  EXPECT_TRUE(context.adapted);
  EXPECT_TRUE(source->adapted);
}

}  // namespace
}  // namespace colossal::nn
