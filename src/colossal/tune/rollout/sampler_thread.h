// A thread for the work of sampling while updates run (online_task.h). Operators that this thread
// calls run on OpenMP worker threads of its own. The thread exists as long as the run, so that
// these worker threads are started only once.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace colossal::tune {

class SamplerThread {
 public:
  // num_threads: number of OpenMP threads of operators that this thread calls.
  explicit SamplerThread(int num_threads);
  ~SamplerThread();  // waits until all work passed to start() is done
  SamplerThread(const SamplerThread&) = delete;
  SamplerThread& operator=(const SamplerThread&) = delete;

  // Passes `work` to the thread, which runs it after the work of earlier calls; returns at once.
  // The future becomes ready when `work` ends, with its duration in seconds or the exception that
  // it threw. Throws InternalError if the work of the previous call has not begun.
  std::future<double> start(std::function<void()> work);

 private:
  void run(int num_threads);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::packaged_task<double()> next_;  // work that has not begun; invalid: none
  bool ending_ = false;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace colossal::tune
