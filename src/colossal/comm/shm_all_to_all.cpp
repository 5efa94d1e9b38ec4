#include <algorithm>
#include <cstring>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/shm_backend.h"

namespace colossal::comm {
namespace {

// A rank's slot in a round of an all-to-all: the bytes of its parts for all ranks, then a slice of
// its part for each other rank, beginning with the next rank.
struct AllToAllSlot {
  explicit AllToAllSlot(int ranks)
      : ranks(ranks),
        begin(aligned(ranks * static_cast<int64_t>(sizeof(int64_t)))),
        slice((ShmBoard::kSlotBytes - begin) / (ranks - 1) / kAlignment * kAlignment) {}

  std::byte* slice_of(std::byte* slot, int from, int to) const {
    return slot + begin + slice * ((to - from - 1 + ranks) % ranks);
  }

  // Returns the bytes of the parts: ranks values.
  int64_t* parts(std::byte* slot) const { return reinterpret_cast<int64_t*>(slot); }
  // Returns the bytes of the largest part for another rank, in the slots of all ranks.
  int64_t largest_part(const std::vector<std::byte*>& slots) const {
    int64_t largest = 0;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        if (to != from) largest = std::max(largest, parts(slots[from])[to]);
      }
    }
    return largest;
  }

  int ranks;
  int64_t begin;  // offset of the slices
  int64_t slice;  // bytes

 private:
  static constexpr int64_t kAlignment = 64;
  static int64_t aligned(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

}  // namespace

void ShmBackend::all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                            const at::Tensor& receive, Counts receive_counts) {
  const Deadline deadline = new_deadline();
  const AllToAllSlot layout(size());
  const Parts sent = parts_of(send_counts, send.element_size());
  const Parts received = parts_of(receive_counts, receive.element_size());
  const auto check = [&](int source, int64_t bytes) {
    if (bytes == received.bytes_of(source)) return;
    throw CallFailure(fmt::format("does not match: {} sends {} B to {}, which expects {} B",
                                  name_rank(membership(), source), bytes,
                                  name_rank(membership(), rank()), received.bytes_of(source)));
  };
  const auto write = [&](int64_t round, std::byte* slot) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      writers_[peer].copy(layout.slice_of(slot, rank(), peer),
                          memory_of(send) + sent.begin[peer] + round * layout.slice,
                          sent.size(peer, round, layout.slice));
    }
  };
  const auto read = [&](int64_t round, const auto& slots) {
    for (int source = 0; source < size(); ++source) {
      const int64_t bytes = received.size(source, round, layout.slice);
      if (source == rank() || bytes == 0) continue;
      std::memcpy(memory_of(receive) + received.begin[source] + round * layout.slice,
                  layout.slice_of(slots[source], source, rank()), bytes);
    }
  };
  const auto copy_own_part = [&] {
    const int64_t bytes = sent.bytes_of(rank());
    if (bytes == 0) return;
    std::memcpy(memory_of(receive) + received.begin[rank()], memory_of(send) + sent.begin[rank()],
                bytes);
  };

  check(rank(), sent.bytes_of(rank()));
  board_.show(call, {});
  std::byte* own = board_.own_slot(deadline);
  for (int peer = 0; peer < size(); ++peer) layout.parts(own)[peer] = sent.bytes_of(peer);
  write(0, own);
  copy_own_part();
  board_.next_phase(deadline);
  std::vector<std::byte*> slots;
  for (int source = 0; source < size(); ++source) {
    slots.push_back(board_.slot(source));
    check(source, layout.parts(slots[source])[rank()]);
  }
  const int64_t rounds = (layout.largest_part(slots) + layout.slice - 1) / layout.slice;
  read(0, slots);
  board_.next_round();
  if (rounds > 1) {
    board_.stream(
        rounds - 1, [&](int64_t round, std::byte* slot) { write(round + 1, slot); },
        [&](int64_t round, const ShmBoard::Slots& all) { read(round + 1, all); }, deadline);
  }
  book_wire(call, sent.begin.back() - sent.bytes_of(rank()));
}

}  // namespace colossal::comm
