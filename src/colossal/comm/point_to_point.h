// Implements collectives by direct exchange: every part is sent once, straight to the rank that
// needs it (only a broadcast goes along a chain). The bytes are therefore those of the law, and
// sums are made in rank order. The algorithms of communication libraries lack one of these
// properties: Gloo's reduce-scatter is an all-reduce, and rings sum each part in a different order.
#pragma once

#include <cstddef>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/exchange.h"

namespace colossal::comm {

class PointToPointBackend : public Backend, protected Transport {
 public:
  using Backend::Backend;

  void all_reduce(const Call& call, const at::Tensor& tensor) override;
  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override;
  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override;
  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override;
  void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) override;
  void broadcast(const Call& call, const at::Tensor& tensor, int root) override;
  void send(const Call& call, const at::Tensor& tensor, int to) override;
  void receive(const Call& call, const at::Tensor& tensor, int from) override;
  void barrier(const Call& call) override;

  // Called before the messages of a call in which not all ranks of the group take part, such as
  // send(). Throws CallFailure if the group has ended.
  virtual void begin_messages() {}
  // The transport, for algorithms over several backends.
  Transport& transport() { return *this; }

 protected:
  void end(const Call& call, Exchange& exchange);
  // Returns how many elements of a part are moved at a time. Depends only on element_bytes and the
  // number of ranks, so all ranks agree.
  int64_t buffer_elements(int64_t element_bytes) const;

 private:
  class PartReceiver;

  Exchange begin(const Call& call);
  std::vector<int> peers() const;  // all other ranks, starting with the next rank
  // Begins to exchange headers with all peers. Counts: elements sent to and received from each.
  void greet_all(Exchange& exchange, Counts send_counts, Counts receive_counts,
                 int64_t element_bytes);
  void scatter_and_sum(Exchange& exchange, const at::Tensor& full, void* part,
                       at::ScalarType part_type, Counts counts);
  void gather(Exchange& exchange, const at::Tensor& full, Counts counts);

  std::vector<std::byte> scratch_;  // peers' parts until they are summed; see kScratchBytes
};

}  // namespace colossal::comm
