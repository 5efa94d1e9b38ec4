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
// Calls part(0), ..., part(parts - 1), each on its own thread of the team. parts: at most
// team.size().
void run_on(ThreadTeam& team, int64_t parts, const std::function<void(int64_t)>& part);

}  // namespace detail

// Divides [begin, end) into consecutive parts and calls visit(first, last) for each part [first,
// last), on several threads at once. Returns after all calls. grain: the number of elements that
// are worth a thread; a range of at most `grain` elements is one part. Calls at::parallel_for() if
// the calling thread has no AwakeThreads.
template <typename Visit>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Visit& visit) {
  ThreadTeam* team = detail::awake_team();
  if (!team) return at::parallel_for(begin, end, grain, visit);
  if (begin >= end) return;
  const int64_t size = end - begin;
  const int64_t most = std::max<int64_t>(1, size / std::max<int64_t>(1, grain));
  const int64_t parts = std::min<int64_t>(team->size(), most);
  if (parts == 1) return visit(begin, end);
  const int64_t part_size = (size + parts - 1) / parts;
  const auto visit_part = [&](int64_t part) {
    const int64_t first = begin + part * part_size, last = std::min(end, first + part_size);
    if (first < last) visit(first, last);
  };
  detail::run_on(*team, parts, std::ref(visit_part));
}

}  // namespace colossal::ops
