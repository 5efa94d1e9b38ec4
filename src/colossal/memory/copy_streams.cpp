#include "colossal/memory/copy_streams.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "colossal/base/error.h"

namespace colossal::memory {

void Copy::precede_current_stream() const {
  if (!done_) return;
  const c10::Device device = done_->device();
  done_->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

void Copy::wait() const {
  if (done_) done_->synchronize();
}

bool Copy::is_done() const {
  return !done_ || done_->query();
}

CopyStreams::CopyStreams(at::Device device) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl gpu(device.type());
  to_device_ = gpu.getStreamFromGlobalPool(device);
  to_host_ = gpu.getStreamFromGlobalPool(device);
}

CopyStreams::~CopyStreams() {
  try {
    for (const auto& stream : {to_device_, to_host_}) {
      if (stream) stream->synchronize();
    }
  } catch (const std::exception&) {  // of the GPU: whoever computes with it has met it, too
  }
}

Copy CopyStreams::to_device(const at::Tensor& to, const at::Tensor& from) {
  if (to_device_) return begin(*to_device_, to, from, from);
  to.copy_(from);
  return {};
}

Copy CopyStreams::to_host(const at::Tensor& to, const at::Tensor& from) {
  if (to_host_) return begin(*to_host_, to, from, to);
  to.copy_(from);
  return {};
}

Copy CopyStreams::begin(const c10::Stream& stream, const at::Tensor& to, const at::Tensor& from,
                        const at::Tensor& on_host) {
  COLOSSAL_CHECK(to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
                     to.is_contiguous() && from.is_contiguous(),
                 "a copy of {} to {} elements", from.numel(), to.numel());
  release_done();
  const c10::impl::VirtualGuardImpl gpu(stream.device_type());
  c10::Event given(stream.device_type());
  given.record(gpu.getStream(stream.device()));
  given.block(stream);
  auto done = std::make_shared<c10::Event>(stream.device_type());
  {
    const c10::StreamGuard current(stream);
    to.copy_(from, /*non_blocking=*/true);
    done->record(stream);
  }
  Copy copy(std::move(done));
  const std::lock_guard lock(mutex_);
  under_way_.emplace_back(copy, on_host);
  return copy;
}

void CopyStreams::release_done() {
  const std::lock_guard lock(mutex_);
  while (!under_way_.empty() && under_way_.front().first.is_done()) under_way_.pop_front();
}

}  // namespace colossal::memory
