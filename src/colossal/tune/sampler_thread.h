// The thread in which a run samples while its updates run. Operators that this thread calls use
// worker threads of its own (OpenMP); they start only once, because the thread lives as long as the
// run.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace colossal::tune {

class SamplerThread {
 public:
  // num_threads: number of threads that operators called by this thread use.
  explicit SamplerThread(int num_threads);
  ~SamplerThread();  // waits for all work that was started
  SamplerThread(const SamplerThread&) = delete;
  SamplerThread& operator=(const SamplerThread&) = delete;

  // Runs `work` in the thread, after the work of the call before. Returns a future of the seconds
  // that `work` takes, or of the exception that it throws. At most one piece of work may wait for
  // an earlier one to end.
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
