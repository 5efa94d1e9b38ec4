#include "colossal/report/quantity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace colossal::report {
namespace {

TEST(FormatQuantity, FewSignificantDigits) {
  EXPECT_EQ(format_quantity(1.83249, kNumber), "1.832");
  EXPECT_EQ(format_quantity(24.149, kNumber), "24.15");
  EXPECT_EQ(format_quantity(541.3, kNumber), "541.3");
  EXPECT_EQ(format_quantity(0.01234567, kNumber), "0.01235");
  EXPECT_EQ(format_quantity(6e-4, kNumber), "6.00e-4");
  EXPECT_EQ(format_quantity(-3e21, kNumber), "-3.00e21");
  EXPECT_EQ(format_quantity(0, kNumber), "0");
}

TEST(FormatQuantity, PrefixesAndSymbols) {
  EXPECT_EQ(format_quantity(1.3e9, kBytes), "1.21 GiB");
  EXPECT_EQ(format_quantity(56, kBytes), "56 B");
  EXPECT_EQ(format_quantity(24149, kTokensPerSecond), "24.1k tokens/s");
  EXPECT_EQ(format_quantity(8012, kTokensPerSecond), "8012 tokens/s");
  EXPECT_EQ(format_quantity(0.4128, kPercent), "41.3%");
  EXPECT_EQ(format_quantity(0.0251, kSeconds), "25.1 ms");
  EXPECT_EQ(format_quantity(3.5e-5, kSeconds), "35.0 µs");
}

TEST(FormatQuantity, NotFinite) {
  EXPECT_EQ(format_quantity(NAN, kBytes), "–");
  EXPECT_EQ(format_quantity(INFINITY, kNumber), "–");
}

}  // namespace
}  // namespace colossal::report
