// Sends and receives between the ranks of a group, and the messages of one call over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/comm/backend.h"

namespace colossal::comm {

// A message under way. Dropping it gives it up: its memory is not touched afterwards.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void wait(const Deadline& deadline) = 0;  // throws CallFailure
};
using TransferPointer = std::unique_ptr<Transfer>;

// Messages that are started first and waited for later. A send ends when its memory may be reused,
// a receive when its memory is filled. Between two ranks, messages of the same kind and size match
// in the order in which they were posted.
class Transport {
 public:
  enum class Kind { header, data };

  virtual ~Transport() = default;
  virtual TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) = 0;
  virtual TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) = 0;
};

// The messages of one call, at one rank. Ranks that talk to each other in a call first exchange a
// header: the call, and how many bytes of data will follow. It travels beside the data, so it costs
// no round trip; a rank that called something else is named before any data is used. Headers (32
// bytes for each pair and direction) are left out of the ledger, as is the transport's own framing.
class Exchange {
 public:
  Exchange(Transport& transport, const Membership& membership, const Call& call, Deadline deadline);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Announces `bytes` of data to `peer`; expects the announcement of `bytes` from it.
  void greet(int peer, int64_t bytes);
  void expect(int peer, int64_t bytes);
  // Waits, in rank order, for the announcements that were not yet checked.
  void check_headers();

  // Data of more than a few MiB travels in pieces. Empty messages do not travel.
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
  std::vector<Greeting> outgoing_;  // by rank; allocated once, so that headers stay where they are
  std::vector<Greeting> incoming_;
  std::vector<TransferPointer> sends_;
};

}  // namespace colossal::comm
