// Colossal's own algorithms over Gloo's sends and receives.
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
  GlooBackend(Membership membership, std::shared_ptr<Ledger> ledger,
              std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend> gloo);

  void close(const std::string& why) override;
  void abort(const std::string& why) override;

  // Returns the failure to report when a wait for `peer` has thrown `error`. missing: what the peer
  // did not do: " did not send".
  CallFailure explain(int peer, const std::string& error, const char* missing,
                      const Deadline& deadline) const;

 private:
  class MessageTransfer;

  // Makes running and later calls fail: on this rank with the error `prefix` + `why`, on the peers
  // by sending them `why` and closing the connections. May be called from any thread.
  void end_all(const char* prefix, const std::string& why);

  template <typename Post>
  TransferPointer start(int peer, const char* missing, const Post& post);
  void expect_farewells();
  void say_farewell(const std::string& why);
  std::string farewell_of(int peer) const;

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  c10::intrusive_ptr<c10d::Backend> gloo_;
  mutable std::mutex mutex_;  // guards closed_ and the start of messages
  std::string closed_;        // the reason; empty: open

  static constexpr size_t kFarewellBytes = 512;
  // The reason that a peer sends before it closes its connections. Thanks to it, all ranks report
  // the first failure instead of the closed connection that follows.
  struct Farewell {
    std::array<char, kFarewellBytes> text{};
    c10::intrusive_ptr<c10d::Work> arrival;
  };
  std::vector<Farewell> farewells_;
};

}  // namespace colossal::comm
