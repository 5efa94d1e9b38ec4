// Ranks on several hosts: shared memory within a host, TCP between hosts. Collectives send every
// byte to a host only once, however many ranks it has, and the ranks of a host share its traffic.
//
// Each rank has an agent on every other host (hosts.h), which handles the rank's part of a tensor
// there. On its own host the rank does so itself.
//   reduce_scatter  on each host, the agent sums the part over the ranks of that host and sends
//                   the sum to the rank, which adds the sums of all hosts
//   all_gather      the rank sends its part to its agents, which distribute it within their hosts
//   all_reduce      a reduce_scatter, then an all_gather, of even parts over all ranks
//   broadcast       a chain of the root's agents, which distribute within their hosts
// All other calls are direct messages between ranks, through shared memory within a host. Hosts may
// have different numbers of the group's ranks, and ranks may be on hosts in any order. With three
// ranks on one host and one on another, the single rank is the agent of all three.
//
// Sums are made in rank order within each host, then over hosts in the order of their first ranks.
// bf16 and fp16 are summed in fp32 and rounded once at the end, so a host's sum is sent in fp32:
// between hosts, reducing bf16 tensors costs as much as reducing fp32 tensors. Apart from that, the
// bytes that all ranks send, within and between hosts, add up to the law; if hosts have equal
// numbers of ranks and parts are equal, each rank sends what the law says.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "colossal/comm/hosts.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

class HierarchicalBackend final : public PointToPointBackend {
 public:
  // within: connects the ranks of this host, in group order; null if the rank is alone on its host.
  // between: connects the whole group.
  HierarchicalBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                      std::chrono::milliseconds timeout, Hosts hosts,
                      std::shared_ptr<PointToPointBackend> within,
                      std::shared_ptr<PointToPointBackend> between);

  void all_reduce(const Call& call, const at::Tensor& tensor) override;
  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override;
  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override;
  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override;
  void broadcast(const Call& call, const at::Tensor& tensor, int root) override;
  void barrier(const Call& call) override;

  void begin_messages() override;
  void close(const std::string& why) override;
  void abort(const std::string& why) override;

 private:
  // Divides parts into buffers of at most `limit` elements. Calls move one buffer of each part per
  // round, which bounds the temporary memory: one buffer for each rank of this host, and, for two
  // rounds, this rank's sums for its clients and the data received from other hosts.
  struct Buffers {
    Counts counts;
    std::vector<int64_t> offsets;
    int64_t largest, rounds;
    Buffers(Counts counts, int64_t limit);
    int64_t begin(int rank, int64_t round) const { return offsets[rank] + round * largest; }
    int64_t size(int rank, int64_t round) const;
  };
  class HostSums;

  const std::vector<int>& own_host() const { return hosts_.members[hosts_.host[rank()]]; }
  // Returns this rank's clients: itself, and the ranks of other hosts whose agent it is.
  const std::vector<int>& own_clients() const { return clients_[hosts_.place[rank()]]; }
  int num_rows() const;  // maximum number of clients of a rank of this host

  // The backend within this host, for the phase before the messages between hosts, and for the
  // phase after them (with a longer timeout).
  PointToPointBackend& within_first();
  PointToPointBackend& within_last();
  Exchange begin_between(const Call& call);
  // Exchanges headers between ranks and their agents. sum_bytes, gather_bytes: bytes per element in
  // the call's reduce-scatter and in its all-gather; 0 if it has none.
  void announce(Exchange& exchange, Counts counts, int64_t sum_bytes, int64_t gather_bytes);

  void gather(Exchange& exchange, const Call& call, const at::Tensor& full, Counts counts);
  void distribute_within_host(const Call& call, const at::Tensor& full, const Buffers& buffers,
                              int64_t round);
  // Returns, for each rank of this host, the size in elements of its client number `row`'s buffer.
  // Each count belongs to one part only, so the ranks of a host notice if they disagree on the
  // parts.
  std::vector<int64_t> row_counts(const Buffers& buffers, int64_t round, int row) const;
  // Copies the buffers of a row into one contiguous tensor, or back: calls copy(member, buffer in
  // `full`, place in the contiguous tensor, bytes).
  template <typename Copy>
  at::Tensor stage(const at::Tensor& full, const Buffers& buffers, int64_t round, int row,
                   const Copy& copy);

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  Hosts hosts_;
  std::shared_ptr<PointToPointBackend> within_;
  std::shared_ptr<PointToPointBackend> between_;
  std::vector<std::vector<int>> clients_;  // per rank of this host, in group order
  std::chrono::milliseconds grace_;
  std::vector<std::byte> staged_, sums_, received_;
};

}  // namespace colossal::comm
