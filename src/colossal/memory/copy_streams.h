// CopyStreams: copies between a GPU and pinned memory of the host that run while the GPU computes.
// Each direction has a stream of its own, because the bus carries both at the same time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace colossal::memory {

// A copy that was begun. One that is constructed by default is done.
class Copy {
 public:
  Copy() = default;
  explicit Copy(std::shared_ptr<c10::Event> done) : done_(std::move(done)) {}

  // Lets the current stream of this thread wait: what it is given from now on runs after the copy.
  // The host does not wait.
  void precede_current_stream() const;
  void wait() const;     // the host waits until the copy is done
  bool is_done() const;  // whether it is done; does not wait
  // Whether it was begun and may not have been done when the function that began it returned.
  bool is_under_way() const { return done_ != nullptr; }

 private:
  std::shared_ptr<c10::Event> done_;  // null: it is done
};

// Thread-safe. On a device that is no GPU, copies are done when the functions return.
class CopyStreams {
 public:
  explicit CopyStreams(at::Device device);
  ~CopyStreams();
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  // Whether copies may still run when the functions return.
  bool are_asynchronous() const { return to_device_.has_value(); }

  // Begin to copy `from` to `to`, of the same shape and dtype, both contiguous, when the GPU has
  // done what the current stream of this thread was given before. The tensor on the host is kept
  // until the copy is done. The tensor on the GPU must be kept until the copy has preceded a stream
  // that uses its memory next, or was waited for.
  Copy to_device(const at::Tensor& to, const at::Tensor& from);
  Copy to_host(const at::Tensor& to, const at::Tensor& from);

  // The stream of copies to the device; nullopt if copies are not asynchronous. What it is given
  // runs after all copies that were begun before.
  const std::optional<c10::Stream>& stream_to_device() const { return to_device_; }

  // Releases the tensors on the host whose copies are done.
  void release_done();

 private:
  Copy begin(const c10::Stream& stream, const at::Tensor& to, const at::Tensor& from,
             const at::Tensor& on_host);

  std::optional<c10::Stream> to_device_, to_host_;
  std::mutex mutex_;                                   // guards under_way_
  std::deque<std::pair<Copy, at::Tensor>> under_way_;  // with the tensor on the host
};

}  // namespace colossal::memory
