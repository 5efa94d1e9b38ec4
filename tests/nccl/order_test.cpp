// In which order calls run over NCCL, among each other and beside what the GPU computes: the
// emulated GPU finds a missing event whenever its kernels run, and the fake NCCL finds the
// deadlocks of a GPU that has no room for one more kernel that waits.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/group.h"
#include "tests/comm/settings.h"
#include "tests/support/countdown.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/host_waits.h"
#include "tests/support/emulated_gpu/mistakes.h"
#include "tests/support/fake_nccl/kernel.h"

namespace colossal::comm {
namespace {

using namespace std::chrono_literals;
using emulated_gpu::MistakeRecorder;
using test::Countdown;
using testing::Contains;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;

at::Tensor full(const Group& group, int64_t numel, double value) {
  return at::full({numel}, value, at::TensorOptions(at::kFloat).device(group.device()));
}

// All in flight at once; the host waits for nothing before the end.
TEST(NcclOrder, ComputationAndCallsFollowEachOtherWithoutTheHost) {
  const MistakeRecorder recorder;
  run({"nccl", 4}, [](World&, const Group& group) {
    Countdown launched(1);
    emulated_gpu::launch_on_current(
        {.name = "a kernel that takes long", .run = [&] { launched.wait(); }});
    at::Tensor tensor = full(group, 5000, 1);
    for (int round = 0; round < 5; ++round) {
      all_reduce(tensor, group, Reason::gradient);
      tensor = tensor / 2;  // the sum of 4 ranks, halved: twice what it was
    }
    Work work = all_reduce_async(tensor, group, Reason::gradient);
    const at::Tensor beside = full(group, 5000, 3) * 2;
    work.wait();
    const at::Tensor sum = tensor + beside;
    launched.count_down();  // what is above has waited for nothing
    EXPECT_TRUE(same(sum, at::full({5000}, 4. * 32 + 6)));
  });
  EXPECT_THAT(recorder.mistakes(), IsEmpty());
}

// The caller's tensors are freed while the call is in flight: their memory must not be used again
// before the call has ended.
TEST(NcclOrder, TensorsLiveAsLongAsTheirCalls) {
  const MistakeRecorder recorder;
  run({"nccl", 2}, [](World&, const Group& group) {
    at::Tensor last;
    for (int round = 0; round < 20; ++round) {
      Work unwaited = all_reduce_async(full(group, 3000, 1), group, Reason::gradient);
      const at::Tensor other = full(group, 3000, 2);
      last = full(group, 3000, round);
      all_reduce_async(last, group, Reason::gradient).wait();
    }
    EXPECT_TRUE(same(last, at::full({3000}, 38.)));
  });
  EXPECT_THAT(recorder.mistakes(), IsEmpty());
}

// Shows that the tests above can fail.
TEST(NcclOrder, ReadingAResultBeforeItIsWaitedForIsFound) {
  const MistakeRecorder recorder;
  run({"nccl", 2}, [](World&, const Group& group) {
    const at::Tensor tensor = full(group, 3000, 1);
    Work work = all_reduce_async(tensor, group, Reason::gradient);
    const at::Tensor early = tensor + 1;
    work.wait();
    early.cpu();
  });
  EXPECT_THAT(recorder.mistakes(), Contains(HasSubstr("NCCL")));
}

// Of two groups, whose kernels wait for each other if a GPU runs them in another order than its
// peer. `slots`: room of each GPU.
std::string run_two_groups(bool in_one_order, int slots) {
  fake_nccl::set_resident_kernels(slots);
  std::string failure;
  try {
    run(
        {"nccl", 2},
        [&](World& world, const Group& first) {
          const Group second = world.group("tp", {0, 1});
          Countdown never(1);
          for (int round = 0; round < 10; ++round) {
            const at::Tensor a = full(first, 100'000, 1), b = full(first, 100'000, 2);
            const bool swapped = !in_one_order && world.rank() == 1;
            Work of_a, of_b;
            if (swapped) of_b = all_reduce_async(b, second, Reason::tensor);
            of_a = all_reduce_async(a, first, Reason::gradient);
            if (!swapped) of_b = all_reduce_async(b, second, Reason::tensor);
            of_b.wait();
            of_a.wait();
            const at::Tensor sum = on_host(a + b, first);
            EXPECT_TRUE(same(sum, at::full({100'000}, 6.)));
          }
        },
        2s);
  } catch (const CommError& error) {
    failure = error.what();
  }
  fake_nccl::set_resident_kernels(16);
  return failure;
}

TEST(NcclOrder, CallsOfTwoGroupsInOneOrderNeedRoomForOneKernel) {
  EXPECT_EQ(run_two_groups(/*in_one_order=*/true, 1), "");
}

TEST(NcclOrder, CallsOfTwoGroupsInDifferentOrdersNeedRoomForBoth) {
  EXPECT_EQ(run_two_groups(/*in_one_order=*/false, 2), "");
}

// The mistake that the order of launches forbids. It does not hang: it is told who waits for whom.
TEST(NcclOrder, CallsInDifferentOrdersWithoutRoomForBothAreTold) {
  EXPECT_THAT(run_two_groups(/*in_one_order=*/false, 1),
              ContainsRegex("timed out after 2s: all ranks have come, but NCCL does not end the "
                            "call: calls of other groups may take its room"));
}

// A receive that is posted early holds no part of the GPU: it is launched when it is waited for.
TEST(NcclOrder, ReceivesWaitOnTheHostUntilTheyAreWanted) {
  fake_nccl::set_resident_kernels(1);
  run(
      {"nccl", 2},
      [](World& world, const Group& forward) {
        const Group backward = world.group("tp", {0, 1});
        const at::Tensor sent = full(forward, 70'000, 5), received = full(forward, 70'000, 0);
        if (world.rank() == 0) {
          Work answer = receive_async(received, 1, backward, Reason::stage);
          send(sent, 1, forward, Reason::stage);
          answer.wait();
        } else {
          Work question = receive_async(received, 0, forward, Reason::stage);
          const at::Tensor computed = sent * 2;
          question.wait();
          send(received + computed, 0, backward, Reason::stage);
        }
        EXPECT_TRUE(
            same(on_host(received, forward), at::full({70'000}, world.rank() == 0 ? 15. : 5.)));
      },
      10s);
  fake_nccl::set_resident_kernels(16);
}

// Later calls of the group find the receives before them.
TEST(NcclOrder, ReceivesKeepTheirPlaceAmongTheCallsOfTheirGroup) {
  run({"nccl", 2}, [](World&, const Group& group) {
    const at::Tensor first = full(group, 10, 1), second = full(group, 10, 2);
    const at::Tensor sum = full(group, 10, 1);
    if (group.rank() == 0) {
      send(first, 1, group, Reason::stage);
      send(second, 1, group, Reason::stage);
      all_reduce(sum, group, Reason::gradient);
      return;
    }
    const at::Tensor a = full(group, 10, 0), b = full(group, 10, 0);
    Work of_a = receive_async(a, 0, group, Reason::stage);
    Work of_b = receive_async(b, 0, group, Reason::stage);
    all_reduce(sum, group, Reason::gradient);
    of_b.wait();
    of_a.wait();
    EXPECT_TRUE(same(a, at::full({10}, 1.)));
    EXPECT_TRUE(same(b, at::full({10}, 2.)));
    EXPECT_TRUE(same(sum, at::full({10}, 2.)));
  });
}

}  // namespace
}  // namespace colossal::comm
