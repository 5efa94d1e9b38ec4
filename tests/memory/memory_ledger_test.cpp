#include "colossal/memory/memory_ledger.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <thread>
#include <utility>

#include "colossal/base/cpu_features.h"
#include "colossal/base/machine.h"
#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/memory/memory_count.h"
#include "colossal/memory/saved_tensors.h"
#include "colossal/ops/product/libtorch_product.h"
#include "tests/support/run_ranks.h"

namespace colossal::memory {
namespace {

at::Tensor bytes_on(at::DeviceType device, int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

class MemoryLedgerTest : public testing::TestWithParam<at::DeviceType> {
 protected:
  MemoryLedgerTest() { install_allocators(); }
  at::Tensor bytes(int64_t size) const { return bytes_on(GetParam(), size); }
};

TEST_P(MemoryLedgerTest, CountsWhatIsAliveAndThePeak) {
  MemoryLedger ledger;
  ledger.keep_timeline();
  {
    const MemoryScope scope(ledger, GetParam());
    at::Tensor a = bytes(1000);
    {
      const MemoryKindScope kind(MemoryKind::gradients);
      const at::Tensor b = bytes(500);
      EXPECT_EQ(ledger.live()[MemoryKind::gradients], 500);
    }
    a = bytes(200);  // the old tensor exists until the assignment ends
    EXPECT_EQ(ledger.live().total(), 200);
  }
  EXPECT_EQ(ledger.live().total(), 0);
  EXPECT_EQ(ledger.at_peak().total(), 1500);
  EXPECT_EQ(ledger.at_peak()[MemoryKind::gradients], 500);
  std::vector<int64_t> changes;
  for (const MemoryChange& change : ledger.take_timeline()) changes.push_back(change.bytes);
  EXPECT_EQ(changes, (std::vector<int64_t>{1000, 500, -500, 200, -1000, -200}));
}

TEST_P(MemoryLedgerTest, CountsAThreadThatWorksForItsOwn) {
  MemoryLedger ledger;
  const MemoryScope scope(ledger, GetParam());
  at::Tensor of_another_thread;
  std::thread([&, counting = CountingContext()] {
    const MemoryScope counted(counting);
    of_another_thread = bytes(100);
  }).join();
  EXPECT_EQ(ledger.live().total(), 100);
  of_another_thread.reset();
  EXPECT_EQ(ledger.live().total(), 0);
}

TEST_P(MemoryLedgerTest, CountsItsOwnDeviceAndThreadOnly) {
  MemoryLedger ledger;
  const MemoryScope scope(ledger, GetParam());
  const at::Tensor elsewhere = bytes_on(GetParam() == at::kCPU ? at::kMeta : at::kCPU, 100);
  at::Tensor of_another_thread;
  std::thread([&] { of_another_thread = bytes(100); }).join();
  EXPECT_EQ(ledger.live().total(), 0);
  MemoryLedger inner;
  {
    const MemoryScope innermost(inner, GetParam());
    const at::Tensor counted_there = bytes(100);
    EXPECT_EQ(inner.live().total(), 100);
  }
  const at::Tensor counted_here = bytes(100);
  EXPECT_EQ(ledger.live().total(), 100);
  EXPECT_EQ(ledger.at_peak().total(), 100);
}

TEST_P(MemoryLedgerTest, BlocksMayOutliveItAndGoInAnyThread) {
  at::Tensor kept;
  {
    MemoryLedger ledger;
    at::Tensor released_elsewhere;
    {
      const MemoryScope scope(ledger, GetParam());
      kept = bytes(100);
      released_elsewhere = bytes(50);
    }
    std::thread([&] { released_elsewhere.reset(); }).join();
    EXPECT_EQ(ledger.live().total(), 100);
  }
  kept.reset();
}

TEST_P(MemoryLedgerTest, MarksChangeKindsOneWay) {
  MemoryLedger ledger;
  const MemoryScope scope(ledger, GetParam());
  const at::Tensor result = bytes(100);
  at::Tensor weight;
  {
    const MemoryKindScope kind(MemoryKind::parameters);
    weight = bytes(10);
  }
  ledger.mark(weight.storage(), MemoryKind::activations);
  EXPECT_EQ(ledger.live()[MemoryKind::parameters], 10);
  ledger.mark(result.storage(), MemoryKind::communication);
  EXPECT_EQ(ledger.live()[MemoryKind::communication], 100);
  ledger.mark(result.view({10, 10}).storage(), MemoryKind::activations);
  ledger.mark(result.storage(), MemoryKind::communication);
  EXPECT_EQ(ledger.live()[MemoryKind::activations], 100);
  EXPECT_EQ(ledger.live().total(), 110);
  MemoryLedger other;
  other.mark(result.storage(), MemoryKind::gradients);
  EXPECT_EQ(ledger.live()[MemoryKind::activations], 100);
}

TEST_P(MemoryLedgerTest, KeepsATimelineWhereAsked) {
  MemoryLedger ledger;
  const MemoryScope scope(ledger, GetParam());
  const at::Tensor before = bytes(10);
  ledger.keep_timeline();
  const auto begin = std::chrono::steady_clock::now();
  const at::Tensor during = bytes(20);
  ledger.mark(during.storage(), MemoryKind::activations);
  const std::vector<MemoryChange> timeline = ledger.take_timeline();
  const at::Tensor after = bytes(30);
  ASSERT_EQ(timeline.size(), 3u);
  EXPECT_EQ(timeline[1].bytes, -20);
  EXPECT_EQ(timeline[2].kind, MemoryKind::activations);
  EXPECT_LE(begin, timeline[0].time);
  EXPECT_LT(timeline[0].time, timeline[1].time);
  EXPECT_EQ(timeline[1].time, timeline[2].time);
  EXPECT_TRUE(ledger.take_timeline().empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryLedgerTest, testing::Values(at::kCPU, at::kMeta));

// Kernels load whole cache lines. A later tensor may get the memory of an earlier one.
TEST(MemoryLedger, GivesAlignedMemory) {
  install_allocators();
  MemoryLedger ledger;
  const MemoryScope scope(ledger, at::kCPU);
  for (const int64_t size : {1, 63, 64, 1000, 100'000, 50'000'000}) {
    const at::Tensor tensor = bytes_on(at::kCPU, size).fill_(7);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0u) << size;
    EXPECT_EQ(tensor.sum().item<int64_t>(), 7 * size);
  }
  EXPECT_THROW(bytes_on(at::kCPU, int64_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(ledger.live().total(), 0);
}

// oneDNN allocates its scratch in this way, counted, and may free it where nothing is counted.
TEST(MemoryLedger, BareAddressesAreCountedAndReleased) {
  install_allocators();
  c10::Allocator* const allocator = c10::GetAllocator(at::kCPU);
  const MemoryLedger ledger;
  void* counted = nullptr;
  void* const uncounted = allocator->raw_allocate(100);
  {
    const MemoryScope scope(ledger, at::kCPU);
    counted = allocator->raw_allocate(1000);
    allocator->raw_deallocate(uncounted);
    EXPECT_EQ(ledger.live().total(), 1000);
  }
  allocator->raw_deallocate(counted);
  EXPECT_EQ(ledger.live().total(), 0);
}

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Users of the library need not count memory to avoid new pages for each step's gradients.
TEST(MemoryLedger, LargeBlocksKeepTheirPagesAlsoWhereNobodyCounts) {
  install_allocators();
  constexpr int64_t kMiB = int64_t{1} << 20;
  const void* const freed = bytes_on(at::kCPU, 64 * kMiB).fill_(1).const_data_ptr();
  const int64_t before = page_faults();
  const at::Tensor next = bytes_on(at::kCPU, 64 * kMiB).fill_(1);
  EXPECT_EQ(next.const_data_ptr(), freed);
  EXPECT_LT(page_faults() - before, 100);
  count_as(next.storage().data_ptr(), MemoryKind::gradients);
}

// A large block that was freed is kept for the next one of its size. If another size is allocated,
// kept blocks must not add to the peak, even if small blocks were allocated behind them.
TEST(MemoryLedger, LargeBlocksTakeNoMoreThanAtTheirPeak) {
  install_allocators();
  constexpr int64_t kMiB = int64_t{1} << 20;
  const MemoryLedger ledger;
  const MemoryScope scope(ledger, at::kCPU);
  const auto touched = [](int64_t size) { return bytes_on(at::kCPU, size).fill_(1); };
  // More than the process has had at once, so that freed blocks may be kept. Untouched pages take
  // no memory.
  const at::Tensor untouched = bytes_on(at::kCPU, 4096 * kMiB);
  std::vector<at::Tensor> small;
  const void* freed = nullptr;
  const int64_t before = machine::resident_bytes();
  {
    const at::Tensor block = touched(64 * kMiB);
    small.push_back(touched(1000));
    freed = block.const_data_ptr();
  }
  EXPECT_EQ(touched(64 * kMiB).const_data_ptr(), freed);
  for (int64_t size = 63 * kMiB; size > 56 * kMiB; size -= kMiB) {
    const at::Tensor block = touched(size);
    small.push_back(touched(1000));
    EXPECT_LT(machine::resident_bytes() - before, 66 * kMiB) << size;
  }
}

// A new block of another size gets the pages of kept blocks, not new ones to clear.
TEST(MemoryLedger, PagesMoveToBlocksOfOtherSizes) {
  install_allocators();
  constexpr int64_t kMiB = int64_t{1} << 20;
  const MemoryLedger ledger;
  const MemoryScope scope(ledger, at::kCPU);
  const auto touched = [](int64_t size, int value) {
    return bytes_on(at::kCPU, size).fill_(value);
  };
  // More than the process has had at once, so that freed blocks may be kept. Untouched pages take
  // no memory.
  const at::Tensor untouched = bytes_on(at::kCPU, 8192 * kMiB);
  { const std::array blocks{touched(100 * kMiB, 1), touched(50 * kMiB, 2), touched(70 * kMiB, 3)}; }
  const int64_t before = page_faults(), resident = machine::resident_bytes();
  std::mt19937 random(1);
  std::deque<std::pair<at::Tensor, int>> blocks;
  int64_t bytes = 0;
  for (int i = 0; i < 400; ++i) {
    const auto size = static_cast<int64_t>(4 * kMiB + random() % (40 * kMiB));
    while (bytes + size > 200 * kMiB) {
      const auto& [block, value] = blocks[random() % 2];
      // Nothing else has written there.
      ASSERT_EQ(block.min().item<int>(), value);
      ASSERT_EQ(block.max().item<int>(), value);
      bytes -= block.numel();
      blocks.erase(blocks.begin() + (&block == &blocks[0].first ? 0 : 1));
    }
    blocks.emplace_back(touched(size, i % 100), i % 100);
    bytes += size;
    ASSERT_LT(machine::resident_bytes() - resident, 10 * kMiB);
  }
  // 9 GiB were touched.
  EXPECT_LT((page_faults() - before) * int64_t{4096}, 400 * kMiB);
}

// The most that a product takes beside its operands and its result, all in bf16.
int64_t scratch_of_product(at::DeviceType device, at::IntArrayRef sizes, bool a_transposed,
                           bool b_transposed, bool add) {
  const int64_t rows = sizes[0], depth = sizes[1], columns = sizes[2];
  const auto matrix = [&](int64_t height, int64_t width, bool transposed) {
    const auto options = at::TensorOptions().dtype(at::kBFloat16).device(device);
    return transposed ? at::zeros({width, height}, options).t()
                      : at::zeros({height, width}, options);
  };
  const at::Tensor a = matrix(rows, depth, a_transposed), b = matrix(depth, columns, b_transposed);
  const at::Tensor result = matrix(rows, columns, false);
  const MemoryLedger ledger;
  const MemoryScope scope(ledger, device);
  add ? ops::add_libtorch_product(result, a, b) : ops::libtorch_product_out(result, a, b);
  return ledger.at_peak().total();
}

TEST(MemoryLedger, CountsTheScratchOfLibTorchsProductsOnMetaAsOnTheCpu) {
  install_allocators();
  at::set_num_threads(1);
  int64_t most = 0;
  for (const auto& sizes : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {33, 36, 50}, {50, 33, 36}, {7, 200, 64}, {130, 64, 97}, {96, 512, 300}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        for (const bool add : {false, true}) {
          const auto on = [&](at::DeviceType device) {
            return scratch_of_product(device, sizes, a_transposed, b_transposed, add);
          };
          const int64_t real = on(at::kCPU);
          EXPECT_EQ(on(at::kMeta), real)
              << fmt::format("{} {}{}{}", fmt::join(sizes, " x "), a_transposed, b_transposed, add);
          most = std::max(most, real);
        }
      }
    }
  }
  EXPECT_TRUE(!has_amx_bf16() || most > 4096) << most;
}

// Memory that ranks share counts as a rank's own. A dry run counts the same.
TEST(MemoryCount, CountsSharedTensors) {
  const auto count_in = [](comm::World& world, c10::DeviceType device) {
    const comm::Group group = world.group("dp", {0, 1});
    MemoryCount count(world.ledger(), device);
    {
      const MemoryKindScope kind(MemoryKind::gradients);
      at::Tensor tensor =
          comm::shared_empty(1001, at::TensorOptions(at::kFloat).device(device), group);
      EXPECT_EQ(count.ledger().live()[MemoryKind::gradients], 4004);
    }
    EXPECT_EQ(count.ledger().live().total(), 0);
    EXPECT_EQ(count.ledger().at_peak().total(), 4004);
  };
  test::run_ranks_over("shm", 2, [&](comm::World& world) { count_in(world, at::kCPU); });
  count_in(*comm::dry_world(0, 2), at::kMeta);
}

TEST(MemoryCount, KnowsWhatAutogradKeepsAndCollectivesTouch) {
  const auto world = comm::dry_world(0, 2);
  at::Tensor sum;
  {
    MemoryCount count(world->ledger(), at::kCPU);
    const comm::Group all = world->group("dp", {0, 1});
    const at::Tensor x = at::ones({100}).requires_grad_();
    sum = x.exp().sum();
    EXPECT_EQ(count.ledger().live()[MemoryKind::activations], 400);
    const at::Tensor buffer = at::ones({50});
    comm::all_reduce(buffer, all, comm::Reason::gradient);
    EXPECT_EQ(count.ledger().live()[MemoryKind::communication], 200);
  }
  EXPECT_EQ(world->ledger().listener(), nullptr);
  const at::Tensor unseen = sum * sum;
}

TEST(SavedTensors, AreSeenByTheInnermostWatch) {
  const at::Tensor x = at::ones({3}).requires_grad_();
  int outer = 0, inner = 0;
  at::Tensor y, z;
  {
    const SavedTensorObserver watching([&](const at::Tensor&) { ++outer; });
    y = x * x;
    EXPECT_EQ(outer, 2);
    const SavedTensorObserver closer([&](const at::Tensor&) { ++inner; });
    z = y.exp();
  }
  const at::Tensor unseen = x * x;
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
  z.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), 2 * at::ones({3}) * std::exp(1.0)));
}

TEST(SavedTensors, GoWithAGraphThatIsDropped) {
  const at::Tensor x = at::ones({3}).requires_grad_();
  const SavedTensorObserver watching([](const at::Tensor&) {});
  at::Tensor y = x.exp();  // the node of exp() saves its result
  const c10::weak_intrusive_ptr<c10::StorageImpl> memory(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(y.storage().unsafeGetStorageImpl()));
  y.reset();
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace colossal::memory
