// Mistakes in the use of a GPU: each is found, whenever kernels run; and correct programs that
// resemble them are not blamed.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/emulated_gpu/mistakes.h"

namespace colossal::emulated_gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSize = 5000;

c10::Device gpu(int index = 0) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}
const c10::impl::VirtualGuardImpl& device() {
  static const c10::impl::VirtualGuardImpl made(c10::kCUDA);
  return made;
}
c10::Stream side_stream() {
  return device().getStreamFromGlobalPool(gpu());
}
c10::Stream main_stream() {
  return device().getStream(gpu());
}
at::TensorOptions on_gpu(int index = 0) {
  return at::TensorOptions().dtype(at::kFloat).device(gpu(index));
}
at::Tensor pinned(double value) {
  return at::full({kSize}, value, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
}
void synchronize() {
  device().synchronizeDevice(0);
}

// Makes `later` wait for what was launched on `earlier`.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(c10::kCUDA);
  event.record(earlier);
  event.block(later);
}

template <class Function>
auto on(const c10::Stream& stream, Function function) {
  const c10::StreamGuard guard(stream);
  return function();
}

class PlantedMistakes : public testing::Test {
 protected:
  ~PlantedMistakes() override { synchronize(); }

  void expect_mistake(const std::string& part) {
    const std::vector<std::string> found = recorder_.mistakes();
    ASSERT_FALSE(found.empty());
    EXPECT_THAT(found.front(), HasSubstr(part));
  }
  void expect_none() { EXPECT_THAT(recorder_.mistakes(), IsEmpty()); }

 private:
  MistakeRecorder recorder_;
};

TEST_F(PlantedMistakes, ResultReadOnAnotherStreamWithoutAnEvent) {
  const at::Tensor x = at::ones({kSize}, on_gpu());
  const at::Tensor y = on(side_stream(), [&] { return x + 1; });
  expect_mistake("aten::add on stream");
}

TEST_F(PlantedMistakes, OverwrittenWhileAnotherStreamReads) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::ones({kSize}, on_gpu());
  order(main_stream(), side);
  const at::Tensor y = on(side, [&] { return x + 1; });
  x.zero_();
  expect_mistake("aten::zero_ on stream");
}

TEST_F(PlantedMistakes, TwoStreamsWriteTheSame) {
  const at::Tensor x = at::empty({kSize}, on_gpu());
  synchronize();
  x.fill_(1);
  on(side_stream(), [&] { return x.fill_(2); });
  expect_mistake("writes memory that aten::fill_");
}

TEST_F(PlantedMistakes, EventRecordedTooEarly) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  order(main_stream(), side);
  x.add_(1);
  const at::Tensor y = on(side, [&] { return x * 2; });
  expect_mistake("aten::mul");
}

TEST_F(PlantedMistakes, EventThatAnotherStreamWaitsFor) {
  const c10::Stream side = side_stream(), other = side_stream();
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  order(main_stream(), other);
  const at::Tensor y = on(side, [&] { return x * 2; });
  expect_mistake("aten::mul");
}

TEST_F(PlantedMistakes, StreamsThatWaitInTheWrongDirection) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  order(side, main_stream());
  const at::Tensor y = on(side, [&] { return x * 2; });
  expect_mistake("aten::mul");
}

TEST_F(PlantedMistakes, EventThatIsRecordedButNotWaitedFor) {
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  c10::Event event(c10::kCUDA);
  event.record(main_stream());
  const at::Tensor y = on(side_stream(), [&] { return x * 2; });
  expect_mistake("aten::mul");
}

TEST_F(PlantedMistakes, HostThatWaitsForTheWrongStream) {
  const c10::Stream other = side_stream();
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  device().synchronizeStream(other);
  const at::Tensor y = on(side_stream(), [&] { return x * 2; });
  expect_mistake("aten::mul");
}

TEST_F(PlantedMistakes, FreedWhileAnotherStreamReads) {
  const c10::Stream side = side_stream();
  at::Tensor x = at::ones({kSize}, on_gpu());
  order(main_stream(), side);
  const at::Tensor y = on(side, [&] { return x * 2; });
  x.reset();
  expect_mistake("the end of a tensor's life");
}

TEST_F(PlantedMistakes, AllocatedOnAnotherStreamThanTheOneThatWrites) {
  const c10::Stream side = side_stream();
  // As for a received message: the memory may have been read just now on the main stream.
  { const at::Tensor before = at::ones({kSize}, on_gpu()) * 3; }
  const at::Tensor received = at::empty({kSize}, on_gpu());
  on(side, [&] { return received.fill_(1); });
  expect_mistake("aten::fill_");
}

TEST_F(PlantedMistakes, PrefetchIntoABufferThatIsStillRead) {
  const c10::Stream side = side_stream();
  const at::Tensor source = pinned(1);
  const at::Tensor buffer = at::zeros({kSize}, on_gpu());
  order(main_stream(), side);
  on(side, [&] { return buffer.copy_(source, /*non_blocking=*/true); });
  order(side, main_stream());
  const at::Tensor used = buffer * 2;
  on(side, [&] { return buffer.copy_(source, /*non_blocking=*/true); });
  expect_mistake("copy from the host");
}

TEST_F(PlantedMistakes, GradientThatIsReducedWhileItIsAccumulated) {
  const c10::Stream side = side_stream();
  const at::Tensor gradient = at::zeros({kSize}, on_gpu());
  gradient.add_(1);
  order(main_stream(), side);
  on(side, [&] { return gradient.div_(2); });
  gradient.add_(1);
  expect_mistake("aten::add");
}

TEST_F(PlantedMistakes, RowsOfATensorThatTwoStreamsShare) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({10, 100}, on_gpu());
  synchronize();
  x.narrow(0, 0, 6).fill_(1);
  on(side, [&] { return x.narrow(0, 5, 5).fill_(2); });
  expect_mistake("aten::fill_");
}

TEST_F(PlantedMistakes, ColumnsOfATensorThatTwoStreamsShare) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({10, 100}, on_gpu());
  synchronize();
  x.narrow(1, 0, 51).fill_(1);
  on(side, [&] { return x.narrow(1, 50, 50).fill_(2); });
  expect_mistake("aten::fill_");
}

TEST_F(PlantedMistakes, NumberReadOnAnotherStream) {
  const at::Tensor x = at::ones({1}, on_gpu());
  on(side_stream(), [&] { return x.item(); });
  expect_mistake("item");
}

TEST_F(PlantedMistakes, CopyToTheHostOnAnotherStream) {
  const at::Tensor x = at::ones({kSize}, on_gpu());
  on(side_stream(), [&] { return x.cpu(); });
  expect_mistake("copy to the host");
}

TEST_F(PlantedMistakes, PinnedBufferThatTwoStreamsWrite) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::ones({kSize}, on_gpu()), y = at::ones({kSize}, on_gpu());
  const at::Tensor buffer = pinned(0);
  synchronize();
  buffer.copy_(x, /*non_blocking=*/true);
  on(side, [&] { return buffer.copy_(y, /*non_blocking=*/true); });
  expect_mistake("copy to the host");
}

TEST_F(PlantedMistakes, PinnedBufferSentOnBeforeItCame) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::ones({kSize}, on_gpu()), y = at::ones({kSize}, on_gpu());
  const at::Tensor buffer = pinned(0);
  synchronize();
  buffer.copy_(x, /*non_blocking=*/true);
  on(side, [&] { return y.copy_(buffer, /*non_blocking=*/true); });
  expect_mistake("copy from the host");
}

TEST_F(PlantedMistakes, TensorsOfTheHostAndOfAGpu) {
  const at::Tensor x = at::ones({4}, on_gpu());
  EXPECT_THROW(x + at::ones({4}), c10::Error);
}

TEST_F(PlantedMistakes, TensorsOfTwoGpus) {
  const at::Tensor x = at::ones({4}, on_gpu()), y = at::ones({4}, on_gpu(1));
  EXPECT_THROW(x + y, c10::Error);
}

TEST_F(PlantedMistakes, GpuThatDoesNotExist) {
  EXPECT_THROW(at::ones({4}, on_gpu(7)), c10::Error);
}

TEST_F(PlantedMistakes, MoreMemoryThanThereIs) {
  EXPECT_THROW(at::empty({int64_t{1} << 40}, on_gpu()), c10::Error);
}

TEST_F(PlantedMistakes, DeviceMemoryWrittenToAFile) {
  const at::Tensor x = at::ones({kSize}, on_gpu());
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  EXPECT_EQ(write(pipe_ends[1], x.const_data_ptr(), 100), -1);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(PlantedMistakes, FreedMemoryHasNoUsefulNumbers) {
  const float* address = nullptr;
  {
    const at::Tensor x = at::ones({kSize}, on_gpu());
    address = x.const_data_ptr<float>();
  }
  const at::Tensor same = at::empty({kSize}, on_gpu());
  ASSERT_EQ(same.const_data_ptr<float>(), address);
  EXPECT_TRUE(same.isnan().all().item<bool>());
}

// Mistakes of host code end the process.
class PlantedMistakesOfTheHostDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(PlantedMistakesOfTheHostDeathTest, ReadsDeviceMemory) {
  const auto read = [] {
    const at::Tensor x = at::ones({4}, on_gpu());
    const volatile float value = *x.const_data_ptr<float>();
    (void)value;
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(kExitOfMistake), "host code read device memory");
}

TEST_F(PlantedMistakesOfTheHostDeathTest, WritesDeviceMemory) {
  const auto write = [] {
    const at::Tensor x = at::ones({4}, on_gpu());
    *static_cast<volatile float*>(x.mutable_data_ptr()) = 2;
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(kExitOfMistake), "host code wrote device memory");
}

TEST_F(PlantedMistakesOfTheHostDeathTest, OverwritesWhatACopyStillReads) {
  const auto overwrite = [] {
    const at::Tensor x = at::zeros({kSize}, on_gpu()), source = pinned(1);
    x.copy_(source, /*non_blocking=*/true);
    source.fill_(9);
  };
  EXPECT_EXIT(overwrite(), testing::ExitedWithCode(kExitOfMistake),
              "host code wrote pinned memory");
}

TEST_F(PlantedMistakesOfTheHostDeathTest, ReadsAResultBeforeItCame) {
  const auto read = [] {
    const at::Tensor x = at::zeros({kSize}, on_gpu()), result = pinned(1);
    result.copy_(x, /*non_blocking=*/true);
    result.sum();
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(kExitOfMistake), "host code read pinned memory");
}

TEST_F(PlantedMistakesOfTheHostDeathTest, IsToldOfMistakesWithTheCallers) {
  const auto read = [] {
    const at::Tensor x = at::ones({kSize}, on_gpu());
    const at::Tensor y = on(side_stream(), [&] { return x + 1; });
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(kExitOfMistake), "no event or wait is between");
}

using CorrectPrograms = PlantedMistakes;

TEST_F(CorrectPrograms, WaitForEvents) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({kSize}, on_gpu());
  for (int i = 0; i < 20; ++i) x.add_(1);
  order(main_stream(), side);
  const at::Tensor y = on(side, [&] { return x * 2; });
  order(side, main_stream());
  x.zero_();
  EXPECT_EQ((y + x).sum().item<double>(), 40.0 * kSize);
  expect_none();
}

TEST_F(CorrectPrograms, RecordTheStreamsThatUseATensor) {
  const c10::Stream side = side_stream();
  at::Tensor x = at::ones({kSize}, on_gpu());
  order(main_stream(), side);
  const at::Tensor y = on(side, [&] { return x * 2; });
  x.record_stream(side);
  x.reset();
  const at::Tensor other = at::full({kSize}, 7, on_gpu());
  order(side, main_stream());
  EXPECT_TRUE(y.eq(2).all().item<bool>());
  expect_none();
}

TEST_F(CorrectPrograms, ReadOnTwoStreams) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::ones({kSize}, on_gpu());
  order(main_stream(), side);
  const at::Tensor y = on(side, [&] { return x * 2; });
  const at::Tensor z = x * 3;
  order(side, main_stream());
  EXPECT_EQ((y + z).sum().item<double>(), 5.0 * kSize);
  expect_none();
}

TEST_F(CorrectPrograms, DivideRowsAndColumnsOfATensor) {
  const c10::Stream side = side_stream();
  const at::Tensor x = at::zeros({10, 100}, on_gpu());
  synchronize();
  x.narrow(0, 0, 5).fill_(1);
  on(side, [&] { return x.narrow(0, 5, 5).fill_(1); });
  synchronize();
  x.narrow(1, 0, 50).fill_(1);
  on(side, [&] { return x.narrow(1, 50, 50).fill_(2); });
  order(side, main_stream());
  EXPECT_EQ(x.sum().item<double>(), 1500);
  expect_none();
}

TEST_F(CorrectPrograms, WaitOnTheHost) {
  const at::Tensor x = at::ones({kSize}, on_gpu());
  c10::Event event(c10::kCUDA);
  event.record(main_stream());
  event.synchronize();
  const at::Tensor y = on(side_stream(), [&] { return x * 2; });
  synchronize();
  EXPECT_EQ(y.sum().item<double>(), 2.0 * kSize);
  expect_none();
}

TEST_F(CorrectPrograms, UsePinnedMemoryAfterItsCopy) {
  const at::Tensor x = at::zeros({kSize}, on_gpu()), buffer = pinned(1);
  x.copy_(buffer, /*non_blocking=*/true);
  EXPECT_EQ(buffer.sum().item<double>(), kSize);  // both read it
  c10::Event event(c10::kCUDA);
  event.record(main_stream());
  event.synchronize();
  buffer.fill_(5);
  buffer.copy_(x, /*non_blocking=*/true);
  device().synchronizeStream(main_stream());
  EXPECT_EQ(buffer.sum().item<double>(), kSize);
  expect_none();
}

TEST_F(CorrectPrograms, DifferentiateOnTheThreadOfTheDevice) {
  const at::Tensor x = at::randn({40, 40}, on_gpu()).requires_grad_(true);
  (x.matmul(x) * 2).relu().sum().backward();
  const at::Tensor of_host = x.detach().cpu().requires_grad_(true);
  (of_host.matmul(of_host) * 2).relu().sum().backward();
  EXPECT_TRUE(x.grad().cpu().allclose(of_host.grad()));
  expect_none();
}

TEST_F(CorrectPrograms, CopyBetweenGpus) {
  const at::Tensor x = at::full({kSize}, 3, on_gpu());
  EXPECT_EQ(x.to(gpu(1)).sum().item<double>(), 3.0 * kSize);
  expect_none();
}

}  // namespace
}  // namespace colossal::emulated_gpu
