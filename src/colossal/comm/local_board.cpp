#include "colossal/comm/local_board.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/yield.h"

namespace colossal::comm {

LocalBoard::LocalBoard(std::vector<int> ranks)
    : names_{.axis = "", .ranks = std::move(ranks), .rank = 0},
      size_(names_.size()),
      states_(size_),
      arrived_(size_),
      lost_(size_),
      messages_(size_ * size_) {}

bool LocalBoard::count_in() {
  if (++waiting_ < size_) return false;
  waiting_ = 0;
  std::fill(arrived_.begin(), arrived_.end(), false);
  ++generation_;
  changed_.notify_all();
  return true;
}

// Yields a few times, which is cheaper than sleeping and being woken. Stops if other processes use
// the time: a thread that yields waits for all of them, a sleeping one is woken soon.
void LocalBoard::spin_until_open(uint64_t generation) const {
  constexpr int kTurns = 64;
  for (int turn = 0; turn < kTurns && generation_ == generation; ++turn) {
    if (!yield_briefly()) return;
  }
}

std::string LocalBoard::failure_reason(int rank, int peer) const {
  if (!lost_[rank].empty()) return "was aborted: " + lost_[rank];
  for (int other = 0; other < size_; ++other) {
    if (lost_[other].empty() || (peer >= 0 && other != peer)) continue;
    return fmt::format("lost {}: {}", name_rank(names_, other), lost_[other]);
  }
  return closed_;
}

std::string LocalBoard::missing_ranks() const {
  std::string names;
  for (int rank = 0; rank < size_; ++rank) {
    if (!arrived_[rank]) names += (names.empty() ? "" : ", ") + name_rank(names_, rank);
  }
  return names;
}

void LocalBoard::arrive(int rank, RankState state, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (const std::string why = failure_reason(rank, -1); !why.empty()) throw CallFailure(why);
  states_[rank] = std::move(state);
  arrived_[rank] = true;
  const uint64_t generation = generation_;
  if (!count_in()) {
    lock.unlock();
    spin_until_open(generation);
    lock.lock();
    const auto over = [&] {
      return generation_ != generation || !failure_reason(rank, -1).empty();
    };
    const bool in_time = changed_.wait_until(lock, deadline.time(), over);
    if (generation_ == generation) {
      if (!in_time) {
        closed_ = deadline.failure(missing_ranks() + " did not arrive").what();
        changed_.notify_all();
      }
      throw CallFailure(failure_reason(rank, -1));
    }
  }
  lock.unlock();
  check_calls_match(rank);
}

void LocalBoard::meet() {
  std::unique_lock lock(mutex_);
  const uint64_t generation = generation_;
  if (count_in()) return;
  lock.unlock();
  spin_until_open(generation);
  lock.lock();
  changed_.wait(lock, [&] { return generation_ != generation; });
}

// All ranks come to the same verdict, because all compare all states in the same order.
void LocalBoard::check_calls_match(int rank) const {
  const auto fail = [&](int one, int other) {
    // This rank's own call comes last, if it is one of the two.
    if (one == rank) std::swap(one, other);
    throw mismatch(names_, one, describe_fully(states_[one].call), other,
                   describe_fully(states_[other].call));
  };
  const RankState& first = states_[0];
  for (int other = 1; other < size_; ++other) {
    const RankState& state = states_[other];
    if (state.call != first.call) fail(other, 0);
    if (first.call.operation == Operation::all_to_all) continue;
    if (state.send_counts != first.send_counts) {
      throw CallFailure(fmt::format("does not match: {} and {} gave different counts of parts",
                                    name_rank(names_, 0), name_rank(names_, other)));
    }
  }
  if (first.call.operation != Operation::all_to_all) return;
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      const int64_t sent = states_[from].send_counts[to];
      const int64_t expected = states_[to].receive_counts[from];
      if (sent == expected) continue;
      throw CallFailure(fmt::format("does not match: {} sends {} elements to {}, which expects {}",
                                    name_rank(names_, from), sent, name_rank(names_, to),
                                    expected));
    }
  }
}

void LocalBoard::post(Message& message) {
  const std::lock_guard lock(mutex_);
  messages_between(message.from, message.to).push_back(&message);
  changed_.notify_all();
}

void LocalBoard::withdraw(Message& message) {
  std::unique_lock lock(mutex_);
  if (message.state == Message::posted)
    std::erase(messages_between(message.from, message.to), &message);
  changed_.wait(lock, [&] { return message.state != Message::taken; });
}

void LocalBoard::wait_delivered(Message& message, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto over = [&] {
    return message.state != Message::posted || !failure_reason(message.from, message.to).empty();
  };
  const bool in_time = changed_.wait_until(lock, deadline.time(), over);
  if (message.state == Message::posted) {
    if (in_time) throw CallFailure(failure_reason(message.from, message.to));
    throw deadline.failure(name_rank(names_, message.to) + " did not receive");
  }
  changed_.wait(lock, [&] { return message.state == Message::delivered; });
}

void LocalBoard::take(void* memory, int64_t bytes, int from, int to, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  auto& box = messages_between(from, to);
  const auto over = [&] { return !box.empty() || !failure_reason(to, from).empty(); };
  const bool in_time = changed_.wait_until(lock, deadline.time(), over);
  if (box.empty()) {
    if (in_time) throw CallFailure(failure_reason(to, from));
    throw deadline.failure(name_rank(names_, from) + " did not send");
  }
  Message& message = *box.front();
  COLOSSAL_CHECK(message.bytes == bytes, "message of {} B, expected {}", message.bytes, bytes);
  box.pop_front();
  message.state = Message::taken;
  lock.unlock();
  std::memcpy(memory, message.memory, bytes);
  lock.lock();
  message.state = Message::delivered;
  changed_.notify_all();
}

void LocalBoard::lose(int rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (lost_[rank].empty()) lost_[rank] = why;
  changed_.notify_all();
}

void LocalBoard::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (closed_.empty()) closed_ = "found its group closed by an earlier failure: " + why;
  changed_.notify_all();
}

}  // namespace colossal::comm
