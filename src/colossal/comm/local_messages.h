// Messages between ranks that are threads of one process.
#pragma once

#include <memory>

#include "colossal/comm/local_board.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {

// Runs every collective as messages, with the algorithms of PointToPointBackend; tests use it to
// run these without a network. Its subclass LocalBackend overrides most collectives to read the
// peers' memory, which is faster.
class MessageBackend : public PointToPointBackend {
 public:
  MessageBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                 std::chrono::milliseconds timeout, std::shared_ptr<LocalBoard> board);

  void close(const std::string& why) override { board_->close(why); }

 protected:
  LocalBoard& board() { return *board_; }

 private:
  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  std::shared_ptr<LocalBoard> board_;
};

}  // namespace colossal::comm
