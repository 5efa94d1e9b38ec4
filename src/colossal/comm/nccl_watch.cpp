#include "colossal/comm/nccl_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/nccl_backend.h"

namespace colossal::comm {
namespace {

using std::chrono::milliseconds;

constexpr const char* kNumFailures = "nccl/failures";

std::string key_of_failure(int64_t number) {
  return fmt::format("nccl/failure/{}", number);
}

std::string key_of_progress(int rank) {
  return fmt::format("nccl/progress/{}", rank);
}

std::string text_of(const std::vector<uint8_t>& value) {
  return {value.begin(), value.end()};
}

std::vector<uint8_t> value_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

NcclWatch::NcclWatch(StorePointer store, int rank, milliseconds timeout)
    : store_(std::move(store)),
      rank_(rank),
      look_every_(std::clamp(timeout / 20, milliseconds(5), milliseconds(100))),
      exchange_every_(std::clamp(timeout / 20, milliseconds(20), milliseconds(2000))),
      thread_([this] { run(); }) {}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclWatch::add(NcclBackend& backend) {
  const std::lock_guard lock(mutex_);
  backends_.push_back(&backend);
}

void NcclWatch::remove(NcclBackend& backend) {
  const std::lock_guard looking(looking_);
  const std::lock_guard lock(mutex_);
  std::erase(backends_, &backend);
}

void NcclWatch::check() {
  NcclBackend* failed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (NcclBackend* const backend : backends_) {
      const std::string message = backend->failure();
      if (!message.empty()) throw CommError(message);
      if (backend->has_error()) failed = backend;
    }
  }
  if (!failed) return;
  failed->look_for_errors();
  throw CommError(failed->failure());
}

void NcclWatch::check_all_ranks() {
  try {
    read_failures();
  } catch (const c10::Error& error) {
    throw CommError(
        fmt::format("rank {}: the store cannot be reached, through which ranks tell "
                    "each other of failures: {}",
                    rank_, comm::reason_of(error)));
  }
  check();
}

void NcclWatch::end_rank(const std::string& message) {
  tell_peers(message);
  std::vector<nccl::Communicator> communicators;
  {
    const std::lock_guard lock(mutex_);
    for (NcclBackend* const backend : backends_) {
      backend->record_failure_elsewhere(message);
      communicators.push_back(backend->release_communicator());
    }
  }
  abort_together(std::move(communicators));
}

void NcclWatch::abort(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    for (NcclBackend* const backend : backends_) backend->record_abort(why);
  }
  end_rank(why);
}

void NcclWatch::run() {
  auto next_exchange = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    look_at_calls();  // throws nothing: errors of the GPU are for those who wait for it
    if (std::chrono::steady_clock::now() >= next_exchange) {
      exchange_news();
      next_exchange = std::chrono::steady_clock::now() + exchange_every_;
    }
    lock.lock();
    changed_.wait_for(lock, look_every_, [&] { return stopping_; });
  }
}

void NcclWatch::look_at_calls() {
  const std::lock_guard looking(looking_);
  std::vector<NcclBackend*> backends;
  {
    const std::lock_guard lock(mutex_);
    backends = backends_;
  }
  for (NcclBackend* const backend : backends) {
    backend->look_for_errors();
    backend->look_at_calls();
  }
}

// The rank that serves the store may have left, at the end of the job.
void NcclWatch::exchange_news() {
  try {
    publish_progress();
    read_failures();
  } catch (const std::exception&) {
  }
}

void NcclWatch::publish_progress() {
  Channels progress;
  {
    const std::lock_guard lock(mutex_);
    for (NcclBackend* const backend : backends_) backend->add_progress(progress);
  }
  std::string text;
  for (const auto& [channel, come] : progress) {
    text += fmt::format("{}\t{}\t{}\t{}\n", channel, come.launched, come.begun, come.call);
  }
  if (text == published_) return;
  store_->set(key_of_progress(rank_), value_of(text));
  published_ = std::move(text);
}

NcclWatch::Channels NcclWatch::progress_of(int rank) {
  Channels channels;
  const std::string key = key_of_progress(rank);
  if (!store_->check({key})) return channels;
  std::istringstream lines(text_of(store_->get(key)));
  std::string channel, launched, begun, call;
  while (std::getline(lines, channel, '\t') && std::getline(lines, launched, '\t') &&
         std::getline(lines, begun, '\t') && std::getline(lines, call)) {
    channels[channel] = {std::stoll(launched), std::stoll(begun), call};
  }
  return channels;
}

void NcclWatch::tell_peers(const std::string& why) {
  try {
    const int64_t number = store_->add(kNumFailures, 1);
    store_->set(key_of_failure(number), value_of(fmt::format("{}\t{}", rank_, why)));
  } catch (const std::exception&) {  // the store has gone: peers learn it from their timeout
  }
}

void NcclWatch::read_failures() {
  const std::lock_guard reading(reading_);
  while (store_->check({key_of_failure(failures_read_ + 1)})) {
    std::istringstream text(text_of(store_->get(key_of_failure(++failures_read_))));
    std::string rank, why;
    std::getline(text, rank, '\t');
    std::getline(text, why, '\0');
    if (std::stoi(rank) == rank_) continue;
    std::string message;
    {
      const std::lock_guard lock(mutex_);
      for (NcclBackend* const backend : backends_) {
        if (backend->record_loss(std::stoi(rank), why)) message = backend->failure();
      }
    }
    if (!message.empty()) end_rank(message);
  }
}

std::string NcclWatch::reason_of_wait(const std::string& group, const Membership& membership,
                                      const NcclCall& call) {
  const NcclCall::Channel& channel = call.channel();
  const std::string key = group + " " + channel.name;
  const std::string own_call = describe_fully(call.call());
  std::string late, busy;
  const auto add = [&](std::string& names, int rank) {
    names += (names.empty() ? "" : ", ") + name_rank(membership, rank);
  };
  try {
    for (int rank = 0; rank < membership.size(); ++rank) {
      if (rank == membership.rank || (channel.peer >= 0 && rank != channel.peer)) continue;
      const Channels channels = progress_of(membership.ranks[rank]);
      const auto found = channels.find(key);
      const NcclProgress come = found == channels.end() ? NcclProgress{} : found->second;
      if (come.launched < channel.number) {
        add(late, rank);
      } else if (come.begun < channel.number) {
        add(busy, rank);
      } else if (come.begun == channel.number && come.call != own_call) {
        return mismatch(membership, rank, come.call, membership.rank, own_call).what();
      }
    }
  } catch (const std::exception& error) {
    return fmt::format("which rank is late is not known, as the store cannot be reached: {}",
                       comm::reason_of(error));
  }
  const std::string is_late = channel.peer >= 0 ? channel.late : "did not arrive";
  if (!late.empty()) return fmt::format("{} {}", late, is_late);
  if (!busy.empty()) {
    return fmt::format("{} {}: earlier work on its GPU does not end", busy, is_late);
  }
  return "all ranks have come, but NCCL does not end the call: calls of other groups may take its "
         "room on the GPUs, if ranks issue them in different orders";
}

}  // namespace colossal::comm
