// What happens over NCCL when a rank is late, fails, or makes another call. NCCL says nothing of
// most of it: calls just do not end, and after an abort they end with nonsense.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/group.h"
#include "colossal/comm/law.h"
#include "tests/comm/settings.h"
#include "tests/support/countdown.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/fake_nccl/communicator.h"
#include "tests/support/fake_nccl/kernel.h"

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

constexpr milliseconds kShort{1000};  // also the time for connecting

at::Tensor ones(const Group& group, int64_t numel = 4) {
  return at::ones({numel}, at::TensorOptions(at::kFloat).device(group.device()));
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

// Reads the sum of the ranks' ones on the host.
std::string failure_of_all_reduce(const Group& group, int64_t numel = 4,
                                  Reason reason = Reason::gradient) {
  return failure_of([&] {
    const at::Tensor tensor = ones(group, numel);
    all_reduce(tensor, group, reason);
    on_host(tensor, group);
  });
}

// No rank leaves before all have failed: rank 0 serves the store, through which they tell each
// other why.
void run_three(const Body& body, milliseconds timeout = kShort) {
  Countdown all_done(3);
  run(
      {"nccl", 3},
      [&](World& world, const Group& group) {
        body(world, group);
        all_done.arrive_and_wait();
      },
      timeout);
}

TEST(NcclFailure, ATimeoutNamesWhoCalledWhatAndWhoDidNotArrive) {
  Countdown others_failed(2);
  run_three([&](World&, const Group& group) {
    if (group.rank() == 2) return others_failed.wait();
    const std::string message = failure_of_all_reduce(group);
    others_failed.count_down();
    // The rank that notices first tells the other.
    EXPECT_THAT(message,
                AllOf(StartsWith(fmt::format("rank {} of 3 on axis \"dp\": ", group.rank())),
                      HasSubstr("all_reduce of 16 B (gradient) timed out after 1s: rank 2 did not "
                                "arrive")));
  });
}

// What the others have sent before they failed may be enough for one call.
TEST(NcclFailure, WhoComesTooLateLearnsIt) {
  Countdown others_failed(2);
  run_three([&](World&, const Group& group) {
    if (group.rank() == 2) others_failed.wait();
    const std::string message = failure_of([&] {
      barrier(group);
      barrier(group);
    });
    if (group.rank() == 2) {
      EXPECT_THAT(message, AnyOf(HasSubstr("lost rank 0"), HasSubstr("lost rank 1")));
    } else {
      others_failed.count_down();
    }
  });
}

TEST(NcclFailure, AfterAFailureLaterCallsFailAtOnce) {
  Countdown others_failed(2);
  run_three([&](World&, const Group& group) {
    if (group.rank() == 2) return others_failed.wait();
    failure_of([&] { barrier(group); });
    const auto start = std::chrono::steady_clock::now();
    const std::string message = failure_of([&] { barrier(group); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, kShort / 2);
    EXPECT_THAT(message, HasSubstr("did not arrive"));
    others_failed.count_down();
  });
}

// The kernels end, so the streams drain, and nothing is said but by on_host(), in any group.
TEST(NcclFailure, ResultsOfAnyGroupAreNotReadAfterAFailureInOne) {
  Countdown others_failed(2);
  run_three([&](World& world, const Group& group) {
    const Group other = world.group("tp", {0, 1, 2});
    const at::Tensor sum = ones(other);
    all_reduce(sum, other, Reason::tensor);
    if (group.rank() == 2) return others_failed.wait();
    const at::Tensor late = ones(group);
    all_reduce(late, group, Reason::gradient);
    const at::Tensor computed = late * 2;  // launched, of nonsense
    computed.cpu();
    EXPECT_THAT(failure_of([&] { on_host(sum, other); }),
                AllOf(HasSubstr("axis \"dp\""), HasSubstr("rank 2 did not arrive")));
    others_failed.count_down();
  });
}

TEST(NcclFailure, ASendNobodyReceivesTimesOut) {
  Countdown sender_failed(1);
  run_three([&](World&, const Group& group) {
    if (group.rank() != 0) return sender_failed.wait();
    EXPECT_THAT(failure_of([&] {
                  const at::Tensor large = ones(group, 1 << 20);
                  send(large, 1, group, Reason::stage);
                  on_host(large, group);
                }),
                MatchesRegex("rank 0 of 3 on axis \"dp\": send/receive of .*MiB \\(stage\\) timed "
                             "out after 1s: rank 1 did not receive"));
    sender_failed.count_down();
  });
}

TEST(NcclFailure, AReceiveWithoutASendTimesOut) {
  Countdown receiver_failed(1);
  run_three([&](World&, const Group& group) {
    if (group.rank() != 0) return receiver_failed.wait();
    EXPECT_THAT(failure_of([&] {
                  const at::Tensor tensor = ones(group);
                  receive(tensor, 2, group, Reason::stage);
                  on_host(tensor, group);
                }),
                HasSubstr("timed out after 1s: rank 2 did not send"));
    receiver_failed.count_down();
  });
}

TEST(NcclFailure, AnAbortEndsTheOwnCallWithItsReasonAndThePeersWithTheLoss) {
  Countdown aborted(1);
  run_three(
      [&](World& world, const Group& group) {
        if (group.rank() == 1) {
          std::jthread aborter([&] {
            std::this_thread::sleep_for(50ms);
            world.abort("the user said stop");
          });
          EXPECT_EQ(failure_of_all_reduce(group),
                    "rank 1 of 3 on axis \"dp\": all_reduce of 16 B (gradient) was aborted: the "
                    "user said stop");
          EXPECT_THAT(failure_of([&] { barrier(group); }), HasSubstr("the user said stop"));
          return aborted.count_down();
        }
        aborted.wait();
        EXPECT_THAT(failure_of([&] { barrier(group); }),
                    AllOf(StartsWith(fmt::format("rank {} of 3 on axis \"dp\": barrier lost",
                                                 group.rank())),
                          HasSubstr("lost rank 1: the user said stop")));
      },
      20s);
}

TEST(NcclFailure, AnAsynchronousCallThrowsWhereItIsWaitedFor) {
  Countdown others_failed(2);
  run_three([&](World&, const Group& group) {
    if (group.rank() == 2) return others_failed.wait();
    const at::Tensor tensor = ones(group);
    Work first = all_reduce_async(tensor, group, Reason::gradient);
    Work second = all_reduce_async(ones(group), group, Reason::control);
    while (!second.done()) std::this_thread::sleep_for(1ms);
    EXPECT_THAT(failure_of([&] { second.wait(); }), HasSubstr("(control)"));
    EXPECT_THAT(failure_of([&] { first.wait(); }), HasSubstr("(gradient) "));
    // The call is not waited for. The group must end cleanly anyway.
    all_reduce_async(ones(group), group, Reason::gradient);
    others_failed.count_down();
  });
}

TEST(NcclFailure, OtherCallsOfAPeerAreNamed) {
  run_three([&](World&, const Group& group) {
    const std::string message = failure_of([&] {
      const at::Tensor tensor = ones(group, 12);
      if (group.rank() == 1) {
        all_gather(tensor, even_counts(12, 3), group, Reason::parameter);
      } else {
        all_reduce(tensor, group, Reason::gradient);
      }
      on_host(tensor, group);
    });
    EXPECT_THAT(message, AllOf(HasSubstr("does not match"),
                               HasSubstr("all_gather of 48 B of Float (parameter)"),
                               HasSubstr("all_reduce of 48 B of Float (gradient)")));
  });
}

// On the GPU, the call of the second group is behind that of the first, which waits for rank 2.
// NCCL ends a communicator only when its kernels have ended.
TEST(NcclFailure, CallsOfGroupsThatWaitForEachOtherEndTogether) {
  Countdown others_failed(2);
  run_three([&](World& world, const Group& first) {
    const Group second = world.group("tp", {0, 1, 2});
    if (world.rank() == 2) return others_failed.wait();
    const at::Tensor tensor = ones(first);
    all_reduce(tensor, first, Reason::gradient);
    all_reduce(tensor, second, Reason::tensor);
    EXPECT_THAT(failure_of([&] { on_host(tensor, second); }), HasSubstr("rank 2 did not arrive"));
    others_failed.count_down();
  });
}

TEST(NcclFailure, APeerWhoseGpuHangsIsNamed) {
  Countdown others_failed(2);
  run_three([&](World&, const Group& group) {
    Countdown release(1);
    if (group.rank() == 2) {
      emulated_gpu::launch_on_current(
          {.name = "a kernel that takes long", .run = [&] { release.wait(); }});
      const at::Tensor tensor = ones(group);
      all_reduce(tensor, group, Reason::gradient);
      others_failed.wait();
      release.count_down();
      std::string news = "no CommError";
      for (int i = 0; i < 1000 && news == "no CommError"; ++i) {
        news = failure_of([&] { on_host(tensor, group); });
        std::this_thread::sleep_for(5ms);
      }
      EXPECT_THAT(news, HasSubstr("lost rank "));
      return;
    }
    EXPECT_THAT(failure_of_all_reduce(group),
                HasSubstr("rank 2 did not arrive: earlier work on its GPU does not end"));
    others_failed.count_down();
  });
}

TEST(NcclFailure, AnErrorOfNcclIsToldToAllRanks) {
  run_three(
      [&](World&, const Group& group) {
        barrier(group);
        if (group.rank() == 0) fake_nccl::plant_failure(1, 4);
        barrier(group);
        const std::string message = failure_of_all_reduce(group);
        EXPECT_THAT(message, AnyOf(HasSubstr("failed: NCCL: unhandled system error"),
                                   HasSubstr("failed: NCCL: remote process exited")));
      },
      20s);
  fake_nccl::plant_failure(-1, 0);
}

TEST(NcclFailure, ARankThatDoesNotConnectIsNamed) {
  Countdown failed(1);
  run_three([&](World& world, const Group&) {
    if (world.rank() == 0) return failed.wait();
    if (world.rank() == 2) return;
    EXPECT_THAT(failure_of([&] {
                  world.group("tp", {0, 1});
                }),
                AllOf(StartsWith("rank 1 of 2 on axis \"tp\": its connection over NCCL timed out "
                                 "after 1s"),
                      HasSubstr("rank 0")));
    failed.count_down();
  });
}

}  // namespace
}  // namespace colossal::comm
