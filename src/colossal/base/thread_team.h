#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace colossal {

// Threads that compute the parts of one task at once. Between two tasks they stay awake for a
// while: OpenMP's threads sleep as soon as more of them wait in a process than it has CPUs, and to
// wake one takes longer than a product of one row.
//
// One thread at a time may call run().
class ThreadTeam {
 public:
  // threads: the caller of run() is one of them.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls part(i) for each i of [0, size()), each on a thread of its own, part(0) on this one.
  // Returns when all have returned; throws what the first of them threw.
  void run(const std::function<void(int)>& part);

 private:
  void work(int index);
  void call(int index);

  const std::function<void(int)>* part_ = nullptr;
  std::atomic<uint32_t> task_ = 0;  // counts tasks
  alignas(64) std::atomic<int> running_ = 0;
  bool stopped_ = false;
  std::mutex mutex_;  // of error_
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace colossal
