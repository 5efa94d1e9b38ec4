// Ranks on several hosts: memory that is shared between those of a host, TCP between the hosts.
// Every byte goes to each host once, whatever the number of ranks there, and every rank drives a
// share of what its host sends.
//
// A rank's part of a tensor concerns one rank on each host: itself, or there its agent (hosts.h).
//   reduce_scatter  on each host the agent sums the part over the ranks of that host and sends the
//                   sum to the rank, which adds up those of all hosts
//   all_gather      the rank sends its part to its agents, which hand it on within their hosts
//   all_reduce      the one, then the other, of parts cut evenly among all ranks
//   broadcast       a chain of the root's agents, which hand on within their hosts
// All others are messages straight from rank to rank, through memory within a host. Hosts may have
// different numbers of ranks, and any of the group's: with three on one and one on another, the one
// is everybody's agent.
//
// Sums are made in rank order within each host, then over hosts in the order of their first ranks;
// bf16 and fp16 in fp32, rounded once at the end. For that, a host's sum travels in fp32: between
// hosts a sum of bf16 costs what one of fp32 does. Else what all ranks send, within hosts and
// between them, adds up to the law, and where hosts have equal numbers of ranks and parts are equal
// each rank sends what the law says.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "colossal/comm/hosts.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

class HierarchicalBackend final : public PointToPointBackend {
 public:
  // `within`: joins the ranks of this host, in group order; none for a rank alone on its host.
  // `between`: joins the whole group.
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
  // Calls move a buffer of each part at a time, so that the memory they need beside the tensors
  // stays small: a buffer for each rank of this host, and twice the sums of those for which this
  // rank acts and what other hosts sent.
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
  // Returns the ranks for which this rank acts on its host: itself, and the ranks of other hosts
  // whose agent it is.
  const std::vector<int>& own_clients() const { return clients_[hosts_.place[rank()]]; }
  int num_rows() const;  // the most clients that a rank of this host has

  // This host's ranks, in the phase before that between hosts, and in the one after it.
  PointToPointBackend& within_first();
  PointToPointBackend& within_last();
  Exchange begin_between(const Call& call);
  // Headers between ranks and agents. Bytes of an element in a host's sum, and in a gather; 0 where
  // the call has no such half.
  void announce(Exchange& exchange, Counts counts, int64_t sum_bytes, int64_t gather_bytes);

  void gather(Exchange& exchange, const Call& call, const at::Tensor& full, Counts counts);
  void hand_on(const Call& call, const at::Tensor& full, const Buffers& buffers, int64_t round);
  // Returns, for each rank of this host, the element count of its client's buffer in a row. As each
  // count is of a single part, the ranks of a host see where they disagree on the parts.
  std::vector<int64_t> row_counts(const Buffers& buffers, int64_t round, int row) const;
  // Copies buffers of a row side by side, or back: calls copy(member, buffer of `full`, staged,
  // bytes).
  template <typename Copy>
  at::Tensor stage(const at::Tensor& full, const Buffers& buffers, int64_t round, int row,
                   const Copy& copy);

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  Hosts hosts_;
  std::shared_ptr<PointToPointBackend> within_;
  std::shared_ptr<PointToPointBackend> between_;
  std::vector<std::vector<int>> clients_;  // of each rank of this host, in group order
  std::chrono::milliseconds grace_;
  std::vector<std::byte> staged_, sums_, received_;
};

}  // namespace colossal::comm
