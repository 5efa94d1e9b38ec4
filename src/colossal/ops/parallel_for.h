#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "colossal/base/thread_team.h"

namespace colossal::ops {

// While an object of this class exists, this thread's parallel_for() uses at::get_num_threads()
// threads that stay awake between calls. For the thread that generates tokens: a product of one row
// takes tens of microseconds, and waking a thread for it takes as long.
class AwakeThreads {
 public:
  AwakeThreads();
  ~AwakeThreads();
  AwakeThreads(const AwakeThreads&) = delete;
  AwakeThreads& operator=(const AwakeThreads&) = delete;

 private:
  ThreadTeam team_;
  ThreadTeam* outer_;
};

namespace detail {

// Returns null if the calling thread has no AwakeThreads. Within a part of run_on() returns a team
// of one thread, so that nested loops stay on their thread.
ThreadTeam* awake_team();
void run_on(ThreadTeam& team, int64_t parts, const std::function<void(int64_t)>& part);

}  // namespace detail

// Calls visit(first, last) for consecutive parts of [begin, end) from several threads. Each part
// has at least `grain` elements, except the last. Equivalent to at::parallel_for, which it calls if
// the thread has no AwakeThreads.
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
