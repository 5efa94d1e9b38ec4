// The backend over TCP: the algorithms of PointToPointBackend over Gloo's sends and receives.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

class GlooBackend final : public PointToPointBackend {
 public:
  // gloo: a ProcessGroupGloo of the group's ranks, which only this object uses. timeout: the time
  // limit of each call.
  GlooBackend(Membership membership, std::shared_ptr<Ledger> ledger,
              std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend> gloo);

  // Both close() and abort() make running and later calls of this rank in this group fail, and send
  // `why` to the peers.
  // The errors of these calls contain `why` and say that an earlier failure closed the group
  // (close) or that the call was aborted (abort). After the first call of one of these two
  // functions, later calls of both do nothing.
  void abort(const std::string& why) override;

  // Returns the failure to report after Gloo has thrown an exception with the message `error`, at
  // the start of a message with `peer` or in a wait for it. missing: what the peer did not do, such
  // as " did not send"; used if the deadline has passed.
  CallFailure explain(int peer, const std::string& error, const char* missing,
                      const Deadline& deadline) const;

 private:
  class MessageTransfer;

  void end_group(const std::string& why) override;
  // Ends the group on this rank: sends `why` to the peers and closes the connections, so that
  // running and later calls fail. On this rank, their error is `prefix` + `why`. May be called from
  // any thread.
  void end_all(const char* prefix, const std::string& why);

  // Calls `post`, which starts a message with `peer`. Throws CallFailure if the group has ended or
  // `post` throws. missing: as for explain().
  template <typename Post>
  TransferPointer start(int peer, const char* missing, const Post& post);
  // Starts receiving the farewells of all peers: the messages with which they give their reasons
  // before they close their connections (Farewell).
  void expect_farewells();
  // Sends `why` to all peers as this rank's farewell, and gives them time to read it. Does not
  // throw.
  void say_farewell(const std::string& why);
  // Returns the farewell of `peer`, whose connection is closed; empty if it sent none.
  std::string farewell_of(int peer) const;

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  c10::intrusive_ptr<c10d::Backend> gloo_;
  mutable std::mutex mutex_;  // guards closed_ and the start of messages
  std::string closed_;        // the error of calls since end_all(); empty: it was not called

  static constexpr size_t kFarewellBytes = 512;
  // The message with which a peer gives its reason before it closes its connections. With it, all
  // ranks report the first failure instead of the closed connection that follows.
  struct Farewell {
    std::array<char, kFarewellBytes> text{};  // ends with a zero; cut if the reason is longer
    c10::intrusive_ptr<c10d::Work> arrival;   // the receive into `text`
  };
  std::vector<Farewell> farewells_;  // by peer
};

}  // namespace colossal::comm
