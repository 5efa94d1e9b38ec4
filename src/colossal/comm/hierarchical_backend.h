// The backend for a group whose ranks are on several hosts, with several ranks on at least one
// host. Ranks of one host communicate over shared memory, hosts over TCP. A collective sends each
// byte to a host at most once, and the ranks of a host share the traffic between hosts.
//
// Each rank r has an agent on each host: a rank of that host, which handles r's part of a tensor
// there (Hosts::agent()). On its own host, r is its own agent. The clients of a rank are the ranks
// whose agent it is. The collectives:
//   reduce_scatter  For each rank r, every agent of r sums r's part over the ranks of its host and
//                   sends the sum to r. Then r adds the sums of all hosts.
//   all_gather      Each rank sends its part to its agents. Agents distribute parts on their hosts.
//   all_reduce      A reduce_scatter and an all_gather of parts as even as possible.
//   broadcast       The root's agents form a chain over the hosts. Agents distribute the tensor on
//                   their hosts.
//   barrier         The ranks of each host meet, then the first ranks of all hosts, then the ranks
//                   of each host again.
// All other calls send messages directly between ranks. Hosts may have different numbers of ranks,
// and the ranks of a host need not be consecutive. Example: with three ranks on one host and one
// rank on another, the single rank is the agent of all three on its host.
//
// Sums are made in rank order within each host, then over hosts in the order of their first ranks.
// bf16 and fp16 are summed in fp32 and rounded once at the end, so hosts send their sums in fp32.
// Between hosts, reducing bf16 tensors therefore sends as many bytes as reducing fp32 tensors.
// Apart from that, all ranks together send, within and between hosts, the bytes that law.h gives
// for all ranks. Each single rank sends what law.h gives for it if all hosts have equally many
// ranks and all parts are equal.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "colossal/comm/hosts.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

class HierarchicalBackend final : public PointToPointBackend {
 public:
  // membership, hosts: of the whole group. within: connects the ranks of this host, in group order;
  // null if this rank is alone on its host. between: connects all ranks of the group over TCP.
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
  void abort(const std::string& why) override;

 private:
  void end_group(const std::string& why) override;

  // Divides the parts of a tensor into pieces, called buffers. A call moves one buffer of each part
  // per round, which bounds the size of staged_, sums_ and received_. All values are in elements.
  struct Buffers {
    Counts counts;                 // of the parts
    std::vector<int64_t> offsets;  // of the parts
    int64_t largest, rounds;       // size of a full buffer; number of rounds
    // limit: maximum size of a buffer.
    Buffers(Counts counts, int64_t limit);
    // Offset and size of the buffer of `rank`'s part in round `round`. Size 0: no buffer is left.
    int64_t begin(int rank, int64_t round) const { return offsets[rank] + round * largest; }
    int64_t size(int rank, int64_t round) const;
  };
  class HostSums;  // runs the reduce_scatter, also of an all_reduce

  // Returns the ranks of this host.
  const std::vector<int>& own_host() const { return hosts_.members[hosts_.host[rank()]]; }
  // Returns this rank's clients: itself, and the ranks of other hosts whose agent it is.
  const std::vector<int>& own_clients() const { return clients_[hosts_.place[rank()]]; }
  // Returns the number of rows: the most clients that a rank of this host has. Row k consists of
  // the k-th client in clients_[i] of each rank i of this host. Collectives within a host run once
  // per row and round.
  int num_rows() const;

  // Both return *within_, which must not be null. within_first() is for the calls before the
  // messages between hosts, and sets their grace (Backend::set_grace()) to 0. within_last() is for
  // the calls after those messages, and sets their grace to 2 * grace_.
  PointToPointBackend& within_first();
  PointToPointBackend& within_last();
  // Returns the Exchange for the messages of `call` between hosts.
  Exchange& begin_between(const Call& call);
  // Begins to exchange headers, which say what call the sender makes (exchange.h), between ranks
  // and their agents on other hosts. sum_bytes: bytes per element that the call's reduce_scatter
  // sends, 0 if the call has no reduce_scatter. gather_bytes: bytes per element that the call's
  // all_gather sends, 0 if the call has no all_gather.
  void announce(Exchange& exchange, Counts counts, int64_t sum_bytes, int64_t gather_bytes);

  // Runs an all_gather of the parts of `full`.
  void gather(Exchange& exchange, const Call& call, const at::Tensor& full, Counts counts);
  // Copies the buffers of one round, which agents on this host have received, to all ranks of this
  // host.
  void distribute_within_host(const Call& call, const at::Tensor& full, const Buffers& buffers,
                              int64_t round);
  // Returns, for each rank of this host, the size in elements of the buffer of its client in row
  // `row`; 0 if the rank has no client in this row. The backend within the host compares the counts
  // of its ranks. Since each count is the size of a single buffer, not a sum over clients, it
  // thereby finds ranks that disagree on the sizes of parts.
  std::vector<int64_t> row_counts(const Buffers& buffers, int64_t round, int row) const;
  // Returns a tensor in staged_ in which the buffers of row `row` lie one after the other. For each
  // non-empty buffer, calls copy(index on this host of the agent, address of the buffer in `full`,
  // its address in staged_, its bytes), which copies the buffer in either direction or not at all.
  template <typename Copy>
  at::Tensor stage(const at::Tensor& full, const Buffers& buffers, int64_t round, int row,
                   const Copy& copy);

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  Hosts hosts_;
  std::shared_ptr<PointToPointBackend> within_;
  std::shared_ptr<PointToPointBackend> between_;
  std::vector<std::vector<int>> clients_;  // clients of each rank of this host, in group order
  // A collective has up to three phases: within the host, between hosts, within the host again. The
  // timeout of the second phase is longer than that of the first by grace_, that of the third by
  // 2 * grace_. So a rank that waits in an earlier phase times out first, and reports the cause.
  std::chrono::milliseconds grace_;
  // Temporary memory. staged_: the buffers of a row. sums_, received_: for two rounds, this host's
  // sums for this rank's clients, and the sums of this rank's part from other hosts.
  std::vector<std::byte> staged_, sums_, received_;
};

}  // namespace colossal::comm
