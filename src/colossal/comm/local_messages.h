// A backend that sends messages between ranks that are threads of one process.
#pragma once

#include <memory>

#include "colossal/comm/local_board.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

// Runs all calls as messages between the threads, with the algorithms of PointToPointBackend. Its
// subclass LocalBackend (local.cpp) makes most collectives faster by reading peers' memory. Tests
// use MessageBackend itself to test the algorithms without a network.
class MessageBackend : public PointToPointBackend {
 public:
  // membership: the group, as this rank sees it. ledger: counts the bytes that this rank sends.
  // timeout: of each call. board: the same object for all ranks of the group.
  MessageBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                 std::chrono::milliseconds timeout, std::shared_ptr<LocalBoard> board);

 protected:
  // Makes waiting and later calls of all ranks of the group fail for the reason `why`.
  void end_group(const std::string& why) override { board_->close(why); }
  LocalBoard& board() { return *board_; }

 private:
  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  std::shared_ptr<LocalBoard> board_;
};

}  // namespace colossal::comm
