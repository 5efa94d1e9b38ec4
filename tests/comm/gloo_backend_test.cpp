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

// A message that is sent after `needs`, or never.
class Sending final : public c10d::Work {
 public:
  Sending(std::chrono::milliseconds needs, int& sent) : needs_(needs), sent_(sent) {}
  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout < needs_) throw std::runtime_error("timed out");
    ++sent_;
    return true;
  }

 private:
  std::chrono::milliseconds needs_;
  int& sent_;
};

// Connections to peers that take a message within 200 ms. The last receive is the one with which
// GlooBackend closes them.
class SlowPeers final : public c10d::Backend {
 public:
  SlowPeers(int rank, int size) : c10d::Backend(rank, size) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int, int) override {
    return c10::make_intrusive<Sending>(200ms, sent_);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int, int) override {
    sent_before_closing_ = sent_;
    return c10::make_intrusive<Sending>(1h, received_);
  }
  int sent_before_closing() const { return sent_before_closing_; }

 private:
  int sent_ = 0, received_ = 0, sent_before_closing_ = 0;
};

TEST(GlooBackend, APeerThatIsSlowGetsTheReasonBeforeTheConnectionCloses) {
  auto peers = c10::make_intrusive<SlowPeers>(0, 3);
  GlooBackend backend({.axis = "dp", .ranks = {0, 1, 2}, .rank = 0}, std::make_shared<Ledger>(), 5s,
                      peers);
  backend.close("the reason");
  EXPECT_EQ(peers->sent_before_closing(), 2);
}

}  // namespace
}  // namespace colossal::comm
