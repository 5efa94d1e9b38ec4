#include "colossal/base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace colossal {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

TEST(Units, BytesToThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(612 << 20), "612 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(format_bytes(-(int64_t{15} << 30)), "-15.0 GiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");  // not "1024 KiB"
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8388608 TiB");
}

TEST(Units, CountsInGroupsOfThree) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_count(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Units, DurationsInTwoUnits) {
  EXPECT_EQ(format_duration(milliseconds(0)), "0ms");
  EXPECT_EQ(format_duration(milliseconds(250)), "250ms");
  EXPECT_EQ(format_duration(duration<double>(0.9996)), "1.0s");
  EXPECT_EQ(format_duration(milliseconds(4240)), "4.2s");
  EXPECT_EQ(format_duration(duration<double>(9.97)), "10s");
  EXPECT_EQ(format_duration(duration<double>(59.6)), "1m00s");
  EXPECT_EQ(format_duration(std::chrono::seconds(83)), "1m23s");
  EXPECT_EQ(format_duration(std::chrono::minutes(125)), "2h05m");
  EXPECT_EQ(format_duration(std::chrono::hours(76)), "3d04h");
  EXPECT_EQ(format_duration(milliseconds(-250)), "-250ms");
  EXPECT_EQ(format_duration(duration<double>(std::numeric_limits<double>::infinity())), "ever");
}

TEST(Units, RatesToThreeDigitsOrWhole) {
  EXPECT_EQ(format_rate(9340.4, "tokens"), "9,340 tokens/s");
  EXPECT_EQ(format_rate(4.957, "steps"), "4.96 steps/s");
  EXPECT_EQ(format_rate(52.34, "steps"), "52.3 steps/s");
  EXPECT_EQ(format_rate(99.96, "steps"), "100 steps/s");
  EXPECT_EQ(format_rate(0, "steps"), "0.00 steps/s");
}

TEST(ParseDuration, TakesUnitsAndBareSeconds) {
  EXPECT_EQ(parse_duration("300s"), milliseconds(300'000));
  EXPECT_EQ(parse_duration("5m"), milliseconds(300'000));
  EXPECT_EQ(parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(parse_duration("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(parse_duration("2d"), milliseconds(172'800'000));
  EXPECT_EQ(parse_duration("1.5s"), milliseconds(1'500));
  EXPECT_EQ(parse_duration("2.5"), milliseconds(2'500));
  EXPECT_EQ(parse_duration("0"), milliseconds(0));
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text :
       {"", "s", "-1s", "1h30", "5 m", "5x", "1e3s", "nan", "inf", "5m!", "99999999999d", "."}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(ParseBytes, TakesBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("12GiB"), ByteSize{int64_t{12} << 30});
  EXPECT_EQ(parse_bytes("64 KiB"), ByteSize{65'536});
  EXPECT_EQ(parse_bytes("1.5mib"), ByteSize{3 << 19});
  EXPECT_EQ(parse_bytes("10GB"), ByteSize{10'000'000'000});
  EXPECT_EQ(parse_bytes("4096"), ByteSize{4096});
  EXPECT_EQ(parse_bytes("17B"), ByteSize{17});
  EXPECT_EQ(parse_bytes("9007199254740993"), ByteSize{9'007'199'254'740'993});  // 2^53 + 1
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "GiB", "-1", "12G", "1 2GiB", "12GiBs", "0x10",
                           "9223372036854775808", "9223372036854775807.5", "8388608TiB"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

TEST(Units, ExactTextsReadBack) {
  for (const int64_t count : {0LL, 1LL, 250LL, 1'000LL, 300'000LL, 86'400'001LL}) {
    EXPECT_EQ(parse_duration(exact_duration(milliseconds(count))), milliseconds(count));
  }
  EXPECT_EQ(exact_duration(milliseconds(300'000)), "300s");
  EXPECT_EQ(exact_duration(milliseconds(1'250)), "1250ms");
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{65'536},
                              int64_t{12} << 30, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(parse_bytes(exact_bytes({bytes})), ByteSize{bytes});
  }
  EXPECT_EQ(exact_bytes({int64_t{12} << 30}), "12GiB");
  EXPECT_EQ(exact_bytes({1000}), "1000B");
}

}  // namespace
}  // namespace colossal
