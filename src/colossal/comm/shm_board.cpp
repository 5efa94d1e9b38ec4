#include "colossal/comm/shm_board.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/machine.h"

namespace colossal::comm {
namespace {

// How long a rank sleeps before it checks whether its peers still live.
constexpr std::chrono::milliseconds kNap{20};

constexpr int64_t aligned(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

template <size_t size>
void write_text(std::array<char, size>& into, const std::string& text) {
  into.fill(0);
  text.copy(into.data(), size - 1);
}

int open_process(int process) {
  return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
}

}  // namespace

// Each rank has two rows of counts, its slots, and a ring to each other rank.
ShmBoard::Places::Places(int ranks) {
  const int64_t n = ranks;
  states = sizeof(Verdict);
  counts = states + n * sizeof(RankState);
  slots = aligned(counts + n * 2 * n * sizeof(int64_t));
  rings = slots + n * kSlots * kSlotBytes;
  end = rings + n * n * aligned(sizeof(Ring));
}

int64_t ShmBoard::bytes_needed(int ranks) {
  return Places(ranks).end;
}

ShmBoard::RankState& ShmBoard::state_of(int rank) const {
  return reinterpret_cast<RankState*>(memory_.data() + Places(size()).states)[rank];
}

int64_t* ShmBoard::counts_of(int rank) const {
  const int64_t row = 2 * rank + static_cast<int64_t>(ordinal_ % 2);
  return reinterpret_cast<int64_t*>(memory_.data() + Places(size()).counts) + row * size();
}

std::byte* ShmBoard::slot(int rank, uint64_t round) const {
  const int64_t number = int64_t{rank} * kSlots + static_cast<int64_t>(round % kSlots);
  return memory_.data() + Places(size()).slots + number * kSlotBytes;
}

std::byte* ShmBoard::own_slot(const Deadline& deadline) {
  wait_until_all_reach(&RankState::taken, taken_needed_for(round_), deadline);
  return slot(own());
}

void ShmBoard::next_round() {
  state_of(own()).taken.raise();
  ++round_;
}

ShmBoard::Ring& ShmBoard::ring(int from, int to) const {
  const int64_t number = int64_t{from} * size() + to;
  return *reinterpret_cast<Ring*>(memory_.data() + Places(size()).rings +
                                  number * aligned(sizeof(Ring)));
}

ShmBoard::ShmBoard(SharedMemory memory, Membership membership, std::chrono::milliseconds timeout)
    : memory_(std::move(memory)),
      membership_(std::move(membership)),
      cores_to_spare_(size() <= machine::available_cores()) {
  wait_for_presence(timeout);
  memory_.seal();
  watch_processes();
}

ShmBoard::~ShmBoard() {
  RankState& mine = state_of(own());
  uint32_t expected = present;
  mine.presence.compare_exchange_strong(expected, left);
  for (int descriptor : processes_) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void ShmBoard::wait_for_presence(std::chrono::milliseconds timeout) {
  state_of(own()).process = getpid();
  state_of(own()).presence = present;
  const Deadline deadline(timeout);
  for (int rank = 0; rank < size(); ++rank) {
    while (state_of(rank).presence == absent) {
      if (deadline.passed()) {
        throw CommError(fmt::format(
            "{}: {}", describe_caller(membership_),
            deadline.failure(name_rank(membership_, rank) + " did not come to the shared memory")
                .what()));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void ShmBoard::watch_processes() {
  for (int rank = 0; rank < size(); ++rank) {
    const int process = state_of(rank).process;
    processes_.push_back(process == getpid() ? -1 : open_process(process));
  }
}

void ShmBoard::begin_message() {
  if (const std::string why = closed(); !why.empty()) throw CallFailure(why);
  if (verdict().state == Verdict::reason_complete) throw CallFailure(verdict().reason.data());
  announced_ = false;
}

void ShmBoard::show(const Call& call, Counts counts, Place place) {
  begin_message();
  announced_ = true;
  call_ = call;
  compared_ = false;
  ++ordinal_;
  std::copy(counts.begin(), counts.end(), counts_of(own()));
  ShownCall& shown = state_of(own()).shown[ordinal_ % 2];
  // A sequence lock: other_call() does not use a call if its ordinal changes while it is read.
  shown.ordinal.store(0, std::memory_order_relaxed);
  shown.what.store(static_cast<uint64_t>(call.operation) | static_cast<uint64_t>(call.reason) << 8 |
                       static_cast<uint64_t>(call.type) << 16 |
                       static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32,
                   std::memory_order_release);
  shown.bytes.store(static_cast<uint64_t>(call.bytes), std::memory_order_release);
  shown.region.store(place.region, std::memory_order_relaxed);
  shown.offset.store(place.offset, std::memory_order_relaxed);
  shown.ordinal.store(ordinal_, std::memory_order_release);
}

ShmBoard::Place ShmBoard::place_of(int rank) const {
  const ShownCall& shown = state_of(rank).shown[ordinal_ % 2];
  return {.region = shown.region.load(std::memory_order_relaxed),
          .offset = shown.offset.load(std::memory_order_relaxed)};
}

bool ShmBoard::one_region() const {
  for (int rank = 0; rank < size(); ++rank) {
    if (place_of(rank).region == 0 || place_of(rank).region != place_of(own()).region) return false;
  }
  return true;
}

bool ShmBoard::only_peers_share() const {
  if (place_of(own()).region != 0) return false;
  for (int rank = 0; rank < size(); ++rank) {
    if (place_of(rank).region != 0) return true;
  }
  return false;
}

Call ShmBoard::read_call(const ShownCall& shown) const {
  const uint64_t what = shown.what.load(std::memory_order_acquire);
  return {.operation = static_cast<Operation>(what & 0xFF),
          .reason = static_cast<comm::Reason>(what >> 8 & 0xFF),
          .type = static_cast<at::ScalarType>(what >> 16 & 0xFF),
          .root = static_cast<int32_t>(what >> 32),
          .bytes = static_cast<int64_t>(shown.bytes.load(std::memory_order_acquire))};
}

void ShmBoard::next_phase(const Deadline& deadline) {
  end_phase(deadline);
  if (compared_) return;
  compare_calls();
  if (only_peers_share()) end_phase(deadline);
}

void ShmBoard::raise_phase() {
  state_of(own()).phase.raise();
  ++phase_;
}

void ShmBoard::end_phase(const Deadline& deadline) {
  raise_phase();
  wait_until_all_reach(&RankState::phase, phase_, deadline);
}

bool ShmBoard::have_reached(SharedCounter RankState::*counter, uint32_t count) const {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != own() && !has_reached(state_of(rank).*counter, count)) return false;
  }
  return true;
}

void ShmBoard::wait_until_all_reach(SharedCounter RankState::*counter, uint32_t count,
                                    const Deadline& deadline) {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != own()) wait_until_reached(rank, counter, count, deadline);
  }
}

void ShmBoard::wait_until_reached(int rank, SharedCounter RankState::*counter, uint32_t count,
                                  const Deadline& deadline) {
  SharedCounter& of_rank = state_of(rank).*counter;
  const auto over = [&] { return has_reached(of_rank, count); };
  SpinThenSleep spinning(cores_to_spare_);
  while (!over()) {
    if (spinning.turn()) continue;
    check(rank, over);
    if (deadline.passed() && !over()) {
      std::string missing;
      for (int other = 0; other < size(); ++other) {
        if (other == own() || has_reached(state_of(other).*counter, count)) continue;
        missing += (missing.empty() ? "" : ", ") + name_rank(membership_, other);
      }
      fail(deadline.failure(missing + " did not arrive"));
    }
    const uint32_t seen = of_rank.value();
    if (!over()) of_rank.sleep(seen, std::min(kNap, deadline.remaining()));
  }
}

void ShmBoard::wait_for_bell(uint32_t seen, int peer, const char* missing,
                             const Deadline& deadline) {
  const auto over = [&] { return bell() != seen; };
  SpinThenSleep spinning(cores_to_spare_);
  while (!over()) {
    if (spinning.turn()) continue;
    check(peer, over);
    if (deadline.passed() && !over())
      fail(deadline.failure(name_rank(membership_, peer) + missing));
    state_of(own()).bell.sleep(seen, std::min(kNap, deadline.remaining()));
  }
}

// All ranks come to the same verdict, because all compare all calls in the same order.
void ShmBoard::compare_calls() {
  compared_ = true;
  const Call first = read_call(state_of(0).shown[ordinal_ % 2]);
  for (int rank = 1; rank < size(); ++rank) {
    const Call call = read_call(state_of(rank).shown[ordinal_ % 2]);
    if (call != first) {
      check(rank, [] { return false; });
      int one = rank, other = 0;
      if (one == own()) std::swap(one, other);  // this rank's own call comes last
      throw mismatch(membership_, one, describe_fully(one == 0 ? first : call), other,
                     describe_fully(other == 0 ? first : call));
    }
    if (!std::equal(counts_of(0), counts_of(0) + size(), counts_of(rank))) {
      throw CallFailure(fmt::format("does not match: {} and {} gave different counts of parts",
                                    name_rank(membership_, 0), name_rank(membership_, rank)));
    }
  }
}

// Returns a mismatch if another rank makes another call, or "". If one call uses slots and the
// other one rings, the ranks would otherwise wait for each other in vain.
std::string ShmBoard::other_call() const {
  if (!announced_) return "";
  for (int rank = 0; rank < size(); ++rank) {
    const ShownCall& shown = state_of(rank).shown[ordinal_ % 2];
    if (shown.ordinal.load(std::memory_order_acquire) != ordinal_) continue;
    const Call call = read_call(shown);
    if (shown.ordinal.load(std::memory_order_acquire) != ordinal_ || call == call_) continue;
    return mismatch(membership_, rank, describe_fully(call), own(), describe_fully(call_)).what();
  }
  return "";
}

std::string ShmBoard::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool ShmBoard::process_has_ended(int rank) const {
  if (processes_[rank] < 0) {
    const int process = state_of(rank).process;
    return process != getpid() && kill(process, 0) != 0 && errno == ESRCH;
  }
  pollfd process{.fd = processes_[rank], .events = POLLIN, .revents = 0};
  return poll(&process, 1, 0) == 1;
}

// Returns why a wait for `peer` fails, or "". Only ranks that wait for a rank miss it if it has
// left normally.
std::string ShmBoard::failure_reason(int peer) const {
  if (verdict().state == Verdict::reason_complete) return verdict().reason.data();
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == own()) continue;
    const uint32_t presence = state_of(rank).presence;
    const std::string loss = "lost " + name_rank(membership_, rank) + ": ";
    if (presence == lost) return loss + state_of(rank).farewell.data();
    if (presence == left && rank == peer) return loss + "connection closed";
    if (presence == present && process_has_ended(rank)) return loss + "its process has ended";
  }
  return other_call();
}

template <typename Over>
void ShmBoard::check(int peer, const Over& over) {
  if (const std::string why = closed(); !why.empty()) throw CallFailure(why);
  const std::string found = failure_reason(peer);
  // Checks `over` again: what a rank did before it left counts.
  if (!found.empty() && !over()) fail(CallFailure(found));
}

void ShmBoard::fail(const CallFailure& failure) {
  uint32_t none = 0;
  if (verdict().state.compare_exchange_strong(none, Verdict::being_written)) {
    write_text(verdict().reason, failure.what());
    verdict().state = Verdict::reason_complete;
  }
  throw failure;
}

void ShmBoard::close(const std::string& why, bool aborted) {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return;
  closed_ = (aborted ? "was aborted: " : "found its group closed by an earlier failure: ") + why;
  RankState& mine = state_of(own());
  write_text(mine.farewell, why);
  mine.presence = lost;
  for (int rank = 0; rank < size(); ++rank) ring_bell(rank);
}

}  // namespace colossal::comm
