#include "tests/support/emulated_gpu/access_order.h"

#include <algorithm>
#include <iterator>

namespace colossal::emulated_gpu {

void Clock::join(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (size_t actor = 0; actor < other.times_.size(); ++actor) {
    times_[actor] = std::max(times_[actor], other.times_[actor]);
  }
}

uint64_t Clock::advance(Actor actor) {
  if (times_.size() <= actor) times_.resize(actor + 1);
  return ++times_[actor];
}

void AccessHistory::cut(uintptr_t address) {
  auto after = parts_.upper_bound(address);
  if (after == parts_.begin()) return;
  const auto part = std::prev(after);
  if (part->first == address || part->second.end <= address) return;
  Part second = part->second;
  part->second.end = address;
  parts_.emplace_hint(after, address, std::move(second));
}

AccessHistory::Parts::iterator AccessHistory::parts_of(const Bytes& bytes) {
  cut(bytes.begin);
  cut(bytes.end);
  uintptr_t next = bytes.begin;
  auto part = parts_.lower_bound(bytes.begin);
  while (next < bytes.end) {
    if (part == parts_.end() || part->first > next) {
      const uintptr_t end = part == parts_.end() ? bytes.end : std::min(part->first, bytes.end);
      part = parts_.emplace_hint(part, next, Part{.end = end, .write = {}, .reads = {}});
    }
    next = part->second.end;
    ++part;
  }
  return parts_.find(bytes.begin);
}

std::optional<Access> AccessHistory::read(const Bytes& bytes, const Access& access,
                                          const Clock& clock) {
  std::optional<Access> conflict;
  if (bytes.begin >= bytes.end) return conflict;
  for (auto part = parts_of(bytes); part != parts_.end() && part->first < bytes.end; ++part) {
    const std::optional<Access>& write = part->second.write;
    if (write && !write->is_before(clock)) conflict = write;
    std::vector<Access>& reads = part->second.reads;
    const auto of_actor = std::find_if(
        reads.begin(), reads.end(), [&](const Access& read) { return read.actor == access.actor; });
    if (of_actor != reads.end()) {
      *of_actor = access;
    } else {
      reads.push_back(access);
    }
  }
  return conflict;
}

std::optional<Access> AccessHistory::write(const Bytes& bytes, const Access& access,
                                           const Clock& clock) {
  std::optional<Access> conflict;
  if (bytes.begin >= bytes.end) return conflict;
  auto part = parts_of(bytes);
  const auto first = part;
  for (; part != parts_.end() && part->first < bytes.end; ++part) {
    const Part& of_bytes = part->second;
    if (of_bytes.write && !of_bytes.write->is_before(clock)) conflict = of_bytes.write;
    for (const Access& read : of_bytes.reads) {
      if (!read.is_before(clock)) conflict = read;
    }
  }
  first->second = {.end = bytes.end, .write = access, .reads = {}};
  parts_.erase(std::next(first), part);
  return conflict;
}

void AccessHistory::forget(const Bytes& bytes) {
  if (bytes.begin >= bytes.end) return;
  cut(bytes.begin);
  cut(bytes.end);
  parts_.erase(parts_.lower_bound(bytes.begin), parts_.lower_bound(bytes.end));
}

}  // namespace colossal::emulated_gpu
