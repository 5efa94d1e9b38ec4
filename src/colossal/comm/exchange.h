// Sends and receives between the ranks of a group, and all messages of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/comm/backend.h"

namespace colossal::comm {

// A message in flight. Destroying a Transfer cancels the message: its memory is not touched
// afterwards.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void wait(const Deadline& deadline) = 0;  // throws CallFailure
};
using TransferPointer = std::unique_ptr<Transfer>;

// Starts messages without waiting for them. A send is complete when its memory may be reused, a
// receive when its memory is filled. Between two ranks, messages of the same kind and size match in
// the order in which they were posted.
class Transport {
 public:
  enum class Kind { header, data };

  virtual ~Transport() = default;
  virtual TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) = 0;
  virtual TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) = 0;
};

// The messages of one call, on one rank. Two ranks that communicate in a call first exchange a
// header: the call, and the number of data bytes that will follow. Headers are sent together with
// the data, so they cost no extra round trip, and an error names a rank that called something else
// before any data is used. The ledger does not count headers (32 bytes per pair and direction) or
// the transport's framing.
class Exchange {
 public:
  Exchange(Transport& transport, const Membership& membership, const Call& call, Deadline deadline);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // send_header() sends `peer` a header that announces `bytes` of data. expect() receives the
  // header of `peer`, which must announce `bytes`.
  void send_header(int peer, int64_t bytes);
  void expect(int peer, int64_t bytes);
  // Waits, in rank order, for the expected headers that were not yet checked. Throws CallFailure if
  // a header does not match.
  void check_headers();

  // Data is split into messages of at most 64 MiB. Empty data sends no message.
  void send(const void* memory, int64_t bytes, int to);
  std::vector<TransferPointer> receive(void* memory, int64_t bytes, int from);
  void wait(std::vector<TransferPointer>& transfers);
  void wait_for_sends();
  void finish();  // waits for the sends and the headers

  int64_t bytes_sent() const { return bytes_sent_; }  // without headers
  Deadline deadline() const { return deadline_; }

 private:
  struct Header {
    Call call;
    int64_t bytes = 0;
  };
  struct Greeting {
    Header header;
    int64_t expected_bytes = 0;
    TransferPointer transfer;
  };

  Transport& transport_;
  const Membership& membership_;
  Call call_;
  Deadline deadline_;
  int64_t bytes_sent_ = 0;
  std::vector<Greeting> outgoing_;  // by rank; never reallocated, so headers keep their address
  std::vector<Greeting> incoming_;
  std::vector<TransferPointer> sends_;
};

}  // namespace colossal::comm
