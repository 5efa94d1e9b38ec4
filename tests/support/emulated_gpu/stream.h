// The streams and events of the emulated GPUs. A stream is a thread that runs kernels one after
// another, some of them late. Kernels are compared with all earlier accesses to the same bytes when
// they are launched (access_order.h).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/support/emulated_gpu/access_order.h"

namespace colossal::emulated_gpu {

struct Kernel {
  std::string name;
  std::vector<Bytes> reads{};   // at the addresses that tensors have
  std::vector<Bytes> writes{};  // of device memory or pinned memory
  std::function<void()> run;
};

// What is recorded in a stream. Shared by the event and those that wait for it.
class Mark {
 public:
  void finish();
  void wait();  // without a change of clocks
  bool is_done() const;

  Clock clock{};  // of the stream, when it was recorded

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};
using MarkPointer = std::shared_ptr<Mark>;

class Stream {
 public:
  // actor: not kHost, different for each stream.
  Stream(int device, int64_t id, Actor actor);

  // Adds a kernel. Reports a mistake if an access to the same bytes is not ordered before it.
  void launch(Kernel kernel);
  MarkPointer record();
  // Kernels that are launched later run after the mark is done.
  void wait_for(const MarkPointer& mark);
  // Waits until all kernels are done; the host then knows. Throws the first error of any kernel.
  void synchronize();
  // Whether all kernels are done; if so, the host then knows.
  bool is_idle();

 private:
  void run_jobs();
  void enqueue(std::function<void()> job);
  void run(const std::function<void()>& job);

  Actor actor_;
  Clock clock_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  uint64_t issued_ = 0, done_ = 0;
};

constexpr int64_t kStreamsOfPool = 32;

// The stream `id` of a device: 0, the default stream, or one of the pool, from 1 on.
Stream& stream(int device, int64_t id);
// Waits for all streams of a device.
void synchronize_device(int device);

// The host waits for the mark, or asks whether it is done. Throw the first error of any kernel.
void host_waits_for(const MarkPointer& mark);
bool host_asks(const MarkPointer& mark);

// Forgets earlier accesses to these bytes, of which all are known to be done.
void forget_accesses(const Bytes& bytes);

}  // namespace colossal::emulated_gpu
