// The backend for processes of one host, over shared memory. In all_reduce, reduce_scatter and
// all_gather, ranks read each other's data in shared memory. A rank first copies its data into a
// slot (shm_board.h), unless the tensors are larger than 256 KiB and those of all ranks come from
// one call of shared_empty() (shared_regions.h). An all_to_all always goes through slots
// (shm_all_to_all.cpp). All other calls that move data send messages through rings (shm_board.h).
// backend.h, point_to_point.h and exchange.h describe the functions that are marked `override`
// here.
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
  // memory: ShmBoard::bytes_needed() bytes that all ranks of the group have mapped. Collective:
  // returns when all ranks have called it. Throws CommError if a rank does not call it within
  // `timeout`, which is also the time limit of each call.
  ShmBackend(Membership membership, std::shared_ptr<Ledger> ledger,
             std::chrono::milliseconds timeout, SharedMemory memory);
  ~ShmBackend() override;

  void all_reduce(const Call& call, const at::Tensor& tensor) override;
  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override;
  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override;
  // Counts differ between ranks, so each rank shows its own in its slot, and the first slices of
  // its parts. Further slices follow in as many rounds as the largest part of any rank needs.
  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override;
  void barrier(const Call& call) override;
  c10::DataPtr shared_memory(const Call& call) override;

  void begin_messages() override { board_.begin_message(); }
  void abort(const std::string& why) override { board_.close(why, /*aborted=*/true); }

 private:
  void end_group(const std::string& why) override { board_.close(why, /*aborted=*/false); }

  class RingTransfer;
  // A message that this rank sends or receives through a ring.
  struct Message {
    Kind kind;
    std::byte* memory;
    int64_t bytes;
    int64_t moved = 0;  // bytes that are already copied into or out of the ring
    bool done = false;
  };

  // The parts of a tensor, one per rank. A call moves them in rounds; each round moves the next
  // slice of each part, until the part ends.
  struct Parts {
    std::vector<int64_t> begin;  // offset of each part in bytes, then the tensor's size
    int64_t element_bytes;
    int64_t bytes_of(int rank) const { return begin[rank + 1] - begin[rank]; }
    int64_t largest() const;  // bytes of the largest part
    // Returns the bytes of the part of `rank` that round `round` moves. slice: bytes of a slice.
    int64_t size(int rank, int64_t round, int64_t slice) const;
  };
  // Returns the parts of a tensor. counts: elements of each part.
  Parts parts_of(Counts counts, int64_t element_bytes) const;

  // Begins a call on `tensor`. counts: elements of each rank's part of it. If the tensors of all
  // ranks are in one region (from one call of shared_empty()) and larger than 256 KiB, waits for
  // all ranks and returns the tensors' addresses in this process, by rank. Otherwise returns an
  // empty vector, and the caller must copy the data through slots.
  std::vector<std::byte*> announce(const Call& call, Counts counts, const at::Tensor& tensor,
                                   const Deadline& deadline);
  // Run the collectives on tensors in one region. memory: the result of announce(). type: of the
  // tensors' elements.
  void all_reduce_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                         at::ScalarType type, const Deadline& deadline);
  void reduce_scatter_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                             at::ScalarType type, const at::Tensor& part, const Deadline& deadline);
  void all_gather_shared(const std::vector<std::byte*>& memory, const Parts& parts,
                         const Deadline& deadline);

  // Sums over all ranks the slice of this rank's part that round `round` moves, into `out`. This
  // rank's term is in its tensor `full`, the peers' terms are in `slots`. type: of the terms'
  // elements; out_type: of the sums' elements. slice: bytes of a slice of terms.
  void sum_slice(const std::byte* full, const Parts& parts, int64_t round, int64_t slice,
                 const ShmBoard::Slots& slots, at::ScalarType type, std::byte* out,
                 at::ScalarType out_type);
  // Copies the slices that round `round` moves, of all other ranks' parts of this rank's tensor
  // `full`, into `slot`: for rank r at byte r * slice. Returns the number of bytes copied.
  int64_t expose_slices(const std::byte* full, const Parts& parts, int64_t round, int64_t slice,
                        std::byte* slot);
  // Runs an all_reduce of two ranks in one phase: each rank copies its whole tensor, of at most 64
  // KiB, into its slot and then sums both slots into its tensor. memory: this rank's tensor.
  void all_reduce_at_once(const Call& call, std::byte* memory, const Deadline& deadline);

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;
  // Move queued messages as far as possible without waiting, and return whether anything moved:
  // move_out() into the ring to `peer`, move_in() out of the ring from `peer`, move_messages() both
  // for all peers.
  bool move_messages();
  bool move_out(int peer);
  bool move_in(int peer);

  ShmBoard board_;
  std::shared_ptr<SharedRegions> regions_ = std::make_shared<SharedRegions>();
  std::vector<std::deque<std::shared_ptr<Message>>> outgoing_, incoming_;  // queues, by peer
  // One for each rank that reads what this rank writes, because peers may be on near or far cores.
  // This rank's own entry is for data that all peers read.
  std::vector<PeerWriter> writers_;
  // For all_reduce_shared(), which writes into this rank's own tensor in a region: sum_writer_
  // writes this rank's sums, copy_writer_ the copies of peers' sums. {2} is PeerWriter's `slow`: an
  // ordinary write counts as slow sooner than in writers_, which have the default.
  PeerWriter sum_writer_{2}, copy_writer_{2};
};

}  // namespace colossal::comm
