// The backend for processes of one host, over shared memory. Sums and gathers read directly from
// the memory of all ranks, in rank order; messages between two ranks go through rings. Data that
// peers must read is first copied into slots (shm_board.h), unless it is already in memory that the
// group shares (shared_regions.h).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "colossal/comm/peer_writer.h"
#include "colossal/comm/point_to_point.h"
#include "colossal/comm/shared_regions.h"
#include "colossal/comm/shm_board.h"

namespace colossal::comm {

class ShmBackend final : public PointToPointBackend {
 public:
  // Collective, like ShmBoard's constructor.
  ShmBackend(Membership membership, std::shared_ptr<Ledger> ledger,
             std::chrono::milliseconds timeout, SharedMemory memory);
  ~ShmBackend() override;

  void all_reduce(const Call& call, const at::Tensor& tensor) override;
  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override;
  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override;
  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override;
  void barrier(const Call& call) override;
  c10::DataPtr shared_memory(const Call& call) override;

  void begin_messages() override { board_.begin_message(); }
  void close(const std::string& why) override { board_.close(why, /*aborted=*/false); }
  void abort(const std::string& why) override { board_.close(why, /*aborted=*/true); }

 private:
  class RingTransfer;
  struct Message {
    Kind kind;
    std::byte* memory;
    int64_t bytes;
    int64_t moved = 0;
    bool done = false;
  };

  // The parts of a tensor, one per rank.
  struct Parts {
    std::vector<int64_t> begin;  // in bytes; number of ranks + 1 values
    int64_t element_bytes;
    int64_t bytes_of(int rank) const { return begin[rank + 1] - begin[rank]; }
    int64_t largest() const;
    // Returns how many bytes of `rank`'s part round `round` moves, if each round moves `slice`
    // bytes of each part as long as there are any.
    int64_t size(int rank, int64_t round, int64_t slice) const;
  };
  Parts parts_of(Counts counts, int64_t element_bytes) const;

  // Shows the peers a call on `tensor`. If the tensors of all ranks are in one region, waits for
  // all ranks and returns the tensors' addresses in this process, by rank. Otherwise returns an
  // empty vector, and the call must go through slots.
  std::vector<std::byte*> announce(const Call& call, Counts counts, const at::Tensor& tensor,
                                   const Deadline& deadline);
  // These run the collectives on tensors in one region. memory: the address of each rank's tensor.
  void all_reduce_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                         at::ScalarType type, const Deadline& deadline);
  void reduce_scatter_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                             at::ScalarType type, const at::Tensor& part, const Deadline& deadline);
  void all_gather_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                         const Deadline& deadline);

  // slice: bytes of each part that a round moves, as in Parts::size(). Sums round `round`'s slice
  // of this rank's part over all ranks; peers' terms are in their slots.
  void sum_slice(const std::byte* full, const Parts& parts, int64_t round, int64_t slice,
                 const ShmBoard::Slots& slots, at::ScalarType type, std::byte* out,
                 at::ScalarType out_type);
  // Copies round `round`'s slices of the other ranks' parts into this rank's slot, one area per
  // rank. Returns the number of bytes copied.
  int64_t expose_slices(const std::byte* full, const Parts& parts, int64_t round, int64_t slice,
                        std::byte* slot);
  // For two ranks and a tensor that fits in one slot.
  void all_reduce_at_once(const Call& call, std::byte* memory, const Deadline& deadline);

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;
  // Move queued messages into and out of rings, as far as possible without waiting. Return whether
  // any bytes moved.
  bool move_messages();
  bool move_out(int peer);
  bool move_in(int peer);

  ShmBoard board_;
  std::shared_ptr<SharedRegions> regions_ = std::make_shared<SharedRegions>();
  std::vector<std::deque<std::shared_ptr<Message>>> outgoing_, incoming_;  // by peer
  // By peer: one per reader, since peers may be near or far. This rank's own entry is for data that
  // all peers read.
  std::vector<PeerWriter> writers_;
  // For writes to shared memory whose sources are also in shared memory, maybe of far peers.
  PeerWriter sum_writer_{2}, copy_writer_{2};
};

}  // namespace colossal::comm
