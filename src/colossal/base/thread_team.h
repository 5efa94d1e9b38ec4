// ThreadTeam: a fixed set of threads for short tasks. Tasks run one after another; the threads
// compute the parts of a task in parallel. Used by ops/parallel_for.h for the kernels of
// generation, which take microseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace colossal {

// After a task the threads keep spinning for up to a millisecond, so that they start the next task
// at once. OpenMP's threads would sleep as soon as a process has more waiting threads than CPUs,
// and waking a thread takes longer than a matrix product with one row. Only one thread at a time
// may call run().
class ThreadTeam {
 public:
  // threads: number of threads, including the caller of run(); 1 or less: only the caller. If the
  // system refuses to start so many, the team is smaller, and a warning is logged.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls part(i) for each i in [0, size()), each on a separate thread; part(0) runs on the calling
  // thread. Returns when all calls have ended. Rethrows the first exception of the calls. `part`
  // must not call run() of the same team.
  void run(const std::function<void(int)>& part);

 private:
  void work(int index);  // what worker thread `index` runs until the destructor
  void call(int index);  // calls (*part_)(index), and stores an exception in error_

  const std::function<void(int)>* part_ = nullptr;  // of the running task
  std::atomic<uint32_t> task_ = 0;                  // number of tasks so far
  alignas(64) std::atomic<int> running_ = 0;  // number of workers that have not ended the task
  bool stopped_ = false;
  std::mutex mutex_;  // guards error_
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace colossal
