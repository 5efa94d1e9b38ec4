#include "colossal/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace colossal {
namespace {

using testing::MatchesRegex;

struct Captured {
  std::string out;
  std::string err;
};

Captured captured(const std::function<void()>& body) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  body();
  return {testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class Log : public testing::Test {
 protected:
  void TearDown() override { log::set_rank_prefix(0, 1); }
};

TEST_F(Log, GoesToStderrWithTheTime) {
  const Captured text = captured([] { log::info("{} of {}", 1, "two"); });
  EXPECT_THAT(text.err, MatchesRegex(".*\\[..:..:..\\] 1 of two\n"));
  EXPECT_EQ(text.out, "");
}

TEST_F(Log, NamesTheLevel) {
  EXPECT_THAT(captured([] { log::warn("slow"); }).err, MatchesRegex(".*\\] warning: slow\n"));
  EXPECT_THAT(captured([] { log::error("gone"); }).err, MatchesRegex(".*\\] error: gone\n"));
}

TEST_F(Log, LeavesBracesInArgumentsAlone) {
  EXPECT_THAT(captured([] { log::warn("{}", "{x}"); }).err, MatchesRegex(".*warning: .x.\n"));
  EXPECT_THAT(captured([] { log::info("{}", "{x}"); }).err, MatchesRegex(".*\\] .x.\n"));
}

TEST_F(Log, OneOfSeveralRanksSaysWhich) {
  log::set_rank_prefix(0, 4);
  EXPECT_THAT(captured([] { log::info("fine"); }).err, MatchesRegex(".*\\] fine\n"));
  EXPECT_THAT(captured([] { log::warn("slow"); }).err,
              MatchesRegex(".*\\] rank 0: warning: slow\n"));
}

TEST_F(Log, RanksOtherThanZeroGiveNoInfos) {
  log::set_rank_prefix(3, 4);
  EXPECT_EQ(captured([] { log::info("fine"); }).err, "");
  EXPECT_THAT(captured([] { log::error("gone"); }).err,
              MatchesRegex(".*\\] rank 3: error: gone\n"));
}

}  // namespace
}  // namespace colossal
