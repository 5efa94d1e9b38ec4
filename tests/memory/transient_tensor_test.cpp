#include "colossal/memory/transient_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::memory {
namespace {

TEST(TransientTensor, HasMemoryOnlyWhileItIsHere) {
  install_allocators();
  MemoryLedger ledger;
  const MemoryScope scope{ledger, at::kMeta};
  TransientTensor tensor(1000, at::kByte, at::kMeta, MemoryKind::gathered);
  EXPECT_FALSE(tensor.here());
  EXPECT_EQ(ledger.live().total(), 0);
  for (int i = 0; i < 2; ++i) tensor.take();
  EXPECT_TRUE(tensor.here());
  EXPECT_EQ(ledger.live()[MemoryKind::gathered], 1000);
  EXPECT_EQ(ledger.live().total(), 1000);
  for (int i = 0; i < 2; ++i) tensor.give();
  EXPECT_EQ(ledger.live().total(), 0);
}

TEST(TransientTensor, ViewsFollowTheMemory) {
  TransientTensor tensor(8, at::kByte, at::kCPU, MemoryKind::gathered);
  tensor.take();
  const at::Tensor view = tensor.tensor().narrow(0, 4, 4);
  tensor.give();
  tensor.take();
  tensor.tensor().fill_(7);
  EXPECT_EQ(view.sum().item<int64_t>(), 28);
}

TEST(TransientTensor, IsNotReadWithoutMemory) {
  TransientTensor tensor(8, at::kFloat, at::kCPU, MemoryKind::gathered);
  tensor.take();
  const at::Tensor view = tensor.tensor().narrow(0, 4, 4);
  view.zero_();
  tensor.give();
  for (const at::Tensor& absent : {tensor.tensor(), view}) {
    try {
      absent.sum();
      FAIL() << "it was read";
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  testing::HasSubstr("gathered of 8 elements are not on this device now"));
    }
    EXPECT_THROW(absent.zero_(), c10::Error);
    EXPECT_THROW(absent.clone(), c10::Error);
  }
  tensor.take();
  EXPECT_EQ(view.fill_(2).sum().item<double>(), 8);
}

TEST(TransientTensor, TakesTheMemoryOfAnotherOfItsSize) {
  install_allocators();
  MemoryLedger ledger;
  const MemoryScope scope{ledger, at::kCPU};
  TransientTensor tensor(64, at::kByte, at::kCPU, MemoryKind::gradients);
  const at::Tensor larger = at::full({65}, 3, at::kByte), same = at::full({64}, 7, at::kByte);
  const void* const memory = same.const_data_ptr();
  EXPECT_FALSE(tensor.take_from(larger.storage()));
  EXPECT_TRUE(tensor.take_from(same.storage()));
  EXPECT_EQ(tensor.tensor().const_data_ptr(), memory);
  EXPECT_EQ(tensor.tensor().sum().item<int64_t>(), 64 * 7);
  EXPECT_EQ(same.storage().nbytes(), 0);
  EXPECT_EQ(ledger.live()[MemoryKind::gradients], 64);
  EXPECT_EQ(ledger.live()[MemoryKind::other], 65);
  EXPECT_FALSE(tensor.take_from(at::full({64}, 9, at::kByte).storage())) << "it is here";
  tensor.give();
  EXPECT_EQ(ledger.live().total(), 65);
}

}  // namespace
}  // namespace colossal::memory
