// Point-to-point messages between the ranks of a group. Backends over messages implement Transport;
// the algorithms in point_to_point.h and hierarchical_backend.h send through an Exchange, which
// also checks that the ranks make the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/comm/backend.h"

namespace colossal::comm {

// A message that was started and may not be complete yet. Destroying a Transfer cancels the
// message: the transport does not touch the message's memory afterwards.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Waits until the message is complete. Call it at most once. Throws CallFailure if the peer is
  // lost or the deadline passes.
  virtual void wait(const Deadline& deadline) = 0;
};
using TransferPointer = std::unique_ptr<Transfer>;

// Starts messages without waiting for them. A send is complete when its memory may be reused, a
// receive when its memory is filled. Between two ranks, the sends and receives of one kind and size
// match in the order in which they were posted. to, from: ranks within the group. The functions may
// throw CallFailure, for example if the group has ended. The returned Transfer must not outlive the
// Transport.
class Transport {
 public:
  enum class Kind {
    header,  // says which call the sender makes
    data     // tensor elements
  };

  virtual ~Transport() = default;
  virtual TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) = 0;
  virtual TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) = 0;
};

// The messages of one call, on one rank. Before its data, a rank sends each peer of the call a
// header with the Call and the number of data bytes that follow. The rank starts its data without
// waiting for the headers to arrive, so headers cost no extra round trip. The caller calls
// check_headers() before it uses received data; the error names the rank that made a different
// call. At the end, the caller calls finish(); destroying an Exchange cancels its headers and sends
// that are not complete. The ledger counts neither headers (32 bytes each) nor the transport's
// framing. peer, to, from: ranks within the group.
class Exchange {
 public:
  // membership: of this rank in the group that makes the call. deadline: of all waits. `transport`
  // and `membership` must outlive this object.
  Exchange(Transport& transport, const Membership& membership, const Call& call, Deadline deadline);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Starts sending `peer` a header that announces `bytes` bytes of data. An Exchange sends a peer
  // at most one header, and receives at most one from it.
  void send_header(int peer, int64_t bytes);
  // Starts receiving the header of `peer`, which must announce `bytes` bytes of data.
  void expect(int peer, int64_t bytes);
  // Waits for the headers that expect() has begun to receive since the last check_headers(). Checks
  // that each has this rank's Call and the number of bytes passed to expect(). Throws CallFailure
  // if a header differs, if a peer is lost, or if the deadline passes.
  void check_headers();

  // Starts sending data, in messages of at most 64 MiB, or in none if `bytes` is 0. `memory` must
  // stay unchanged until wait_for_sends() or finish() returns.
  void send(const void* memory, int64_t bytes, int to);
  // Starts receiving data into `memory`, in messages of at most 64 MiB. Returns the messages, for
  // wait(); empty if `bytes` is 0.
  std::vector<TransferPointer> receive(void* memory, int64_t bytes, int from);
  // Waits until all `transfers`, results of receive(), are complete, then clears the vector. Throws
  // CallFailure if a peer is lost or the deadline passes; so do the next two functions.
  void wait(std::vector<TransferPointer>& transfers);
  void wait_for_sends();  // of data
  void finish();          // waits for the sends of data and headers

  int64_t bytes_sent() const { return bytes_sent_; }  // data only, including sends in flight
  Deadline deadline() const { return deadline_; }     // of all waits of this call

 private:
  struct Header {
    Call call;
    int64_t bytes = 0;  // of the data that follows
  };
  // A header that is sent to or received from one peer.
  struct PeerHeader {
    Header header;
    int64_t expected_bytes = 0;  // of a received header
    TransferPointer transfer;    // null: no header to or from the peer, or it was checked
  };

  Transport& transport_;
  const Membership& membership_;
  Call call_;
  Deadline deadline_;
  int64_t bytes_sent_ = 0;
  // By peer. Never reallocated, because the transport holds the headers' addresses.
  std::vector<PeerHeader> outgoing_;
  std::vector<PeerHeader> incoming_;
  std::vector<TransferPointer> sends_;
};

}  // namespace colossal::comm
