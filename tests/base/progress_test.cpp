#include "colossal/base/progress.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace colossal {
namespace {

using std::chrono::milliseconds;

// A clock and an output that the test controls.
struct Screen {
  std::string text;
  std::chrono::steady_clock::time_point now{};
  int width = 80;

  ProgressOutput output(bool terminal) {
    return {.write = [this](std::string_view more) { text += more; },
            .now = [this] { return now; },
            .terminal = terminal,
            .width = [this] { return width; }};
  }
  std::string take() { return std::exchange(text, ""); }
};

ProgressLine::Extra text(const std::string& extra) {
  return [extra](double) { return extra; };
}

TEST(Progress, WhatFollowsFromTheRateGoesWithIt) {
  Screen screen;
  ProgressLine line("training", 0, 100, "steps", screen.output(/*terminal=*/false));
  const auto tokens = [](double rate) { return fmt::format("{} tokens/s", 10 * rate); };
  screen.now += milliseconds(1'000);
  line.update(1, tokens);  // a slow step
  EXPECT_EQ(screen.take(),
            "training  1/100 steps  1 %  1.0s, 1m39s left  1.00 steps/s  10 tokens/s\n");
  screen.now += milliseconds(3'000);
  line.update(16, tokens);
  EXPECT_EQ(screen.take(),
            "training  16/100 steps  16 %  4.0s, 21s left  4.00 steps/s  40 tokens/s\n");
  screen.now += milliseconds(4'000);  // a save
  line.update(16, tokens);
  line.finish();
  EXPECT_EQ(screen.take(),
            "training  16/100 steps  16 %  8.0s, 42s left  2.00 steps/s  20 tokens/s\n");
}

TEST(Progress, PlainLinesComeEverySoManyIfToldSo) {
  Screen screen;
  ProgressLine line("training", 5, 100, "steps", screen.output(false), 10);
  for (int step = 6; step <= 23; ++step) line.update(step);
  const std::string lines = screen.take();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_NE(lines.find("10/100"), std::string::npos);
  EXPECT_NE(lines.find("20/100"), std::string::npos);
}

TEST(Progress, PlainLineSaysWhatIsDoneAndLeft) {
  Screen screen;
  ProgressLine line("training", 0, 1000, "steps", screen.output(/*terminal=*/false));
  screen.now += milliseconds(80'000);
  line.update(400, text("loss 2.31 | 612 MiB"));
  EXPECT_EQ(screen.take(),
            "training  400/1,000 steps  40 %  1m20s, 2m00s left  5.00 steps/s  "
            "loss 2.31 | 612 MiB\n");
}

TEST(Progress, ResumedWorkDoesNotCountInTheRate) {
  Screen screen;
  ProgressLine line("training", 900, 1000, "steps", screen.output(false));
  screen.now += milliseconds(10'000);
  line.update(950);
  EXPECT_EQ(screen.take(), "training  950/1,000 steps  95 %  10s, 10s left  5.00 steps/s\n");
}

TEST(Progress, UnknownTotalShowsNoShareAndNothingLeft) {
  Screen screen;
  ProgressLine line("reading", 0, 0, "files", screen.output(false));
  line.update(0);
  EXPECT_EQ(screen.take(), "reading  0 files  0ms\n");
  screen.now += milliseconds(2'000);
  line.update(8);
  EXPECT_EQ(screen.take(), "reading  8 files  2.0s  4.00 files/s\n");
}

TEST(Progress, PlainLinesComeRarely) {
  Screen screen;
  ProgressLine line("training", 0, 36'000, "steps", screen.output(false));
  int lines = 0;
  for (int step = 0; step < 36'000; ++step) {  // an hour, ten steps a second
    line.update(step);
    lines += screen.take().empty() ? 0 : 1;
    screen.now += milliseconds(100);
  }
  EXPECT_GE(lines, 60);
  EXPECT_LE(lines, 80);
}

TEST(Progress, PlainFinishSaysNothingTwice) {
  Screen screen;
  ProgressLine line("training", 0, 2, "steps", screen.output(false));
  screen.now += milliseconds(1'000);
  line.update(1);
  screen.take();
  line.update(2);
  EXPECT_EQ(screen.take(), "");
  line.finish();
  EXPECT_EQ(screen.take(), "training  2/2 steps  100 %  1.0s  2.00 steps/s\n");
  line.finish();
  EXPECT_EQ(screen.take(), "");
  ProgressLine shown("training", 0, 2, "steps", screen.output(false));
  shown.update(2);
  screen.take();
  shown.finish();
  EXPECT_EQ(screen.take(), "");
}

TEST(Progress, TerminalLineIsRewrittenInPlace) {
  Screen screen;
  ProgressLine line("training", 0, 10, "steps", screen.output(/*terminal=*/true));
  screen.now += milliseconds(1'000);
  line.update(1);
  EXPECT_EQ(screen.take(), "\rtraining  1/10 steps  10 %  1.0s, 9.0s left  1.00 steps/s\033[K");
  screen.now += milliseconds(50);
  line.update(2);
  EXPECT_EQ(screen.take(), "");  // too soon
  screen.now += milliseconds(50);
  line.update(3);
  EXPECT_TRUE(screen.take().starts_with("\rtraining  3/10"));
  line.finish();
  EXPECT_TRUE(screen.take().ends_with("\033[K\n"));
}

TEST(Progress, TerminalLineIsCutToTheWidthByCharacters) {
  Screen screen;
  screen.width = 12;
  ProgressLine line("größe", 0, 10, "steps", screen.output(true));
  line.update(0);
  EXPECT_EQ(screen.take(), "\rgröße  0/10\033[K");  // 11 characters, 13 bytes
}

TEST(Progress, TerminalLineIsEndedWhenWorkBreaksOff) {
  Screen screen;
  {
    ProgressLine line("training", 0, 10, "steps", screen.output(true));
    line.update(1);
    screen.take();
  }
  EXPECT_EQ(screen.take(), "\n");
  { const ProgressLine line("training", 0, 10, "steps", screen.output(true)); }
  EXPECT_EQ(screen.take(), "");
}

}  // namespace
}  // namespace colossal
