#include "colossal/comm/point_to_point.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "colossal/base/error.h"
#include "colossal/comm/sum.h"

namespace colossal::comm {
namespace {

// Two buffers for each peer: one is summed while the other is received.
constexpr int64_t kScratchBytes = int64_t{8} << 20;
constexpr int64_t kLargestBuffer = int64_t{1} << 20;
constexpr int64_t kSmallestBuffer =
    int64_t{64} << 10;  // with more than 65 ranks, buffers of this size exceed kScratchBytes

}  // namespace

void PointToPointBackend::close(const std::string& why) {
  end_group(why);
  exchange_.reset();
}

Exchange& PointToPointBackend::begin(const Call& call) {
  return begin(call, new_deadline());
}

Exchange& PointToPointBackend::begin(const Call& call, Deadline deadline) {
  return exchange_.emplace(transport(), membership(), call, deadline);
}

void PointToPointBackend::end(const Call& call, Exchange& exchange) {
  exchange.finish();
  book_wire(call, exchange.bytes_sent());
  exchange_.reset();
}

int64_t PointToPointBackend::buffer_elements(int64_t element_bytes) const {
  const int64_t bytes =
      std::clamp(kScratchBytes / (2 * (size() - 1)), kSmallestBuffer, kLargestBuffer);
  return bytes / element_bytes;
}

std::vector<int> PointToPointBackend::peers() const {
  std::vector<int> peers;
  for (int step = 1; step < size(); ++step) peers.push_back((rank() + step) % size());
  return peers;
}

void PointToPointBackend::exchange_headers(Exchange& exchange, Counts send_counts,
                                           Counts receive_counts, int64_t element_bytes) {
  for (int peer : peers()) {
    exchange.expect(peer, receive_counts[peer] * element_bytes);
    exchange.send_header(peer, send_counts[peer] * element_bytes);
  }
}

// Receives this rank's part from all peers, buffer by buffer.
class PointToPointBackend::PartReceiver {
 public:
  PartReceiver(PointToPointBackend& backend, Exchange& exchange, int64_t count, int64_t buffer,
               int64_t element_bytes)
      : backend_(backend),
        exchange_(exchange),
        count_(count),
        buffer_(buffer),
        element_bytes_(element_bytes) {
    const int64_t bytes = 2 * (backend.size() - 1) * std::min(buffer, count) * element_bytes;
    if (std::ssize(backend.scratch_) < bytes) backend.scratch_.resize(bytes);
  }

  // Starts receiving the buffer that begins at element `begin` of the part.
  void post(int64_t begin) {
    if (begin >= count_) return;
    const int64_t bytes = std::min(buffer_, count_ - begin) * element_bytes_;
    std::vector<TransferPointer>& transfers = transfers_.emplace_back();
    for (int peer : backend_.peers()) {
      for (auto& transfer : exchange_.receive(place(begin, peer), bytes, peer)) {
        transfers.push_back(std::move(transfer));
      }
    }
  }

  void wait_for_next() {
    exchange_.wait(transfers_.front());
    transfers_.pop_front();
  }

  // Buffers alternate between the two halves of the scratch memory.
  std::byte* place(int64_t begin, int peer) const {
    const int64_t slot =
        (begin / buffer_ % 2) * (backend_.size() - 1) + peer - (peer > backend_.rank());
    return backend_.scratch_.data() + slot * std::min(buffer_, count_) * element_bytes_;
  }

 private:
  PointToPointBackend& backend_;
  Exchange& exchange_;
  int64_t count_;
  int64_t buffer_;
  int64_t element_bytes_;
  std::deque<std::vector<TransferPointer>> transfers_;
};

void PointToPointBackend::scatter_and_sum(Exchange& exchange, const at::Tensor& full, void* part,
                                          at::ScalarType part_type, Counts counts) {
  const int64_t element_bytes = full.element_size();
  const int64_t part_element_bytes = c10::elementSize(part_type);
  const int64_t buffer = buffer_elements(element_bytes);
  const std::vector<int64_t> offsets = offsets_of(counts);
  const std::byte* full_memory = memory_of(full);
  const int64_t own_count = counts[rank()];

  PartReceiver receiver(*this, exchange, own_count, buffer, element_bytes);
  receiver.post(0);
  // Sends buffer by buffer, each to all peers: the order in which they receive.
  const int64_t largest = *std::max_element(counts.begin(), counts.end());
  for (int64_t begin = 0; begin < largest; begin += buffer) {
    for (int peer : peers()) {
      const int64_t elements = std::min(buffer, counts[peer] - begin);
      if (elements <= 0) continue;
      exchange.send(full_memory + (offsets[peer] + begin) * element_bytes, elements * element_bytes,
                    peer);
    }
  }
  exchange.check_headers();

  std::vector<const void*> sources(size());
  for (int64_t begin = 0; begin < own_count; begin += buffer) {
    receiver.post(begin + buffer);
    receiver.wait_for_next();
    for (int source = 0; source < size(); ++source) {
      sources[source] = source == rank() ? full_memory + (offsets[rank()] + begin) * element_bytes
                                         : receiver.place(begin, source);
    }
    sum_in_rank_order(sources, std::min(buffer, own_count - begin), full.scalar_type(),
                      static_cast<std::byte*>(part) + begin * part_element_bytes, part_type);
  }
}

void PointToPointBackend::gather(Exchange& exchange, const at::Tensor& full, Counts counts) {
  const int64_t element_bytes = full.element_size();
  const std::vector<int64_t> offsets = offsets_of(counts);
  std::byte* memory = memory_of(full);
  std::vector<std::vector<TransferPointer>> receives;
  for (int peer : peers()) {
    receives.push_back(exchange.receive(memory + offsets[peer] * element_bytes,
                                        counts[peer] * element_bytes, peer));
    exchange.send(memory + offsets[rank()] * element_bytes, counts[rank()] * element_bytes, peer);
  }
  exchange.check_headers();
  for (auto& transfers : receives) exchange.wait(transfers);
}

void PointToPointBackend::all_reduce(const Call& call, const at::Tensor& tensor) {
  const std::vector<int64_t> counts = even_counts(tensor.numel(), size());
  const std::vector<int64_t> own(size(), counts[rank()]);
  const int64_t own_begin = offsets_of(counts)[rank()];
  Exchange& exchange = begin(call);
  exchange_headers(exchange, counts, own, tensor.element_size());
  scatter_and_sum(exchange, tensor, memory_of(tensor) + own_begin * tensor.element_size(),
                  tensor.scalar_type(), counts);
  gather(exchange, tensor, counts);
  end(call, exchange);
}

void PointToPointBackend::reduce_scatter(const Call& call, const at::Tensor& full,
                                         const at::Tensor& part, Counts counts) {
  const std::vector<int64_t> own(size(), counts[rank()]);
  Exchange& exchange = begin(call);
  exchange_headers(exchange, counts, own, full.element_size());
  scatter_and_sum(exchange, full, memory_of(part), part.scalar_type(), counts);
  end(call, exchange);
}

void PointToPointBackend::all_gather(const Call& call, const at::Tensor& full, Counts counts) {
  const std::vector<int64_t> own(size(), counts[rank()]);
  Exchange& exchange = begin(call);
  exchange_headers(exchange, own, counts, full.element_size());
  gather(exchange, full, counts);
  end(call, exchange);
}

void PointToPointBackend::all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                                     const at::Tensor& receive, Counts receive_counts) {
  if (send_counts[rank()] != receive_counts[rank()]) {
    throw CallFailure(fmt::format("does not match: {} sends {} elements to itself and expects {}",
                                  name_rank(membership(), rank()), send_counts[rank()],
                                  receive_counts[rank()]));
  }
  const int64_t element_bytes = send.element_size();
  const std::vector<int64_t> send_offsets = offsets_of(send_counts);
  const std::vector<int64_t> receive_offsets = offsets_of(receive_counts);
  const std::byte* from = memory_of(send);
  std::byte* into = memory_of(receive);

  Exchange& exchange = begin(call);
  exchange_headers(exchange, send_counts, receive_counts, element_bytes);
  std::vector<std::vector<TransferPointer>> receives;
  for (int peer : peers()) {
    receives.push_back(exchange.receive(into + receive_offsets[peer] * element_bytes,
                                        receive_counts[peer] * element_bytes, peer));
    exchange.send(from + send_offsets[peer] * element_bytes, send_counts[peer] * element_bytes,
                  peer);
  }
  std::memcpy(into + receive_offsets[rank()] * element_bytes,
              from + send_offsets[rank()] * element_bytes, send_counts[rank()] * element_bytes);
  exchange.check_headers();
  for (auto& transfers : receives) exchange.wait(transfers);
  end(call, exchange);
}

void PointToPointBackend::rotate(const Call& call, const at::Tensor& send,
                                 const at::Tensor& receive) {
  begin_messages();
  const int next = (rank() + 1) % size();
  const int previous = (rank() + size() - 1) % size();
  const auto send_bytes = static_cast<int64_t>(send.nbytes());
  const auto receive_bytes = static_cast<int64_t>(receive.nbytes());
  Exchange& exchange = begin(call);
  exchange.expect(previous, receive_bytes);
  exchange.send_header(next, send_bytes);
  auto transfers = exchange.receive(memory_of(receive), receive_bytes, previous);
  exchange.send(memory_of(send), send_bytes, next);
  exchange.check_headers();
  exchange.wait(transfers);
  end(call, exchange);
}

// The ranks form a chain that begins at the root. It is a pipeline of buffers: a rank sends one on
// while it receives the next.
void PointToPointBackend::broadcast(const Call& call, const at::Tensor& tensor, int root) {
  begin_messages();
  const int64_t bytes = static_cast<int64_t>(tensor.nbytes());
  const int next = (rank() + 1) % size();
  const int previous = (rank() + size() - 1) % size();
  std::byte* memory = memory_of(tensor);

  Exchange& exchange = begin(call);
  std::deque<std::vector<TransferPointer>> receives;
  if (rank() != root) {
    exchange.expect(previous, bytes);
    for (int64_t position = 0; position < bytes; position += kLargestBuffer) {
      receives.push_back(exchange.receive(memory + position,
                                          std::min(kLargestBuffer, bytes - position), previous));
    }
  }
  if (next != root) exchange.send_header(next, bytes);
  exchange.check_headers();
  for (int64_t position = 0; position < bytes; position += kLargestBuffer) {
    if (rank() != root) exchange.wait(receives[position / kLargestBuffer]);
    if (next != root)
      exchange.send(memory + position, std::min(kLargestBuffer, bytes - position), next);
  }
  end(call, exchange);
}

void PointToPointBackend::send(const Call& call, const at::Tensor& tensor, int to) {
  begin_messages();
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  Exchange& exchange = begin(call);
  exchange.send_header(to, bytes);
  exchange.send(memory_of(tensor), bytes, to);
  end(call, exchange);
}

void PointToPointBackend::receive(const Call& call, const at::Tensor& tensor, int from) {
  begin_messages();
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  Exchange& exchange = begin(call);
  exchange.expect(from, bytes);
  std::vector<TransferPointer> transfers = exchange.receive(memory_of(tensor), bytes, from);
  exchange.check_headers();
  exchange.wait(transfers);
  end(call, exchange);
}

void PointToPointBackend::barrier(const Call& call) {
  const std::vector<int64_t> nothing(size(), 0);
  Exchange& exchange = begin(call);
  exchange_headers(exchange, nothing, nothing, 0);
  exchange.check_headers();
  end(call, exchange);
}

}  // namespace colossal::comm
