#include "colossal/base/process_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "colossal/base/error.h"

namespace colossal::machine {
namespace {

// Ends this process: with exit code 2 and the message if a ConfigError is thrown, else with 0.
template <class Require>
[[noreturn]] void require_and_exit(Require require) {
  try {
    require();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}", error.what());
    std::_Exit(2);
  }
  std::_Exit(0);
}

void limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit both{soft, hard};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

void require_files(rlim_t soft, rlim_t hard) {
  limit(RLIMIT_NOFILE, soft, hard);
  require_and_exit([] { require_open_files(70, "3 ranks"); });
}

TEST(OpenFiles, are_raised_as_far_as_the_hard_limit) {
  EXPECT_EXIT(require_files(16, 70), testing::ExitedWithCode(0), "");
}

TEST(OpenFiles, too_few_are_named) {
  EXPECT_EXIT(require_files(16, 69), testing::ExitedWithCode(2), "69 files.*3 ranks need up to 70");
}

TEST(Threads, that_can_be_started_are_enough) {
  EXPECT_NO_THROW(require_threads(2, 3));
}

TEST(Threads, that_cannot_be_started_are_named_with_what_would_work) {
  const auto in_little_memory = [] {
    constexpr rlim_t kForAFewStacks = 1 << 30;
    limit(RLIMIT_AS, kForAFewStacks, kForAFewStacks);
    require_and_exit([] { require_threads(500, 1); });
  };
  EXPECT_EXIT(in_little_memory(), testing::ExitedWithCode(2),
              "train.threads = 500: .*only [0-9]+ could be started.*use train.threads = [0-9]+ or "
              "less, or raise the limit");
}

TEST(Threads, of_what_computes_beside_them_count_too) {
  EXPECT_NO_THROW(require_threads(2, 3, "the sampler (tune.overlap_sampling)"));
  // Enough memory for the stacks of several hundred threads, but not of twice as many.
  const auto in_little_memory = [](const std::string& beside) {
    constexpr rlim_t kForSomeStacks = rlim_t{6} << 30;
    limit(RLIMIT_AS, kForSomeStacks, kForSomeStacks);
    require_and_exit([&] { require_threads(500, 1, beside); });
  };
  EXPECT_EXIT(in_little_memory(""), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(in_little_memory("the sampler (tune.overlap_sampling)"), testing::ExitedWithCode(2),
              "as many again for the sampler .*use train.threads = [0-9]+ or less, do without the "
              "sampler .*, or raise the limit");
}

}  // namespace
}  // namespace colossal::machine
