#include "colossal/cli/inference_ranks.h"

#include <fmt/ranges.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/thread_stacks.h"
#include "colossal/cli/command.h"
#include "colossal/cluster/local_launcher.h"

namespace colossal::cli {
namespace {

// How long to wait for a child rank's error message: the lost connection is noticed earlier.
constexpr std::chrono::milliseconds kLastWords{500};
constexpr std::chrono::milliseconds kLook{10};

// Returns the arguments of this process without its name.
std::vector<std::string> arguments_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) {
    arguments.push_back(std::move(argument));
  }
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

}  // namespace

InferenceRanks::InferenceRanks(const std::optional<int>& ranks)
    : launch_(cluster::read_launch_environment(ranks)), num_ranks_(ranks.value_or(1)) {
  constexpr int kMostRanks = 1024;
  if (num_ranks_ < 1 || num_ranks_ > kMostRanks) {
    throw ConfigError(fmt::format("--ranks={}: must be from 1 to {}", num_ranks_, kMostRanks));
  }
  if (can_restart_ranks()) guard_.emplace();
  if (!launch_) return;
  log::set_rank_prefix(launch_->rendezvous.rank, launch_->rendezvous.size);
  write_stacks_on_sigquit(fmt::format("rank {}", launch_->rendezvous.rank));
}

comm::World& InferenceRanks::connect(const comm::WorldKind& kind, std::chrono::milliseconds timeout,
                                     const comm::Settings& settings) {
  if (size() == 1) {
    world_ = comm::single_world(comm::device_alone(kind));
    return *world_;
  }
  comm::Rendezvous meeting;
  if (launch_) {
    meeting = launch_->rendezvous;
  } else {
    cluster::MeetingPoint point;
    others_ = cluster::start_following_ranks(arguments_of_process(), num_ranks_, *guard_, &point);
    meeting = {.size = num_ranks_,
               .port = point.port,
               .listen_fd = point.store.release(),
               .prefix = point.job};
  }
  world_ = comm::connect(meeting, kind, timeout, settings);
  return *world_;
}

void InferenceRanks::disconnect() {
  others_.clear();
  world_.reset();
}

std::optional<std::string> InferenceRanks::child_rank_failure() {
  const auto deadline = std::chrono::steady_clock::now() + kLastWords;
  while (!others_.empty() && std::chrono::steady_clock::now() < deadline) {
    for (cluster::RankProcess& other : others_) {
      if (!other.check_ended()) continue;
      if (const auto failure = other.failure()) return failure->describe();
    }
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

int InferenceRanks::guarded(const std::function<void()>& run) {
  try {
    run();
    return kDone;
  } catch (const std::exception& error) {
    const bool refused = dynamic_cast<const ConfigError*>(&error) != nullptr;
    if (const auto failure = refused ? std::nullopt : child_rank_failure()) {
      throw CommError(*failure);
    }
    if (world_) world_->abort(error.what());
    if (!launch_ || !cluster::send_error(*launch_, error.what())) throw;
    if (refused) return kBadUsage;
    return dynamic_cast<const CommError*>(&error) ? kRankDied : kFailed;
  }
}

}  // namespace colossal::cli
