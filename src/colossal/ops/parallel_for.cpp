#include "colossal/ops/parallel_for.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

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

void run_on(ThreadTeam& team, int64_t begin, int64_t end, int64_t grain, int64_t threads,
            const std::function<void(int64_t, int64_t)>& visit) {
  constexpr int64_t kMostPieces = 4;  // of a part
  // How many elements of a part have been taken, on a cache line of its own.
  struct alignas(64) Taken {
    std::atomic<int64_t> elements = 0;
  };
  std::vector<Taken> taken(static_cast<size_t>(threads));
  const int64_t part_size = (end - begin + threads - 1) / threads;
  const int64_t pieces = std::clamp<int64_t>(part_size / grain, 1, kMostPieces);
  const int64_t piece = (part_size + pieces - 1) / pieces;
  const auto visit_part = [&](int64_t part) {
    const int64_t part_begin = begin + part * part_size;
    const int64_t part_end = std::min(end, part_begin + part_size);
    std::atomic<int64_t>& elements = taken[static_cast<size_t>(part)].elements;
    for (;;) {
      const int64_t first = part_begin + elements.fetch_add(piece, std::memory_order_relaxed);
      if (first >= part_end) return;
      visit(first, std::min(part_end, first + piece));
    }
  };
  const auto run_thread = [&](int index) {
    if (index >= threads) return;
    const OnOneThread alone;
    for (int64_t turn = 0; turn < threads; ++turn) visit_part((index + turn) % threads);
  };
  team.run(std::ref(run_thread));
}

}  // namespace detail
}  // namespace colossal::ops
