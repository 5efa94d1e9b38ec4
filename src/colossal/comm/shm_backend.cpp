#include "colossal/comm/shm_backend.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/sum.h"

namespace colossal::comm {
namespace {

// Up to this size, two ranks exchange everything, and each sums everything: one phase instead of
// two, with the same bytes.
constexpr int64_t kAtOnceBytes = int64_t{64} << 10;
constexpr int64_t kAreaAlignment = 64;
// Up to this size, copying through slots is faster than reading in place, which needs one more
// phase: a call may end only when peers have read.
constexpr int64_t kCopiedBytes = int64_t{256} << 10;
// Bytes of each part that an all-reduce over shared memory handles between two phases.
constexpr int64_t kPieceBytes = int64_t{512} << 10;
// Bytes of sums that are made in the first-level cache and then copied.
constexpr int64_t kSumBytes = int64_t{16} << 10;

// Returns the bytes of each rank's part in a round, when the parts of all ranks share one slot.
int64_t slice_bytes(int ranks) {
  return ShmBoard::kSlotBytes / ranks / kAreaAlignment * kAreaAlignment;
}

int64_t rounds_for(int64_t largest_part, int64_t slice) {
  return std::max<int64_t>(1, (largest_part + slice - 1) / slice);
}

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

ShmBackend::ShmBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                       std::chrono::milliseconds timeout, SharedMemory memory)
    : PointToPointBackend(membership, std::move(ledger), timeout),
      board_(std::move(memory), std::move(membership), timeout),
      outgoing_(size()),
      incoming_(size()),
      writers_(size()) {}

ShmBackend::~ShmBackend() = default;

ShmBackend::Parts ShmBackend::parts_of(Counts counts, int64_t element_bytes) const {
  Parts parts{offsets_of(counts), element_bytes};
  for (int64_t& begin : parts.begin) begin *= element_bytes;
  return parts;
}

int64_t ShmBackend::Parts::largest() const {
  int64_t largest = 0;
  for (size_t rank = 0; rank + 1 < begin.size(); ++rank) {
    largest = std::max(largest, bytes_of(static_cast<int>(rank)));
  }
  return largest;
}

int64_t ShmBackend::Parts::size(int rank, int64_t round, int64_t slice) const {
  return std::clamp<int64_t>(bytes_of(rank) - round * slice, 0, slice);
}

int64_t ShmBackend::expose_slices(const std::byte* full, const Parts& parts, int64_t round,
                                  int64_t slice, std::byte* slot) {
  int64_t exposed = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const int64_t bytes = parts.size(peer, round, slice);
    writers_[peer].copy(slot + peer * slice, full + parts.begin[peer] + round * slice, bytes);
    exposed += bytes;
  }
  return exposed;
}

void ShmBackend::sum_slice(const std::byte* full, const Parts& parts, int64_t round, int64_t slice,
                           const ShmBoard::Slots& slots, at::ScalarType type, std::byte* out,
                           at::ScalarType out_type) {
  std::vector<const void*> sources(size());
  for (int source = 0; source < size(); ++source) {
    sources[source] = source == rank() ? full + parts.begin[rank()] + round * slice
                                       : slots[source] + rank() * slice;
  }
  sum_in_rank_order(sources, parts.size(rank(), round, slice) / parts.element_bytes, type, out,
                    out_type);
}

void ShmBackend::all_reduce(const Call& call, const at::Tensor& tensor) {
  const Deadline deadline = new_deadline();
  std::byte* full = memory_of(tensor);
  if (size() == 2 && call.bytes <= kAtOnceBytes) return all_reduce_at_once(call, full, deadline);
  const std::vector<int64_t> counts = even_counts(tensor.numel(), size());
  const Parts parts = parts_of(counts, tensor.element_size());
  if (const auto memory = announce(call, counts, tensor, deadline); !memory.empty()) {
    all_reduce_shared(memory, parts, call.type, deadline);
    const int64_t own_bytes = parts.bytes_of(rank());
    return book_wire(call, call.bytes - own_bytes + (size() - 1) * own_bytes);
  }
  const int64_t slice = slice_bytes(size());
  int64_t sent = 0;
  board_.stream_reduced(
      rounds_for(parts.largest(), slice),
      [&](int64_t round, std::byte* slot) {
        sent += expose_slices(full, parts, round, slice, slot);
      },
      [&](int64_t round, const ShmBoard::Slots& slots) {
        std::byte* sum = full + parts.begin[rank()] + round * slice;
        const int64_t bytes = parts.size(rank(), round, slice);
        sum_slice(full, parts, round, slice, slots, call.type, sum, call.type);
        writers_[rank()].copy(slots[rank()] + rank() * slice, sum, bytes);
        sent += (size() - 1) * bytes;
      },
      [&](int64_t round, const ShmBoard::Slots& slots) {
        for (int source = 0; source < size(); ++source) {
          if (source == rank()) continue;
          copy_bytes(full + parts.begin[source] + round * slice, slots[source] + source * slice,
                     parts.size(source, round, slice));
        }
      },
      deadline);
  book_wire(call, sent);
}

void ShmBackend::all_reduce_at_once(const Call& call, std::byte* memory, const Deadline& deadline) {
  board_.show(call, {});
  writers_[rank()].copy(board_.own_slot(deadline), memory, call.bytes);
  board_.next_phase(deadline);
  std::array<const void*, 2> sources{board_.slot(0), board_.slot(1)};
  sum_in_rank_order(sources, call.bytes / static_cast<int64_t>(c10::elementSize(call.type)),
                    call.type, memory, call.type);
  board_.next_round();
  book_wire(call, call.bytes);
}

void ShmBackend::reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                                Counts counts) {
  const Deadline deadline = new_deadline();
  const Parts parts = parts_of(counts, full.element_size());
  if (const auto memory = announce(call, counts, full, deadline); !memory.empty()) {
    reduce_scatter_shared(memory, parts, call.type, part, deadline);
    return book_wire(call, call.bytes - parts.bytes_of(rank()));
  }
  const int64_t slice = slice_bytes(size());
  const int64_t slice_elements = slice / full.element_size();
  int64_t sent = 0;
  board_.stream(
      rounds_for(parts.largest(), slice),
      [&](int64_t round, std::byte* slot) {
        sent += expose_slices(memory_of(full), parts, round, slice, slot);
      },
      [&](int64_t round, const ShmBoard::Slots& slots) {
        sum_slice(memory_of(full), parts, round, slice, slots, call.type,
                  memory_of(part) + round * slice_elements * part.element_size(),
                  part.scalar_type());
      },
      deadline);
  book_wire(call, sent);
}

void ShmBackend::all_gather(const Call& call, const at::Tensor& full, Counts counts) {
  const Deadline deadline = new_deadline();
  const Parts parts = parts_of(counts, full.element_size());
  if (const auto shared = announce(call, counts, full, deadline); !shared.empty()) {
    all_gather_shared(shared, parts, deadline);
    return book_wire(call, (size() - 1) * parts.bytes_of(rank()));
  }
  constexpr int64_t kSlice = ShmBoard::kSlotBytes;
  std::byte* memory = memory_of(full);
  int64_t sent = 0;
  board_.stream(
      rounds_for(parts.largest(), kSlice),
      [&](int64_t round, std::byte* slot) {
        const int64_t own_bytes = parts.size(rank(), round, kSlice);
        writers_[rank()].copy(slot, memory + parts.begin[rank()] + round * kSlice, own_bytes);
        sent += (size() - 1) * own_bytes;
      },
      [&](int64_t round, const ShmBoard::Slots& slots) {
        for (int source = 0; source < size(); ++source) {
          if (source == rank()) continue;
          copy_bytes(memory + parts.begin[source] + round * kSlice, slots[source],
                     parts.size(source, round, kSlice));
        }
      },
      deadline);
  book_wire(call, sent);
}

std::vector<std::byte*> ShmBackend::announce(const Call& call, Counts counts,
                                             const at::Tensor& tensor, const Deadline& deadline) {
  const auto found = call.bytes > kCopiedBytes ? regions_->find(tensor) : std::nullopt;
  board_.show(call, counts, found ? found->place : SharedRegions::Place{});
  if (!found) return {};
  board_.next_phase(deadline);
  if (!board_.one_region()) return {};
  std::vector<std::byte*> memory;
  for (int peer = 0; peer < size(); ++peer) {
    memory.push_back(found->of(peer, board_.place_of(peer).offset));
  }
  return memory;
}

// Works in pieces, so that peers copy sums that are still in a cache. A rank overwrites only what
// its peers have already read.
void ShmBackend::all_reduce_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                                   at::ScalarType type, const Deadline& deadline) {
  std::vector<const void*> sources(size());
  alignas(64) std::array<std::byte, kSumBytes> sum;
  for (int64_t round = 0; round < rounds_for(parts.largest(), kPieceBytes); ++round) {
    const auto place = [&](int owner, int part) {
      return memory[owner] + parts.begin[part] + round * kPieceBytes;
    };
    const int64_t own_bytes = parts.size(rank(), round, kPieceBytes);
    const auto sum_into = [&](std::byte* out, int64_t begin, int64_t bytes) {
      for (int peer = 0; peer < size(); ++peer) sources[peer] = place(peer, rank()) + begin;
      sum_in_rank_order(sources, bytes / parts.element_bytes, type, out, type);
    };
    sum_writer_.write(
        own_bytes, [&] { sum_into(place(rank(), rank()), 0, own_bytes); },
        [&] {
          for (int64_t begin = 0; begin < own_bytes; begin += kSumBytes) {
            const int64_t bytes = std::min(kSumBytes, own_bytes - begin);
            sum_into(sum.data(), begin, bytes);
            copy_past_caches(place(rank(), rank()) + begin, sum.data(), bytes);
          }
        });
    board_.next_phase(deadline);
    for (int source = 0; source < size(); ++source) {
      if (source == rank()) continue;
      copy_writer_.copy(place(rank(), source), place(source, source),
                        parts.size(source, round, kPieceBytes));
    }
  }
  board_.next_phase(deadline);  // from here on, peers do not read this rank's memory
}

void ShmBackend::reduce_scatter_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                                       at::ScalarType type, const at::Tensor& part,
                                       const Deadline& deadline) {
  std::vector<const void*> sources;
  for (std::byte* full : memory) sources.push_back(full + parts.begin[rank()]);
  sum_in_rank_order(sources, part.numel(), type, memory_of(part), part.scalar_type());
  board_.next_phase(deadline);
}

void ShmBackend::all_gather_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                                   const Deadline& deadline) {
  for (int source = 0; source < size(); ++source) {
    if (source == rank()) continue;
    copy_bytes(memory[rank()] + parts.begin[source], memory[source] + parts.begin[source],
               parts.bytes_of(source));
  }
  board_.next_phase(deadline);
}

c10::DataPtr ShmBackend::shared_memory(const Call& call) {
  const Deadline deadline = new_deadline();
  const int64_t stride = SharedRegions::stride_for(call.bytes);
  board_.show(call, {});
  try {
    std::optional<SharedMemory> memory;
    if (rank() == 0) {
      memory.emplace(SharedMemory::create(stride * size()));
      const std::string address = memory->address();
      std::memcpy(board_.own_slot(deadline), address.c_str(), address.size() + 1);
    }
    board_.next_phase(deadline);
    if (rank() != 0) {
      memory.emplace(SharedMemory::open(reinterpret_cast<const char*>(board_.slot(0))));
    }
    board_.next_phase(deadline);
    board_.next_round();
    memory->seal();
    return regions_->add(std::move(*memory), stride, rank());
  } catch (const CommError& error) {
    throw CallFailure(fmt::format("failed: {}", error.what()));
  }
}

void ShmBackend::barrier(const Call& call) {
  board_.show(call, {});
  board_.next_phase(new_deadline());
  board_.next_round();
}

// While a rank waits for one message, it moves all messages that can move.
class ShmBackend::RingTransfer final : public Transfer {
 public:
  RingTransfer(ShmBackend& backend, std::deque<std::shared_ptr<Message>>& queue, Message message,
               int peer, const char* missing)
      : backend_(backend),
        queue_(queue),
        message_(std::make_shared<Message>(message)),
        peer_(peer),
        missing_(missing) {
    queue_.push_back(message_);
  }
  ~RingTransfer() override { std::erase(queue_, message_); }

  void wait(const Deadline& deadline) override {
    while (true) {
      const uint32_t seen = backend_.board_.bell();
      const bool moved = backend_.move_messages();
      if (message_->done) return;
      if (!moved) backend_.board_.wait_for_bell(seen, peer_, missing_, deadline);
    }
  }

 private:
  ShmBackend& backend_;
  std::deque<std::shared_ptr<Message>>& queue_;
  std::shared_ptr<Message> message_;
  int peer_;
  const char* missing_;
};

TransferPointer ShmBackend::post_send(Kind kind, const void* memory, int64_t bytes, int to) {
  auto* bytes_of = static_cast<std::byte*>(const_cast<void*>(memory));
  auto transfer = std::make_unique<RingTransfer>(
      *this, outgoing_[to], Message{kind, bytes_of, bytes}, to, " did not receive");
  move_out(to);
  return transfer;
}

TransferPointer ShmBackend::post_receive(Kind kind, void* memory, int64_t bytes, int from) {
  return std::make_unique<RingTransfer>(*this, incoming_[from],
                                        Message{kind, static_cast<std::byte*>(memory), bytes}, from,
                                        kind == Kind::header ? " did not arrive" : " did not send");
}

bool ShmBackend::move_messages() {
  bool moved = false;
  for (int peer = 0; peer < size(); ++peer) {
    if (!outgoing_[peer].empty()) moved |= move_out(peer);
    if (!incoming_[peer].empty()) moved |= move_in(peer);
  }
  return moved;
}

bool ShmBackend::move_out(int peer) {
  ShmBoard::Ring& ring = board_.ring(rank(), peer);
  auto& queue = outgoing_[peer];
  const uint64_t begin = ring.sent.load(std::memory_order_relaxed);
  uint64_t sent = begin;
  while (!queue.empty() &&
         sent - ring.received.load(std::memory_order_acquire) < ShmBoard::kFrames) {
    Message& message = *queue.front();
    ShmBoard::Frame& frame = ring.frames[sent % ShmBoard::kFrames];
    frame.kind = static_cast<int64_t>(message.kind);
    frame.message_bytes = message.bytes;
    frame.piece_bytes = std::min(ShmBoard::kFrameBytes, message.bytes - message.moved);
    writers_[peer].copy(frame.data, message.memory + message.moved, frame.piece_bytes);
    message.moved += frame.piece_bytes;
    ring.sent.store(++sent, std::memory_order_release);
    if (message.moved < message.bytes) continue;
    message.done = true;
    queue.pop_front();
  }
  if (sent != begin) board_.ring_bell(peer);
  return sent != begin;
}

bool ShmBackend::move_in(int peer) {
  ShmBoard::Ring& ring = board_.ring(peer, rank());
  auto& queue = incoming_[peer];
  const uint64_t begin = ring.received.load(std::memory_order_relaxed);
  uint64_t received = begin;
  while (!queue.empty() && received < ring.sent.load(std::memory_order_acquire)) {
    Message& message = *queue.front();
    const ShmBoard::Frame& frame = ring.frames[received % ShmBoard::kFrames];
    // Ranks that disagree on a message wait. The headers, which are sent first, say why.
    if (frame.kind != static_cast<int64_t>(message.kind) || frame.message_bytes != message.bytes) {
      break;
    }
    copy_bytes(message.memory + message.moved, frame.data, frame.piece_bytes);
    message.moved += frame.piece_bytes;
    ring.received.store(++received, std::memory_order_release);
    if (message.moved < message.bytes) continue;
    message.done = true;
    queue.pop_front();
  }
  if (received != begin) board_.ring_bell(peer);
  return received != begin;
}

}  // namespace colossal::comm
