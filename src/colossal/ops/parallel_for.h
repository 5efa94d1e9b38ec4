// parallel_for(), the parallel loop of the CPU kernels. It runs on LibTorch's threads or, while an
// AwakeThreads exists, on threads that stay awake between loops.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "colossal/base/thread_team.h"

namespace colossal::ops {

// While an object of this class exists, parallel_for() on the thread that created the object uses a
// team of at::get_num_threads() threads. After a call, the threads stay awake for up to a
// millisecond to wait for the next call (ThreadTeam). Use AwakeThreads for the thread that
// generates tokens: a product of one row takes tens of microseconds, about as long as waking a
// sleeping thread.
class AwakeThreads {
 public:
  AwakeThreads();
  ~AwakeThreads();
  AwakeThreads(const AwakeThreads&) = delete;
  AwakeThreads& operator=(const AwakeThreads&) = delete;

 private:
  ThreadTeam team_;
  ThreadTeam* outer_;  // of the enclosing AwakeThreads of this thread; null if there is none
};

namespace detail {

// Returns the team of the calling thread's AwakeThreads; null if the thread has none. Within
// run_on(), returns a team of one thread, so that a nested loop stays on its thread.
ThreadTeam* awake_team();
// Divides [begin, end) evenly among `threads` threads of the team, at most team.size(). Each thread
// visits its part from the front to the back, in a few pieces. Pieces have at least `grain`
// elements; only the last piece of a part may have fewer. A thread that has ended its part visits
// pieces that other threads have not begun: a thread whose CPU also runs other programs does not
// hold up the loop.
void run_on(ThreadTeam& team, int64_t begin, int64_t end, int64_t grain, int64_t threads,
            const std::function<void(int64_t first, int64_t last)>& visit);

}  // namespace detail

// Divides [begin, end) into consecutive parts and calls visit(first, last) for each part [first,
// last), on several threads at once. Returns after all calls. Does not call visit() if the range is
// empty. grain: the number of elements that are worth a thread; a range of 1 to `grain` elements is
// one part. Rethrows the first exception that a call throws. Calls at::parallel_for() if the
// calling thread has no AwakeThreads.
template <typename Visit>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Visit& visit) {
  ThreadTeam* team = detail::awake_team();
  if (!team) return at::parallel_for(begin, end, grain, visit);
  if (begin >= end) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t threads = std::min<int64_t>(team->size(), (end - begin) / grain);
  if (threads <= 1) return visit(begin, end);
  detail::run_on(*team, begin, end, grain, threads, std::ref(visit));
}

}  // namespace colossal::ops
