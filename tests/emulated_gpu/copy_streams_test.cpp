// Copies between a GPU and pinned host memory: they run beside what the GPU computes, in an order
// that is kept.
#include "colossal/memory/copy_streams.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "colossal/memory/host_block.h"
#include "colossal/memory/stored_tensor.h"
#include "tests/support/emulated_gpu/allocators.h"
#include "tests/support/emulated_gpu/mistakes.h"

namespace colossal::memory {
namespace {

using emulated_gpu::MistakeRecorder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSize = 3000;
const at::Device kGpu(at::kCUDA, 0);
const at::TensorOptions kOnGpu = at::TensorOptions(at::kFloat).device(kGpu);

class CopyStreamsTest : public testing::Test {
 protected:
  ~CopyStreamsTest() override { at::zeros({1}, kOnGpu).item<float>(); }

  at::Tensor on_host(double value) {
    at::Tensor made = pools_.host_tensor(kSize, at::kFloat);
    made.fill_(value);
    return made;
  }
  void expect_mistake(const std::string& part) {
    ASSERT_FALSE(recorder_.mistakes().empty());
    EXPECT_THAT(recorder_.mistakes().front(), HasSubstr(part));
  }
  void expect_none() { EXPECT_THAT(recorder_.mistakes(), IsEmpty()); }

  TierPools pools_{kGpu, ""};
  CopyStreams& copies_ = pools_.copies();
  MistakeRecorder recorder_;
};

TEST_F(CopyStreamsTest, HostMemoryOfAGpuIsPinned) {
  EXPECT_TRUE(emulated_gpu::is_pinned(on_host(1).const_data_ptr()));
  EXPECT_TRUE(copies_.are_asynchronous());
  EXPECT_FALSE(CopyStreams(at::kCPU).are_asynchronous());
}

TEST_F(CopyStreamsTest, GoThereAndBack) {
  const at::Tensor from = on_host(3), to = on_host(0), x = at::empty({kSize}, kOnGpu);
  copies_.to_device(x, from).precede_current_stream();
  x.mul_(2);
  copies_.to_host(to, x).wait();
  EXPECT_TRUE(to.eq(6).all().item<bool>());
  expect_none();
}

TEST_F(CopyStreamsTest, ReadingOnTheGpuBeforeTheCopyIsFound) {
  const at::Tensor from = on_host(3), x = at::empty({kSize}, kOnGpu);
  const Copy copy = copies_.to_device(x, from);
  const at::Tensor y = x + 1;
  expect_mistake("aten::add on stream");
  copy.wait();
}

TEST_F(CopyStreamsTest, OverwritingOnTheGpuWhatIsCopiedIsFound) {
  const at::Tensor to = on_host(0), x = at::ones({kSize}, kOnGpu);
  const Copy copy = copies_.to_host(to, x);
  x.zero_();
  expect_mistake("aten::zero_ on stream");
  copy.wait();
}

TEST_F(CopyStreamsTest, KeepsTheHostMemoryUntilTheCopyIsDone) {
  const at::Tensor x = at::empty({kSize}, kOnGpu);
  Copy copy;
  {
    const at::Tensor from = on_host(3);
    copy = copies_.to_device(x, from);
  }
  const at::Tensor other = on_host(4);  // would reuse the memory
  copy.precede_current_stream();
  EXPECT_TRUE(x.cpu().eq(3).all().item<bool>());
  expect_none();
}

TEST_F(CopyStreamsTest, TransfersBetweenTiersAreOrdered) {
  using Access = TierTransfer::Access;
  const Range all{0, kSize};
  for (const auto& [tier, place] :
       {std::pair{Tier::host, Tier::device}, {Tier::device, Tier::host}}) {
    StoredTensor stored(tier, all, at::kFloat, MemoryKind::optimizer, pools_);
    for (int round = 1; round <= 3; ++round) {
      TierTransfer visit(stored, all, place, Access::update, TierTransfer::Counted::yes);
      visit.tensor().add_(round);
      visit.leave();
      visit.finish();
    }
    EXPECT_TRUE(stored.read(all).cpu().eq(6).all().item<bool>()) << tier_name(tier);
  }
  expect_none();
}

TEST_F(CopyStreamsTest, ATransferThatNobodyAskedForIsOrderedToo) {
  const Range all{0, kSize};
  StoredTensor stored(Tier::host, all, at::kFloat, MemoryKind::parameters, pools_);
  for (int round = 0; round < 3; ++round) {  // reuses the memory of the one before
    const TierTransfer visit(stored, all, Tier::device, TierTransfer::Access::read,
                             TierTransfer::Counted::yes);
  }
  const at::Tensor next = at::ones({kSize}, kOnGpu);
  expect_none();
}

TEST(CopyStreamsDeathTest, TheHostReadingBeforeTheCopyIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TierPools pools(kGpu, "");
  const at::Tensor to = pools.host_tensor(kSize, at::kFloat), x = at::ones({kSize}, kOnGpu);
  EXPECT_EXIT(
      {
        const Copy copy = pools.copies().to_host(to, x);
        to.sum();
      },
      testing::ExitedWithCode(emulated_gpu::kExitOfMistake),
      "host code read pinned memory that a copy still uses");
}

}  // namespace
}  // namespace colossal::memory
