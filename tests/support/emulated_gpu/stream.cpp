#include "tests/support/emulated_gpu/stream.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "tests/support/emulated_gpu/memory.h"
#include "tests/support/emulated_gpu/mistakes.h"
#include "tests/support/emulated_gpu/settings.h"

namespace colossal::emulated_gpu {
namespace {

// A copy that uses pinned memory.
struct PinnedUse {
  Bytes bytes;
  bool written = false;
  Actor actor = 0;
  uint64_t time = 0;
};

// What orders accesses, of all streams of the process. Locked while a kernel is launched.
struct Order {
  std::mutex mutex;
  Clock host;
  AccessHistory history;
  std::vector<PinnedUse> of_pinned;
  std::set<std::string> names;  // of kernels

  // The host knows what `clock` knows: pinned memory of copies that are done is its own again.
  void tell_host(const Clock& clock) {
    host.join(clock);
    std::erase_if(of_pinned, [&](const PinnedUse& use) {
      if (host.at(use.actor) < use.time) return false;
      unlock_pages(reinterpret_cast<void*>(use.bytes.begin), use.bytes.end - use.bytes.begin,
                   use.written);
      return true;
    });
  }
};

Order& order() {
  static auto* const made = new Order;
  return *made;
}

bool is_pinned(const Bytes& bytes) {
  return bytes.begin < bytes.end && pinned_memory().has(reinterpret_cast<void*>(bytes.begin));
}

std::string name_of(Actor actor) {
  return actor == kHost ? "the host" : c10::str("stream ", actor);
}

// The first error of a kernel. As on a GPU, everything that waits fails after it.
struct DeviceError {
  std::mutex mutex;
  std::exception_ptr error;

  void keep(std::exception_ptr found) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(found);
  }
  void rethrow() {
    const std::lock_guard lock(mutex);
    if (error) std::rethrow_exception(error);
  }
};
DeviceError& device_error() {
  static auto* const made = new DeviceError;
  return *made;
}

// Throws in the place of the kernel that is to fail.
void fail_if_planted() {
  static std::atomic<int64_t> count{0};
  if (settings().fail_at == 0 || ++count != settings().fail_at) return;
  while (settings().hangs) pause();
  TORCH_CHECK(false, "CUDA error: an illegal memory access was encountered (planted)");
}

// Whether this thread has launched kernels. What one that has not learns of kernels that are done,
// such as one that looks for calls that take long, it keeps for itself: it orders nothing.
thread_local bool thread_launches = false;

}  // namespace

void Mark::finish() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
}

bool Mark::is_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

Stream::Stream(int device, int64_t id, Actor actor)
    : actor_(actor),
      random_(static_cast<uint32_t>(settings().seed * 7919 + static_cast<uint64_t>(device) * 101 +
                                    static_cast<uint64_t>(id))) {
  std::thread([this] { run_jobs(); }).detach();
}

void Stream::launch(Kernel kernel) {
  thread_launches = true;
  std::string mistake;
  {
    Order& all = order();
    const std::lock_guard lock(all.mutex);
    clock_.join(all.host);
    const Access access{actor_, clock_.advance(actor_), &*all.names.insert(kernel.name).first};
    const auto check = [&](const char* verb, const std::optional<Access>& earlier) {
      if (!earlier || !mistake.empty()) return;
      mistake =
          c10::str(kernel.name, " on ", name_of(actor_), " ", verb, " memory that ", *earlier->what,
                   " on ", name_of(earlier->actor), " uses, and no event or wait is between them");
    };
    for (const Bytes& bytes : kernel.reads) check("reads", all.history.read(bytes, access, clock_));
    for (const Bytes& bytes : kernel.writes) {
      check("writes", all.history.write(bytes, access, clock_));
    }
    const auto keep_pinned = [&](const std::vector<Bytes>& accesses, bool written) {
      for (const Bytes& bytes : accesses) {
        if (!is_pinned(bytes)) continue;
        lock_pages(reinterpret_cast<void*>(bytes.begin), bytes.end - bytes.begin, written);
        all.of_pinned.push_back({bytes, written, actor_, access.time});
      }
    };
    keep_pinned(kernel.reads, false);
    keep_pinned(kernel.writes, true);
    enqueue(std::move(kernel.run));
  }
  if (!mistake.empty()) report_mistake(mistake);
}

MarkPointer Stream::record() {
  auto mark = std::make_shared<Mark>();
  const std::lock_guard lock(order().mutex);
  clock_.join(order().host);
  mark->clock = clock_;
  enqueue([mark] { mark->finish(); });
  return mark;
}

void Stream::wait_for(const MarkPointer& mark) {
  const std::lock_guard lock(order().mutex);
  clock_.join(order().host);
  clock_.join(mark->clock);
  enqueue([mark] { mark->wait(); });
}

void Stream::enqueue(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    ++issued_;
  }
  changed_.notify_all();
}

void Stream::synchronize() {
  Clock known;
  uint64_t wanted = 0;
  {
    const std::lock_guard lock(order().mutex);
    known = clock_;
    wanted = issued_;
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= wanted; });
  }
  device_error().rethrow();
  const std::lock_guard lock(order().mutex);
  order().tell_host(known);
}

bool Stream::is_idle() {
  device_error().rethrow();
  const std::lock_guard lock(order().mutex);
  {
    const std::lock_guard of_jobs(mutex_);
    if (done_ != issued_) return false;
  }
  order().tell_host(clock_);
  return true;
}

void Stream::run(const std::function<void()>& job) {
  if (settings().delay_percent > 0 &&
      static_cast<int>(random_() % 100) < settings().delay_percent) {
    const auto late = static_cast<int64_t>(random_()) % settings().delay_microseconds;
    std::this_thread::sleep_for(std::chrono::microseconds(late));
  }
  fail_if_planted();
  job();
}

void Stream::run_jobs() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !jobs_.empty(); });
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    try {
      run(job);
    } catch (...) {
      device_error().keep(std::current_exception());
    }
    job = nullptr;
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

Stream& stream(int device, int64_t id) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::pair<int, int64_t>, std::unique_ptr<Stream>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Stream>& found = (*all)[{device, id}];
  if (!found) found = std::make_unique<Stream>(device, id, static_cast<Actor>(all->size()));
  return *found;
}

void synchronize_device(int device) {
  for (int64_t id = 0; id <= kStreamsOfPool; ++id) stream(device, id).synchronize();
}

void host_waits_for(const MarkPointer& mark) {
  mark->wait();
  device_error().rethrow();
  const std::lock_guard lock(order().mutex);
  order().tell_host(mark->clock);
}

bool host_asks(const MarkPointer& mark) {
  if (!mark->is_done()) return false;
  if (thread_launches) {
    host_waits_for(mark);
  } else {
    device_error().rethrow();
  }
  return true;
}

void forget_accesses(const Bytes& bytes) {
  const std::lock_guard lock(order().mutex);
  order().history.forget(bytes);
}

}  // namespace colossal::emulated_gpu
