// Point-to-point messages between the ranks of a group, and the set of messages of one call.
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

// Starts messages without waiting for them; Transfer::wait() waits. to, from: ranks within the
// group. A send is complete when its memory may be reused, a receive when its memory is filled.
// Between two ranks, messages of the same kind and size match in the order in which they were
// posted.
class Transport {
 public:
  enum class Kind { header, data };  // see Exchange

  virtual ~Transport() = default;
  virtual TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) = 0;
  virtual TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) = 0;
};

// The messages of one call, on one rank. Two ranks that communicate in a call first exchange a
// header: the call, and the number of data bytes that will follow. Headers are sent together with
// the data, so they cost no extra round trip. The caller checks them (check_headers()) before it
// uses any data; the error names the rank that made a different call. The ledger counts neither
// headers (32 bytes per pair and direction) nor the transport's framing.
class Exchange {
 public:
  Exchange(Transport& transport, const Membership& membership, const Call& call, Deadline deadline);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Both only start a message. send_header(): sends `peer` a header that announces `bytes` bytes of
  // data. expect(): receives the header of `peer`, which must announce `bytes` bytes.
  void send_header(int peer, int64_t bytes);
  void expect(int peer, int64_t bytes);
  // Waits, in rank order, for the expected headers that were not checked yet. Throws CallFailure if
  // a header does not match.
  void check_headers();

  // send() and receive() only start messages, of at most 64 MiB each; none for empty data. The
  // messages that receive() returns are complete after wait(); sends, after wait_for_sends().
  void send(const void* memory, int64_t bytes, int to);
  std::vector<TransferPointer> receive(void* memory, int64_t bytes, int from);
  void wait(std::vector<TransferPointer>& transfers);
  void wait_for_sends();
  void finish();  // waits for the sends, of data and of headers

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
