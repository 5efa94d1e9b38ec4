// What GlooBackend does with the messages of Gloo, with a stand-in for Gloo.
#include "colossal/comm/gloo_backend.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace colossal::comm {
namespace {

using namespace std::chrono_literals;

// What has become of the messages.
struct Record {
  int sent = 0;
  int cancelled = 0;  // by destroying them before they were sent
  int sent_before_closing = 0;
  int cancelled_before_farewell = 0;
};

// A message that is sent after `needs`, or never.
class Sending final : public c10d::Work {
 public:
  Sending(std::chrono::milliseconds needs, Record& record) : needs_(needs), record_(record) {}
  ~Sending() override {
    if (!is_sent_) ++record_.cancelled;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout < needs_) throw std::runtime_error("timed out");
    ++record_.sent;
    return is_sent_ = true;
  }

 private:
  std::chrono::milliseconds needs_;
  Record& record_;
  bool is_sent_ = false;
};

// A message of a peer that has left.
class Closed final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { throw std::runtime_error("closed by peer"); }
};

// Connections to peers that take a message within 200 ms and send none. The last receive is the one
// with which GlooBackend closes them.
class SlowPeers final : public c10d::Backend {
 public:
  SlowPeers(int rank, int size) : c10d::Backend(rank, size) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int, int) override {
    const bool is_farewell = tensors[0].numel() > 100;
    if (is_farewell) record_.cancelled_before_farewell = record_.cancelled;
    return c10::make_intrusive<Sending>(200ms, record_);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int, int) override {
    record_.sent_before_closing = record_.sent;
    return c10::make_intrusive<Closed>();
  }
  const Record& record() const { return record_; }

 private:
  Record record_;
};

class GlooBackendTest : public testing::Test {
 protected:
  c10::intrusive_ptr<SlowPeers> peers_ = c10::make_intrusive<SlowPeers>(0, 3);
  GlooBackend backend_{
      {.axis = "dp", .ranks = {0, 1, 2}, .rank = 0}, std::make_shared<Ledger>(), 5s, peers_};
};

TEST_F(GlooBackendTest, APeerThatIsSlowGetsTheReasonBeforeTheConnectionCloses) {
  backend_.close("the reason");
  EXPECT_EQ(peers_->record().sent_before_closing, 2);
}

// Gloo sends nothing more over a connection after a message that was cancelled while it was sent.
TEST_F(GlooBackendTest, MessagesOfACallThatFailedAreCancelledAfterTheFarewell) {
  EXPECT_THROW(backend_.barrier({}), CallFailure);
  backend_.close("the reason");
  EXPECT_EQ(peers_->record().cancelled_before_farewell, 0);
  EXPECT_EQ(peers_->record().cancelled, 2);
}

}  // namespace
}  // namespace colossal::comm
