// The thread in which a run samples beside the passes of its updates. It lives as long as the run:
// so the threads that its operators use, which are its own, start once.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace colossal::tune {

class SamplerThread {
 public:
  // num_threads: that its operators use.
  explicit SamplerThread(int num_threads);
  ~SamplerThread();  // waits for the work under way
  SamplerThread(const SamplerThread&) = delete;
  SamplerThread& operator=(const SamplerThread&) = delete;

  // Starts work, once all before has ended. Returns how many seconds it takes, or what it throws.
  std::future<double> start(std::function<void()> work);

 private:
  void run(int num_threads);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::packaged_task<double()> next_;  // invalid: there is none
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace colossal::tune
