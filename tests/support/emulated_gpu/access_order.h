// Finds accesses to the same bytes that nothing orders: a kernel that reads on one stream what
// another stream writes, without an event between them. It needs no luck: kernels are compared when
// they are launched, by vector clocks (L. Lamport, "Time, Clocks, and the Ordering of Events in a
// Distributed System", 1978; C. Flanagan and S. Freund, "FastTrack", 2009), whenever they run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::emulated_gpu {

// Something that does one thing after another: the host (all of its threads together) or a stream.
using Actor = uint32_t;
constexpr Actor kHost = 0;

// What an actor knows: for each actor, how many of its actions happened before.
class Clock {
 public:
  uint64_t at(Actor actor) const { return actor < times_.size() ? times_[actor] : 0; }
  // What `other` knows happened before, too.
  void join(const Clock& other);
  // Counts an action of `actor` and returns its time.
  uint64_t advance(Actor actor);

 private:
  std::vector<uint64_t> times_;
};

struct Access {
  Actor actor = kHost;
  uint64_t time = 0;                  // of the actor
  const std::string* what = nullptr;  // the kernel; never freed

  // Whether an actor with this clock does what it does after the access.
  bool is_before(const Clock& clock) const { return clock.at(actor) >= time; }
};

// Addresses [begin, end).
struct Bytes {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// The last accesses to each byte of a memory.
class AccessHistory {
 public:
  // Return an earlier access that is not before this one although one of the two writes. clock: of
  // the actor of `access`. The access is recorded in any case.
  std::optional<Access> read(const Bytes& bytes, const Access& access, const Clock& clock);
  std::optional<Access> write(const Bytes& bytes, const Access& access, const Clock& clock);
  // Forgets all accesses to these bytes, which are known to be done.
  void forget(const Bytes& bytes);

 private:
  struct Part {
    uintptr_t end = 0;
    std::optional<Access> write;
    std::vector<Access> reads;  // since the write; the last of each actor
  };
  using Parts = std::map<uintptr_t, Part>;  // by their first byte; they do not overlap

  // Cuts parts so that one begins at `address`, if a part has it.
  void cut(uintptr_t address);
  // Returns the first part of these bytes, after cutting parts at both ends and adding parts
  // without accesses where there were none.
  Parts::iterator parts_of(const Bytes& bytes);

  Parts parts_;
};

}  // namespace colossal::emulated_gpu
