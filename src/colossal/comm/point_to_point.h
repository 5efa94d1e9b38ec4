// Implements all calls of a group over point-to-point messages. Each part of a tensor is sent
// directly to each rank that needs it; only a broadcast passes it along a chain of ranks. So each
// rank sends the bytes of the law (law.h), and the receiver can sum in rank order. Communication
// libraries lack one of these properties: Gloo's reduce-scatter sends as much as an all-reduce, and
// rings sum each part in a different order of ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/exchange.h"

namespace colossal::comm {

// Subclasses implement Transport::post_send() and post_receive() (exchange.h), and override the
// collectives for which they have a faster way. Backend documents the overridden functions.
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

  // Ends the group on this rank, then cancels the messages of a call that has failed: a message
  // that is cancelled before the peers know why the group ends can hold back the message that says
  // so.
  void close(const std::string& why) final;
  void abort(const std::string& why) override { end_group(why); }

  // Called at the beginning of rotate(), broadcast(), send() and receive(), in which a rank
  // exchanges messages with some ranks only. An override may throw CallFailure if an earlier
  // failure on any rank has made the group unusable.
  virtual void begin_messages() {}
  // Returns this backend as a Transport, for HierarchicalBackend, which combines two backends.
  Transport& transport() { return *this; }

 protected:
  // Makes later calls of this rank in this group fail, and tells the peers, as Backend::close()
  // says. Called from any thread.
  virtual void end_group(const std::string& why) = 0;

  // Returns the Exchange for `call`, which end() ends; without `deadline`, with a new one. If the
  // call fails, close() ends it.
  Exchange& begin(const Call& call);
  Exchange& begin(const Call& call, Deadline deadline);
  // Waits for the sends of `exchange` and adds their bytes to the ledger.
  void end(const Call& call, Exchange& exchange);
  // Parts of tensors are sent in buffers. Returns the maximum number of elements of a buffer. It
  // depends only on `element_bytes` and the number of ranks, so all ranks get the same result.
  int64_t buffer_elements(int64_t element_bytes) const;

 private:
  class PartReceiver;

  std::vector<int> peers() const;  // all other ranks, starting with the next rank
  // Begins to exchange headers with all peers. send_counts, receive_counts: elements that this rank
  // sends to each rank and receives from each rank.
  void exchange_headers(Exchange& exchange, Counts send_counts, Counts receive_counts,
                        int64_t element_bytes);
  // Runs a reduce_scatter of `full`. part: where this rank's sums go, as elements of `part_type`.
  void scatter_and_sum(Exchange& exchange, const at::Tensor& full, void* part,
                       at::ScalarType part_type, Counts counts);
  // Runs an all_gather into `full`.
  void gather(Exchange& exchange, const at::Tensor& full, Counts counts);

  std::optional<Exchange> exchange_;  // of the running call
  std::vector<std::byte> scratch_;    // received buffers of peers' parts, until they are summed
};

}  // namespace colossal::comm
