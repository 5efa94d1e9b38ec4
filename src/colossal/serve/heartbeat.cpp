#include "colossal/serve/heartbeat.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/group.h"

namespace colossal::serve {
namespace {

using Clock = std::chrono::steady_clock;

// Contents of a heartbeat: whether more heartbeats follow.
constexpr int64_t kGoesOn = 1, kIsLast = 0;
// Interval at which await() polls.
constexpr std::chrono::milliseconds kLook{10};

// Returns a group of all ranks for heartbeats only, whose messages do not wait for work on a
// device.
comm::Group make_channel(const ParallelContext& ranks) {
  const comm::Group& all = ranks.world_group();
  return ranks.world().host_group(all.axis(), all.ranks());
}

at::Tensor beat_of(int64_t value) {
  return at::full({1}, value, at::kLong);
}

// Waits for the work until the deadline. Returns whether it is done; throws if it failed.
bool await(comm::Work work, Clock::time_point deadline) {
  while (!work.done() && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
  if (!work.done()) return false;
  work.wait();
  return true;
}

}  // namespace

Heartbeat::Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options)
    : world_(ranks.world()),
      channel_(make_channel(ranks)),
      options_(options),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Heartbeat::run() {
  bool is_last = false;
  do {
    {
      std::unique_lock lock(mutex_);
      is_last = changed_.wait_for(lock, options_.interval, [&] { return stopping_; });
    }
    try {
      if (!ask(is_last)) return;
    } catch (const CommError& error) {
      world_.abort(error.what());  // an idle engine would not notice the loss
      return;
    }
  } while (!is_last);
}

bool Heartbeat::ask(bool is_last) {
  const at::Tensor beat = beat_of(is_last ? kIsLast : kGoesOn);
  std::vector<comm::Work> answers;
  for (int rank = 1; rank < channel_.size(); ++rank) {
    comm::send_async(beat, rank, channel_, comm::Reason::control);
    answers.push_back(
        comm::receive_async(at::empty_like(beat), rank, channel_, comm::Reason::control));
  }
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (await(answers[i], deadline)) continue;
    world_.abort(fmt::format("rank {} has not answered for {}: the process or its machine hangs",
                             channel_.ranks()[i + 1], exact_duration(options_.timeout)));
    return false;
  }
  return true;
}

HeartbeatResponder::HeartbeatResponder(const ParallelContext& ranks,
                                       std::chrono::milliseconds patience)
    : world_(ranks.world()),
      channel_(make_channel(ranks)),
      patience_(patience),
      thread_([this] { run(); }) {}

HeartbeatResponder::~HeartbeatResponder() {
  thread_.join();
}

void HeartbeatResponder::run() {
  const at::Tensor beat = beat_of(kGoesOn);
  const auto in_time = [&](const comm::Work& work) {
    return await(work, Clock::now() + patience_);
  };
  const auto is_asked = [&] {
    return in_time(comm::receive_async(beat, 0, channel_, comm::Reason::control)) &&
           in_time(comm::send_async(beat, 0, channel_, comm::Reason::control));
  };
  try {
    do {
      if (!is_asked()) {
        return world_.abort(
            fmt::format("rank {} has sent no heartbeat for {}: the process or its machine hangs",
                        channel_.ranks().front(), exact_duration(patience_)));
      }
    } while (beat.item<int64_t>() != kIsLast);
  } catch (const CommError& error) {
    world_.abort(error.what());
  }
}

}  // namespace colossal::serve
