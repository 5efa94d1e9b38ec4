#include "colossal/ops/parallel_for.h"

#include <omp.h>

#include <utility>

namespace colossal::ops {
namespace {

thread_local ThreadTeam* awake = nullptr;

ThreadTeam& alone() {
  static ThreadTeam team(1);
  return team;
}

// While an object of this class exists, parallel loops of the calling thread run on this thread
// alone, also those of LibTorch's operators. The constructor calls at::get_num_threads() before
// omp_set_num_threads(), because a thread's first call of it sets OpenMP's number of threads.
class OnOneThread {
 public:
  OnOneThread() : team_(std::exchange(awake, &alone())), threads_(at::get_num_threads()) {
    omp_set_num_threads(1);
  }
  ~OnOneThread() {
    awake = team_;
    omp_set_num_threads(threads_);
  }
  OnOneThread(const OnOneThread&) = delete;
  OnOneThread& operator=(const OnOneThread&) = delete;

 private:
  ThreadTeam* team_;
  int threads_;
};

}  // namespace

AwakeThreads::AwakeThreads() : team_(at::get_num_threads()), outer_(std::exchange(awake, &team_)) {}

AwakeThreads::~AwakeThreads() {
  awake = outer_;
}

namespace detail {

ThreadTeam* awake_team() {
  return awake;
}

void run_on(ThreadTeam& team, int64_t parts, const std::function<void(int64_t)>& part) {
  const auto run_part = [&](int index) {
    if (index >= parts) return;
    const OnOneThread alone;
    part(index);
  };
  team.run(std::ref(run_part));
}

}  // namespace detail
}  // namespace colossal::ops
