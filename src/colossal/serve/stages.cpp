#include "colossal/serve/stages.h"

#include <ATen/ATen.h>

#include <vector>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

using Way = ParallelContext::Way;

constexpr int64_t kMostDims = 3;

// Returns int64 [1 + kMostDims]: dtype << 8 | number of dims, then the sizes, padded with 0.
at::Tensor describe(const at::Tensor& x) {
  COLOSSAL_CHECK(x.dim() <= kMostDims, "an activation of {} dims", x.dim());
  std::vector<int64_t> numbers{static_cast<int64_t>(x.scalar_type()) << 8 | x.dim()};
  numbers.insert(numbers.end(), x.sizes().begin(), x.sizes().end());
  numbers.resize(1 + kMostDims);
  return at::tensor(numbers, at::kLong);
}

// description: on the host.
at::Tensor empty_like_described(const at::Tensor& description, at::Device device) {
  const auto* numbers = description.const_data_ptr<int64_t>();
  return at::empty({numbers + 1, static_cast<size_t>(numbers[0] & 0xFF)},
                   at::TensorOptions(static_cast<at::ScalarType>(numbers[0] >> 8)).device(device));
}

}  // namespace

void Stages::run(const RunStage& run) {
  if (!ranks_) {
    run(0, {});
    return;
  }
  const int stages = ranks_->strategy().num_stages();
  at::Tensor x;
  for (int stage = 0; stage < stages; ++stage) {
    if (!ranks_->holds_stage(stage)) continue;
    if (stage > 0 && !ranks_->holds_stage(stage - 1)) {
      const comm::Group& border = ranks_->stage_channel(stage - 1, Way::forward);
      x = receive_activation(1 - border.rank(), border);
    }
    x = run(stage, x);
    if (stage == stages - 1 || ranks_->holds_stage(stage + 1)) continue;
    const comm::Group& border = ranks_->stage_channel(stage, Way::forward);
    sent_.wait();
    sent_ = send_activation(x, 1 - border.rank(), border);
  }
}

comm::Work send_activation(const at::Tensor& x, int to, const comm::Group& group) {
  comm::Work sent =
      comm::send_async(describe(x).to(group.device()), to, group, comm::Reason::stage);
  if (x.numel() == 0) return sent;
  return comm::send_async(x.contiguous().view(-1), to, group, comm::Reason::stage);
}

at::Tensor receive_activation(int from, const comm::Group& group) {
  const at::Tensor description =
      at::empty({1 + kMostDims}, at::TensorOptions(at::kLong).device(group.device()));
  comm::receive(description, from, group, comm::Reason::stage);
  at::Tensor x = empty_like_described(comm::on_host(description, group), group.device());
  if (x.numel() > 0) comm::receive(x.view(-1), from, group, comm::Reason::stage);
  return x;
}

}  // namespace colossal::serve
