#include "colossal/comm/local_messages.h"

#include <utility>

namespace colossal::comm {
namespace {

class SendTransfer final : public Transfer {
 public:
  SendTransfer(LocalBoard& board, LocalBoard::Message message) : board_(board), message_(message) {
    board_.post(message_);
  }
  ~SendTransfer() override { board_.withdraw(message_); }
  void wait(const Deadline& deadline) override { board_.wait_delivered(message_, deadline); }

 private:
  LocalBoard& board_;
  LocalBoard::Message message_;
};

// Receiving happens in wait(): until then, the message stays in the sender's memory.
class ReceiveTransfer final : public Transfer {
 public:
  ReceiveTransfer(LocalBoard& board, void* memory, int64_t bytes, int from, int to)
      : board_(board), memory_(memory), bytes_(bytes), from_(from), to_(to) {}
  void wait(const Deadline& deadline) override {
    board_.take(memory_, bytes_, from_, to_, deadline);
  }

 private:
  LocalBoard& board_;
  void* memory_;
  int64_t bytes_;
  int from_;
  int to_;
};

}  // namespace

MessageBackend::MessageBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                               std::chrono::milliseconds timeout, std::shared_ptr<LocalBoard> board)
    : PointToPointBackend(std::move(membership), std::move(ledger), timeout),
      board_(std::move(board)) {}

TransferPointer MessageBackend::post_send(Kind, const void* memory, int64_t bytes, int to) {
  return std::make_unique<SendTransfer>(
      *board_, LocalBoard::Message{.memory = memory, .bytes = bytes, .from = rank(), .to = to});
}

TransferPointer MessageBackend::post_receive(Kind, void* memory, int64_t bytes, int from) {
  return std::make_unique<ReceiveTransfer>(*board_, memory, bytes, from, rank());
}

}  // namespace colossal::comm
