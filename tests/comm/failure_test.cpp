// What happens when a rank is late, fails, or makes another call. Every message names the rank, the
// axis and the operation.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/backend.h"
#include "colossal/comm/group.h"
#include "colossal/comm/law.h"
#include "tests/comm/settings.h"
#include "tests/support/countdown.h"

namespace colossal::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using test::Countdown;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr milliseconds kShort{200};

const at::Tensor& four_floats() {
  static const at::Tensor tensor = at::ones({4});
  return tensor;
}

// Returns the message of the CommError that `function` throws.
template <typename Function>
std::string failure_of(const Function& function) {
  try {
    function();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

class Failure : public testing::TestWithParam<Setting> {
 protected:
  int n() const { return GetParam().size; }
  bool is(const char* backend) const { return GetParam().backend == backend; }
  void run(const Body& body, milliseconds timeout = test::kRankTimeout) const {
    comm::run(GetParam(), body, timeout);
  }
  bool on_several_hosts() const { return !GetParam().host_letters.empty(); }
  // Over TCP, the timeout is also that of connecting, on a machine that may be busy.
  bool over_tcp() const { return is("gloo") || on_several_hosts(); }
  milliseconds short_timeout() const { return over_tcp() ? milliseconds(1000) : kShort; }
  std::string timed_out() const {
    return over_tcp() ? "timed out after 1s" : "timed out after 200ms";
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Failure,
                         testing::Values(Setting{"local", 3}, Setting{"staged", 3},
                                         Setting{"gloo", 3}, Setting{"shm", 3},
                                         Setting{"shm", 3, "aba"}),
                         testing::PrintToStringParamName());

// Over several hosts, these failures are those of the two backends, a second later.
class FailureOnOneHost : public Failure {};
INSTANTIATE_TEST_SUITE_P(Backends, FailureOnOneHost,
                         testing::Values(Setting{"local", 3}, Setting{"gloo", 3},
                                         Setting{"shm", 3}),
                         testing::PrintToStringParamName());

// Only over TCP does one rank learn of a loss from another: through memory, all notice it at once.
class FailureOverTcp : public Failure {};
INSTANTIATE_TEST_SUITE_P(Backends, FailureOverTcp, testing::Values(Setting{"gloo", 3}),
                         testing::PrintToStringParamName());

TEST_P(Failure, ATimeoutNamesWhoCalledWhatAndWhoDidNotArrive) {
  Countdown others_failed(2);
  run(
      [&](World&, const Group& group) {
        if (group.rank() == 2) return others_failed.wait();
        const std::string message =
            failure_of([&] { all_reduce(four_floats().clone(), group, Reason::gradient); });
        others_failed.count_down();
        const std::string who = fmt::format(
            "rank {} of 3 on axis \"dp\": all_reduce of 16 B (gradient) ", group.rank());
        const std::string what = timed_out() + ": rank 2 did not arrive";
        if (on_several_hosts()) {
          EXPECT_THAT(message, AllOf(StartsWith(who), HasSubstr(what)));
        } else {
          EXPECT_EQ(message, who + what);
        }
      },
      short_timeout());
}

TEST_P(FailureOnOneHost, WhoComesTooLateLearnsIt) {
  Countdown others_failed(2);
  run(
      [&](World&, const Group& group) {
        if (group.rank() == 2) others_failed.wait();
        const std::string message = failure_of([&] { barrier(group); });
        if (group.rank() == 2) {
          EXPECT_THAT(message, AnyOf(HasSubstr("did not arrive"), HasSubstr("lost rank 0"),
                                     HasSubstr("lost rank 1")));
        } else {
          others_failed.count_down();
        }
      },
      short_timeout());
}

TEST_P(FailureOnOneHost, AfterAFailureLaterCallsFailAtOnce) {
  Countdown others_failed(2);
  run(
      [&](World&, const Group& group) {
        if (group.rank() == 2) return others_failed.wait();
        failure_of([&] { barrier(group); });
        const auto start = std::chrono::steady_clock::now();
        const std::string message = failure_of([&] { barrier(group); });
        EXPECT_LT(std::chrono::steady_clock::now() - start, short_timeout() / 2);
        EXPECT_THAT(message, HasSubstr("did not arrive"));
        others_failed.count_down();
      },
      short_timeout());
}

TEST_P(FailureOnOneHost, ASendNobodyReceivesTimesOut) {
  Countdown sender_failed(1);
  run(
      [&](World&, const Group& group) {
        if (group.rank() != 0) return sender_failed.wait();
        const at::Tensor large = at::ones({1 << 20});
        EXPECT_THAT(failure_of([&] { send(large, 1, group, Reason::stage); }),
                    MatchesRegex("rank 0 of 3 on axis \"dp\": send/receive of .*MiB \\(stage\\) " +
                                 timed_out() + ": rank 1 did not receive"));
        sender_failed.count_down();
      },
      short_timeout());
}

TEST_P(FailureOnOneHost, AReceiveWithoutASendTimesOut) {
  Countdown receiver_failed(1);
  run(
      [&](World&, const Group& group) {
        if (group.rank() != 0) return receiver_failed.wait();
        EXPECT_THAT(failure_of([&] { receive(at::ones({4}), 2, group, Reason::stage); }),
                    MatchesRegex(".*" + timed_out() + ": rank 2 did not (send|arrive)"));
        receiver_failed.count_down();
      },
      short_timeout());
}

TEST_P(Failure, AnAbortEndsTheOwnCallWithItsReasonAndThePeersWithTheLoss) {
  Countdown aborted(1);
  Countdown peers_failed(2);
  run([&](World& world, const Group& group) {
    if (group.rank() == 1) {
      std::jthread aborter([&] {
        std::this_thread::sleep_for(milliseconds(50));
        world.abort("the user said stop");
      });
      EXPECT_EQ(
          failure_of([&] { all_reduce(four_floats().clone(), group, Reason::gradient); }),
          "rank 1 of 3 on axis \"dp\": all_reduce of 16 B (gradient) was aborted: the user said "
          "stop");
      EXPECT_THAT(failure_of([&] { barrier(group); }), HasSubstr("the user said stop"));
      aborted.count_down();
      return peers_failed.wait();
    }
    aborted.wait();
    // Either directly, or from the other peer if that one noticed first.
    const std::string own = fmt::format("rank {} of 3 on axis \"dp\": barrier lost", group.rank());
    EXPECT_THAT(failure_of([&] { barrier(group); }),
                AllOf(StartsWith(own), HasSubstr("lost rank 1: the user said stop")));
    peers_failed.arrive_and_wait();
  });
}

// Rank 2 leaves without a message. Rank 1 notices, and tells rank 0 which rank was lost first.
TEST_P(FailureOverTcp, TheFirstRankLostIsNamedAlsoByThoseWhoWaitForAnother) {
  Countdown noticed(1);
  run([&](World&, const Group& group) {
    if (group.rank() == 2) return;  // its world ends, which closes its connections
    const at::Tensor tensor = four_floats().clone();
    if (group.rank() == 1) {
      EXPECT_THAT(failure_of([&] { receive(tensor, 2, group, Reason::stage); }),
                  HasSubstr("lost rank 2: connection closed"));
      noticed.count_down();
    } else {
      EXPECT_THAT(failure_of([&] { receive(tensor, 1, group, Reason::stage); }),
                  MatchesRegex(".*lost rank 1: rank 1 of 3 .*lost rank 2: connection closed"));
      noticed.wait();
    }
  });
}

TEST_P(FailureOnOneHost, AnAsynchronousCallThrowsWhereItIsWaitedFor) {
  Countdown others_failed(2);
  run(
      [&](World&, const Group& group) {
        if (group.rank() == 2) return others_failed.wait();
        Work first = all_reduce_async(four_floats().clone(), group, Reason::gradient);
        Work second = all_reduce_async(four_floats().clone(), group, Reason::control);
        EXPECT_THAT(failure_of([&] { second.wait(); }), HasSubstr("(control)"));
        EXPECT_THAT(failure_of([&] { first.wait(); }), HasSubstr("(gradient) timed out"));
        // The call is not waited for. The group must end cleanly anyway.
        all_reduce_async(four_floats().clone(), group, Reason::gradient);
        others_failed.count_down();
      },
      short_timeout());
}

// Rank 1 calls `other`, the other ranks call `usual`. Returns the error of each rank.
class Mismatch : public Failure {
 protected:
  using Collective = std::function<void(const Group&)>;
  std::vector<std::string> messages(const Collective& usual, const Collective& other) const {
    std::vector<std::string> messages(n());
    Countdown all_failed(n());
    run([&](World&, const Group& group) {
      messages[group.rank()] = failure_of([&] { group.rank() == 1 ? other(group) : usual(group); });
      all_failed.arrive_and_wait();
    });
    return messages;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Mismatch,
                         testing::Values(Setting{"local", 3}, Setting{"messages", 3},
                                         Setting{"gloo", 2}, Setting{"shm", 3},
                                         Setting{"shm", 3, "aab"}, Setting{"shm", 3, "aba"}),
                         testing::PrintToStringParamName());

TEST_P(Mismatch, OfOperations) {
  const auto texts = messages(
      [](const Group& group) { all_reduce(at::ones({4}), group, Reason::gradient); },
      [](const Group& group) {
        all_gather(at::ones({12}), even_counts(12, group.size()), group, Reason::parameter);
      });
  const std::string gather = "all_gather of 48 B of Float (parameter)";
  const std::string reduce = "all_reduce of 16 B of Float (gradient)";
  if (is("local")) {
    EXPECT_EQ(
        texts[0],
        "rank 0 of 3 on axis \"dp\": all_reduce of 16 B (gradient) does not match: rank 1 called " +
            gather + " while rank 0 called " + reduce);
    EXPECT_THAT(texts[1], HasSubstr("rank 0 called " + reduce + " while rank 1 called " + gather));
  }
  // Over messages, the rank that notices first tells the others.
  for (const std::string& text : texts) {
    EXPECT_THAT(text, AllOf(HasSubstr("does not match"), HasSubstr(gather), HasSubstr(reduce)));
  }
}

TEST_P(Mismatch, OfSizes) {
  const auto texts =
      messages([](const Group& group) { all_reduce(at::ones({4}), group, Reason::gradient); },
               [](const Group& group) { all_reduce(at::ones({5}), group, Reason::gradient); });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("called all_reduce of 20 B of Float (gradient)"),
                              HasSubstr("called all_reduce of 16 B of Float (gradient)")));
}

TEST_P(Mismatch, OfTypes) {
  const auto texts = messages(
      [](const Group& group) { all_reduce(at::ones({4}), group, Reason::gradient); },
      [](const Group& group) { all_reduce(at::ones({2}, at::kDouble), group, Reason::gradient); });
  EXPECT_THAT(texts[0], HasSubstr("called all_reduce of 16 B of Double (gradient)"));
}

TEST_P(Mismatch, OfReasons) {
  const auto texts =
      messages([](const Group& group) { all_reduce(at::ones({4}), group, Reason::gradient); },
               [](const Group& group) { all_reduce(at::ones({4}), group, Reason::control); });
  EXPECT_THAT(texts[0], HasSubstr("called all_reduce of 16 B of Float (control)"));
}

TEST_P(Mismatch, OfParts) {
  const auto reduce = [](int64_t from_first_to_last) {
    return [from_first_to_last](const Group& group) {
      std::vector<int64_t> counts = even_counts(8, group.size());
      counts.front() -= from_first_to_last;
      counts.back() += from_first_to_last;
      const at::Tensor part = at::ones({counts[group.rank()]});
      reduce_scatter(at::ones({8}), part, counts, group, Reason::gradient);
    };
  };
  for (const std::string& text : messages(reduce(0), reduce(2))) {
    EXPECT_THAT(text, AnyOf(HasSubstr("does not match"), HasSubstr("lost rank")));
  }
}

TEST_P(Mismatch, OfWhatAnAllToAllExpects) {
  const auto exchange = [](int64_t expected) {
    return [expected](const Group& group) {
      const std::vector<int64_t> send_counts(group.size(), 3);
      const std::vector<int64_t> receive_counts(group.size(), expected);
      all_to_all(at::ones({total(send_counts)}), send_counts, at::ones({total(receive_counts)}),
                 receive_counts, group, Reason::expert);
    };
  };
  // Only rank 1 is wrong, about what it and the others send.
  for (const std::string& text : messages(exchange(3), exchange(2))) {
    EXPECT_THAT(text, AnyOf(HasSubstr("does not match"), HasSubstr("lost rank 1")));
  }
}

// The ranks that are right may be done before they hear of it. The wrong one is told what came.
TEST_P(Mismatch, OfWhatARingHandsOn) {
  const auto rotate = [](int64_t expected) {
    return [expected](const Group& group) {
      rotate_async(at::ones({3}), at::ones({expected}), group, Reason::sequence).wait();
    };
  };
  EXPECT_THAT(messages(rotate(3), rotate(2))[1],
              AllOf(HasSubstr("rotate (sequence) does not match: rank 0 called"),
                    HasSubstr("with 12 B for it"), HasSubstr("with 8 B for it")));
}

TEST(RunRanks, ThrowsTheFirstCauseWithItsRank) {
  const auto body = [](World& world) {
    const Group group = world.group("dp", {0, 1, 2, 3});
    if (world.rank() == 2) throw ConfigError("boom");
    barrier(group);
  };
  for (const std::string backend : {"local", "gloo", "shm"}) {
    try {
      backend == "local" ? test::run_ranks(4, body, std::chrono::seconds(20))
                         : test::run_ranks_over(backend, 4, body, std::chrono::seconds(20));
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(), "rank 2: boom");
    }
  }
}

TEST(RunRanks, OthersLearnWhoThrew) {
  std::string message;
  EXPECT_THROW(test::run_ranks(2,
                               [&](World& world) {
                                 const Group group = world.group("dp", {0, 1});
                                 if (world.rank() == 1) throw std::runtime_error("boom");
                                 message = failure_of([&] { barrier(group); });
                               }),
               std::runtime_error);
  EXPECT_EQ(message, "rank 0 of 2 on axis \"dp\": barrier lost rank 1: boom");
}

TEST(RunRanks, AFailureOfARankNamesTheCase) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    TRACED_CASE("the outer case");
    TRACED_CASE("zero 3");
    test::run_ranks(2, [](World& world) { EXPECT_EQ(world.rank(), 0); });
  }
  ASSERT_EQ(failures.size(), 1);
  EXPECT_THAT(failures.GetTestPartResult(0).message(),
              AllOf(HasSubstr("the outer case"), HasSubstr("zero 3")));
}

TEST(RunRanks, EightRanksTakeLittleTime) {
  const auto start = std::chrono::steady_clock::now();
  test::run_ranks(8, [](World& world) {
    const Group group = world.group("dp", {0, 1, 2, 3, 4, 5, 6, 7});
    for (int i = 0; i < 100; ++i) all_reduce(at::ones({16}), group, Reason::gradient);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 5);  // 0.05 s on two idle cores
}

TEST(Group, NamesGlobalRanksWhereTheyDiffer) {
  Countdown failed(1);
  test::run_ranks(
      4,
      [&](World& world) {
        if (world.rank() % 2 == 0) return;
        const Group group = world.group("tp", {1, 3});
        if (world.rank() == 3) return failed.wait();
        EXPECT_EQ(failure_of([&] { barrier(group); }),
                  "rank 0 of 2 on axis \"tp\" (global 1): barrier timed out after 200ms: rank 1 "
                  "(global 3) did not arrive");
        failed.count_down();
      },
      kShort);
}

TEST(Group, RefusesWhatNoBackendCouldDo) {
  test::run_ranks(2, [](World& world) {
    const Group group = world.group("dp", {0, 1});
    const at::Tensor tensor = at::ones({4, 2});
    EXPECT_THROW(all_reduce(tensor.t(), group, Reason::gradient), InternalError);
    EXPECT_THROW(all_reduce(at::ones({4}, at::kInt), group, Reason::gradient), InternalError);
    const std::vector<int64_t> wrong{4, 3};
    EXPECT_THROW(all_gather(tensor, wrong, group, Reason::gradient), InternalError);
    EXPECT_THROW(broadcast(tensor, 2, group, Reason::gradient), InternalError);
    EXPECT_THROW(send(tensor, world.rank(), group, Reason::stage), InternalError);
    EXPECT_THROW(all_reduce(at::ones({4}, at::kMeta), group, Reason::gradient), InternalError);
    EXPECT_THROW(world.group("dp", {1 - world.rank()}), InternalError);
    EXPECT_THROW(world.group("dp", {0, 1, 2}), InternalError);
    EXPECT_THROW(world.group("dp", {0, 1, 1}), InternalError);
  });
}

// As after SIGSTOP and SIGCONT of all ranks: each finds that the others did not arrive.
TEST(Deadline, that_is_noticed_late_says_that_the_rank_itself_did_not_run) {
  const auto noticed_after = [](std::chrono::milliseconds late) {
    return std::string(Deadline(3s).extended(-3s - late).failure("rank 1 did not arrive").what());
  };
  EXPECT_EQ(noticed_after(100ms), "timed out after 3s: rank 1 did not arrive");
  EXPECT_THAT(noticed_after(5s),
              HasSubstr("this rank itself did not run for the last 5s or longer"));
}

}  // namespace
}  // namespace colossal::comm
