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

constexpr int64_t kGoesOn = 1, kIsLast = 0;
constexpr std::chrono::milliseconds kLook{5};

at::Tensor beat_of(int64_t value, const ParallelContext& ranks) {
  return at::full({1}, value, at::TensorOptions(at::kLong).device(ranks.device()));
}

void answer_beats(const ParallelContext& ranks) {
  const comm::Group& group = ranks.background_group();
  const at::Tensor beat = beat_of(kGoesOn, ranks);
  try {
    do {
      comm::receive(beat, 0, group, comm::Reason::control);
      comm::send(beat, 0, group, comm::Reason::control);
    } while (beat.item<int64_t>() != kIsLast);
  } catch (const CommError&) {
    // The rank's own thread hears of it too, and says so.
  }
}

}  // namespace

Heartbeat::Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options)
    : ranks_(ranks), options_(options), thread_([this] { run(); }) {}

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
      ranks_.world().abort(error.what());  // an engine that is idle would not hear of it
      return;
    }
  } while (!is_last);
}

bool Heartbeat::ask(bool is_last) {
  const comm::Group& group = ranks_.background_group();
  const at::Tensor beat = beat_of(is_last ? kIsLast : kGoesOn, ranks_);
  std::vector<comm::Work> answers;
  for (int rank = 1; rank < group.size(); ++rank) {
    comm::send_async(beat, rank, group, comm::Reason::control);
    answers.push_back(
        comm::receive_async(at::empty_like(beat), rank, group, comm::Reason::control));
  }
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  for (size_t i = 0; i < answers.size(); ++i) {
    while (!answers[i].done() && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
    if (!answers[i].done()) {
      ranks_.world().abort(
          fmt::format("rank {} has not answered for {}: it hangs, or its machine does",
                      group.ranks()[i + 1], exact_duration(options_.timeout)));
      return false;
    }
    answers[i].wait();
  }
  return true;
}

HeartbeatAnswers::HeartbeatAnswers(const ParallelContext& ranks)
    : thread_([&ranks] { answer_beats(ranks); }) {}

HeartbeatAnswers::~HeartbeatAnswers() {
  thread_.join();
}

}  // namespace colossal::serve
