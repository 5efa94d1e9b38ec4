// NCCL with a communicator of one rank: the functions are found, and its calls run in their stream
// on one GPU as they do on many. tests/nccl has the rest.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <chrono>
#include <memory>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/nccl_backend.h"
#include "colossal/comm/nccl_library.h"

namespace colossal::comm {
namespace {

constexpr std::chrono::milliseconds kTimeout{20'000};
const at::Device kGpu(at::kCUDA, 0);

class NcclOfOneRank : public testing::Test {
 protected:
  NcclOfOneRank() {
    nccl::UniqueId id;
    EXPECT_EQ(nccl_functions().get_unique_id(&id), nccl::Result::success);
    backend_ =
        std::make_unique<NcclBackend>(Membership{.axis = "dp", .ranks = {0}},
                                      std::make_shared<Ledger>(), kTimeout, "dp", kGpu, id, watch_);
    backend_->connect();
  }

  at::Tensor numbers(int64_t count) {
    return at::arange(count, at::TensorOptions(at::kFloat).device(kGpu));
  }
  // What `call` has written, read after it on the stream that computes.
  void expect(const at::Tensor& found, const at::Tensor& wanted) {
    backend_->launched().wait();
    EXPECT_TRUE((found + 1).cpu().equal((wanted + 1).cpu()));
    backend_->check_results();
  }
  static Call call(Operation operation, int64_t count) {
    return {.operation = operation, .type = at::kFloat, .bytes = 4 * count};
  }

  std::shared_ptr<NcclWatch> watch_ =
      std::make_shared<NcclWatch>(c10::make_intrusive<c10d::HashStore>(), 0, kTimeout);
  std::unique_ptr<NcclBackend> backend_;
};

TEST_F(NcclOfOneRank, EachCallGivesWhatItWasGiven) {
  constexpr int64_t kCount = 1000;
  const std::vector<int64_t> counts{kCount};
  at::Tensor x = numbers(kCount);
  for (int round = 0; round < 3; ++round) {
    backend_->all_reduce(call(Operation::all_reduce, kCount), x);
    expect(x, numbers(kCount));
    at::Tensor to = at::zeros_like(x);
    backend_->reduce_scatter(call(Operation::reduce_scatter, kCount), x, to, counts);
    expect(to, x);
    backend_->all_gather(call(Operation::all_gather, kCount), x, counts);
    expect(x, numbers(kCount));
    to = at::zeros_like(x);
    backend_->all_to_all(call(Operation::all_to_all, 0), x, counts, to, counts);
    expect(to, x);
    to = at::zeros_like(x);
    backend_->rotate(call(Operation::rotate, 0), x, to);
    expect(to, x);
    backend_->broadcast(call(Operation::broadcast, kCount), x, 0);
    expect(x, numbers(kCount));
  }
}

TEST_F(NcclOfOneRank, CallsFollowWhatTheGpuComputes) {
  at::Tensor x = numbers(100'000);
  for (int round = 0; round < 20; ++round) {
    x = x + 1;
    backend_->all_reduce(call(Operation::all_reduce, x.numel()), x);
    backend_->launched().wait();
    x = x * 1;
  }
  expect(x, numbers(100'000) + 20);
}

TEST_F(NcclOfOneRank, AbortedCallsFail) {
  at::Tensor x = numbers(10);
  backend_->abort("the test ends it");
  EXPECT_ANY_THROW({
    backend_->all_reduce(call(Operation::all_reduce, 10), x);
    backend_->check_results();
  });
}

}  // namespace
}  // namespace colossal::comm
