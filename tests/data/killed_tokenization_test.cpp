#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "colossal/data/corpus.h"
#include "tests/data/text_folder.h"
#include "tests/support/seccomp_filter.h"

namespace colossal::data {
namespace {

// Runs the function in a process of its own, which is killed after `delay`, if given. Returns the
// wait status.
template <typename Function>
int run_in_process(const Function& function,
                   std::optional<std::chrono::duration<double>> delay = std::nullopt) {
  const pid_t child = ::fork();
  if (child == 0) {
    function();
    ::_exit(0);
  }
  if (delay) {
    std::this_thread::sleep_for(*delay);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

class KilledTokenization : public ::testing::Test {
 protected:
  static constexpr int kFiles = 40;

  KilledTokenization() {
    for (int i = 0; i < kFiles; ++i) {
      folder_.write(fmt::format("text/{:02}", i), std::string(50'000 + i, 'a' + i % 26));
    }
    options_.num_threads = 2;
    options_.cache = folder_ / "cache";
  }

  Corpus open(const CorpusOptions& options) const {
    return Corpus::open(std::vector{folder_ / "text/*"}, LetterTokenizer(), options);
  }

  std::vector<std::string> cache_names() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(options_.cache)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.cache)) {
      names.push_back(entry.path().extension());
    }
    return names;
  }

  void expect_good_corpus(bool from_cache) const {
    const Corpus corpus = open(options_);
    EXPECT_EQ(corpus.from_cache(), from_cache);
    std::vector<int64_t> tokens(corpus.num_tokens());
    corpus.read(0, tokens);
    EXPECT_EQ(tokens, expected_);
    EXPECT_EQ(cache_names(), std::vector<std::string>{".tokens"});
  }

  static std::vector<int64_t> make_expected() {
    std::vector<int64_t> tokens;
    for (int i = 0; i < kFiles; ++i) {
      if (i > 0) tokens.push_back(256);
      tokens.insert(tokens.end(), 50'000 + i, 'a' + i % 26);
    }
    return tokens;
  }

  TextFolder folder_;
  CorpusOptions options_;
  const std::vector<int64_t> expected_ = make_expected();
};

// Kills the process after the first, the middle and the last file.
TEST_F(KilledTokenization, LeavesNoHalfCache) {
  for (const int64_t last : {1, kFiles / 2, kFiles}) {
    CorpusOptions stopping = options_;
    int64_t seen = 0;
    stopping.progress = [&](const TokenizeProgress&) {
      if (++seen == last) ::raise(SIGKILL);
    };
    const int status = run_in_process([&] { open(stopping); });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(cache_names(), std::vector<std::string>{".partial"});
    expect_good_corpus(/*from_cache=*/false);
    std::filesystem::remove_all(options_.cache);
  }
}

// Kills the process at the sync and at the rename.
TEST_F(KilledTokenization, LeavesNoHalfCacheAtTheEnd) {
  for (const int system_call : {SYS_fsync, SYS_rename}) {
    const int status = run_in_process([&] {
      // The kernel kills this process when it next enters the system call.
      if (!test::filter_system_call(system_call, SECCOMP_RET_KILL_PROCESS)) ::_exit(9);
      open(options_);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(cache_names(), std::vector<std::string>{".partial"});
    expect_good_corpus(/*from_cache=*/false);
    std::filesystem::remove_all(options_.cache);
  }
}

// Kills the process at any moment: the cache is complete or missing.
TEST_F(KilledTokenization, LeavesNoHalfCacheAtAnyMoment) {
  const auto start = std::chrono::steady_clock::now();
  run_in_process([&] { open(options_); });
  const std::chrono::duration<double> undisturbed = std::chrono::steady_clock::now() - start;
  std::mt19937 random(1);
  for (int i = 0; i < 15; ++i) {
    std::filesystem::remove_all(options_.cache);
    std::uniform_real_distribution<> part(0, 1.5);
    run_in_process([&] { open(options_); }, undisturbed * part(random));
    const bool has_cache = ::testing::Value(cache_names(), ::testing::Contains(".tokens"));
    expect_good_corpus(/*from_cache=*/has_cache);
  }
}

// A limit on the file size simulates a full disk.
TEST_F(KilledTokenization, AFullDiskIsNamedAndLeavesNothing) {
  const int status = run_in_process([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of<IoError>([&] { open(options_); });
    ::_exit(message.find("cannot write") != std::string::npos && cache_names().empty() ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  expect_good_corpus(/*from_cache=*/false);
}

}  // namespace
}  // namespace colossal::data
