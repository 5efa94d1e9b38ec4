// Implements collectives by direct exchange: every part travels once, straight to the rank that
// needs it. So the bytes are those of the law, and sums are made in rank order. Libraries' own
// algorithms miss one or the other: Gloo's reduce-scatter is an all-reduce, and rings add each part
// in another order.
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

  // Before messages that no collective call of the whole group announces; throws CallFailure where
  // the group has ended.
  virtual void begin_messages() {}
  // Gives algorithms over several backends access to the transport.
  Transport& transport() { return *this; }

 protected:
  void end(const Call& call, Exchange& exchange);
  // Elements of a buffer of a part: the same on all ranks, as it depends on their number only.
  int64_t buffer_elements(int64_t element_bytes) const;

 private:
  class PartReceiver;

  Exchange begin(const Call& call);
  std::vector<int> peers() const;  // all other ranks, beginning with the next one
  void greet_all(Exchange& exchange, Counts send_counts, Counts receive_counts,
                 int64_t element_bytes);
  void scatter_and_sum(Exchange& exchange, const at::Tensor& full, void* part,
                       at::ScalarType part_type, Counts counts);
  void gather(Exchange& exchange, const at::Tensor& full, Counts counts);

  std::vector<std::byte> scratch_;  // parts of peers until they are summed; see kScratchBytes
};

}  // namespace colossal::comm
