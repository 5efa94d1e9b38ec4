#include "colossal/comm/exchange.h"

#include <algorithm>
#include <type_traits>

#include "colossal/base/units.h"

namespace colossal::comm {
namespace {

constexpr int64_t kLargestMessage = int64_t{64} << 20;

std::string with_message(const Call& call, int64_t bytes) {
  return fmt::format("{} with {} for it", describe_fully(call), format_bytes(bytes));
}

}  // namespace

Exchange::Exchange(Transport& transport, const Membership& membership, const Call& call,
                   Deadline deadline)
    : transport_(transport),
      membership_(membership),
      call_(call),
      deadline_(deadline),
      outgoing_(membership.size()),
      incoming_(membership.size()) {
  static_assert(std::is_trivially_copyable_v<Header>);
}

void Exchange::send_header(int peer, int64_t bytes) {
  PeerHeader& greeting = outgoing_[peer];
  greeting.header = {call_, bytes};
  greeting.transfer =
      transport_.post_send(Transport::Kind::header, &greeting.header, sizeof(Header), peer);
}

void Exchange::expect(int peer, int64_t bytes) {
  PeerHeader& greeting = incoming_[peer];
  greeting.expected_bytes = bytes;
  greeting.transfer =
      transport_.post_receive(Transport::Kind::header, &greeting.header, sizeof(Header), peer);
}

void Exchange::check_headers() {
  for (int peer = 0; peer < membership_.size(); ++peer) {
    PeerHeader& greeting = incoming_[peer];
    if (!greeting.transfer) continue;
    greeting.transfer->wait(deadline_);
    greeting.transfer
        .reset();  // an all-reduce checks twice, but a message can be waited for only once
    const Header& theirs = greeting.header;
    if (theirs.call != call_) {
      throw mismatch(membership_, peer, describe_fully(theirs.call), membership_.rank,
                     describe_fully(call_));
    }
    if (theirs.bytes != greeting.expected_bytes) {
      throw mismatch(membership_, peer, with_message(theirs.call, theirs.bytes), membership_.rank,
                     with_message(call_, greeting.expected_bytes));
    }
  }
}

void Exchange::send(const void* memory, int64_t bytes, int to) {
  const auto* begin = static_cast<const std::byte*>(memory);
  for (int64_t position = 0; position < bytes; position += kLargestMessage) {
    sends_.push_back(transport_.post_send(Transport::Kind::data, begin + position,
                                          std::min(kLargestMessage, bytes - position), to));
  }
  bytes_sent_ += bytes;
}

std::vector<TransferPointer> Exchange::receive(void* memory, int64_t bytes, int from) {
  std::vector<TransferPointer> transfers;
  auto* begin = static_cast<std::byte*>(memory);
  for (int64_t position = 0; position < bytes; position += kLargestMessage) {
    transfers.push_back(transport_.post_receive(Transport::Kind::data, begin + position,
                                                std::min(kLargestMessage, bytes - position), from));
  }
  return transfers;
}

void Exchange::wait(std::vector<TransferPointer>& transfers) {
  for (TransferPointer& transfer : transfers) transfer->wait(deadline_);
  transfers.clear();
}

void Exchange::wait_for_sends() {
  wait(sends_);
}

void Exchange::finish() {
  wait_for_sends();
  for (PeerHeader& greeting : outgoing_) {
    if (greeting.transfer) greeting.transfer->wait(deadline_);
  }
}

}  // namespace colossal::comm
