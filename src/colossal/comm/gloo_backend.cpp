#include "colossal/comm/gloo_backend.h"

#include <ATen/ATen.h>

#include <limits>
#include <thread>
#include <utility>

#include "colossal/comm/store.h"

namespace colossal::comm {
namespace {

// Gloo matches messages by tag. A message that is longer than the memory posted for it ends the
// process. So the tag of data is its size: ranks that disagree wait, and the headers say why.
constexpr int kHeaderTag = 0;
constexpr int kNobodySendsThis = std::numeric_limits<int>::max();
constexpr int kFarewellTag = kNobodySendsThis - 1;

// Within this time a peer that lives has taken the farewell, even on a busy machine.
constexpr std::chrono::milliseconds kFarewellTimeout{500};
// A farewell that has been sent is lost if the peer has not yet read it when the connection closes
// and then writes to the connection. So peers get this time to read.
constexpr std::chrono::milliseconds kFarewellPause{50};

int tag_of(Transport::Kind kind, int64_t bytes) {
  return kind == Transport::Kind::header ? kHeaderTag : static_cast<int>(bytes);
}

std::vector<at::Tensor> as_tensors(void* memory, int64_t bytes) {
  return {at::from_blob(memory, {bytes}, at::TensorOptions(at::kByte))};
}

}  // namespace

GlooBackend::GlooBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                         std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend> gloo)
    : PointToPointBackend(std::move(membership), std::move(ledger), timeout),
      gloo_(std::move(gloo)),
      farewells_(size()) {
  expect_farewells();
}

void GlooBackend::abort(const std::string& why) {
  end_all("was aborted: ", why);
}

void GlooBackend::end_group(const std::string& why) {
  end_all("found its group closed by an earlier failure: ", why);
}

class GlooBackend::MessageTransfer final : public Transfer {
 public:
  MessageTransfer(const GlooBackend& backend, c10::intrusive_ptr<c10d::Work> work, int peer,
                  const char* missing)
      : backend_(backend), work_(std::move(work)), peer_(peer), missing_(missing) {}

  void wait(const Deadline& deadline) override {
    try {
      work_->wait(deadline.remaining());
    } catch (const std::exception& error) {
      throw backend_.explain(peer_, reason_of(error), missing_, deadline);
    }
  }

 private:
  const GlooBackend& backend_;
  c10::intrusive_ptr<c10d::Work> work_;
  int peer_;
  const char* missing_;
};

CallFailure GlooBackend::explain(int peer, const std::string& error, const char* missing,
                                 const Deadline& deadline) const {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return CallFailure(closed_);
  const std::string name = name_rank(membership(), peer);
  if (deadline.remaining() <= std::chrono::milliseconds(1)) return deadline.failure(name + missing);
  if (const std::string why = farewell_of(peer); !why.empty()) {
    return CallFailure("lost " + name + ": " + why);
  }
  const auto says = [&](const char* text) { return error.find(text) != std::string::npos; };
  const bool closed = says("closed by peer") || says("reset by peer") || says("Broken pipe");
  return CallFailure("lost " + name + ": " + (closed ? "connection closed" : error));
}

void GlooBackend::expect_farewells() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Farewell& farewell = farewells_[peer];
    std::vector<at::Tensor> text = as_tensors(farewell.text.data(), kFarewellBytes);
    try {
      farewell.arrival = gloo_->recv(text, peer, kFarewellTag);
    } catch (const std::exception&) {
      // The peer has left without a farewell. The first call that needs it reports that.
    }
  }
}

// Returns the farewell of a peer whose connection is closed: it has arrived already, or never will.
std::string GlooBackend::farewell_of(int peer) const {
  const Farewell& farewell = farewells_[peer];
  if (!farewell.arrival) return "";
  try {
    farewell.arrival->wait(std::chrono::milliseconds(1));
    return farewell.text.data();
  } catch (const std::exception&) {
    return "";
  }
}

void GlooBackend::say_farewell(const std::string& why) {
  std::array<char, kFarewellBytes> text{};
  why.copy(text.data(), kFarewellBytes - 1);
  std::vector<c10::intrusive_ptr<c10d::Work>> sends;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      std::vector<at::Tensor> tensors = as_tensors(text.data(), kFarewellBytes);
      sends.push_back(gloo_->send(tensors, peer, kFarewellTag));
    } catch (const std::exception&) {
      // The peer has left.
    }
  }
  const Deadline deadline(kFarewellTimeout);
  bool is_sent = false;
  for (const c10::intrusive_ptr<c10d::Work>& send : sends) {
    try {
      send->wait(deadline.remaining());
      is_sent = true;
    } catch (const std::exception&) {
      // The peer has left, or does not read.
    }
  }
  if (is_sent) std::this_thread::sleep_for(kFarewellPause);
}

// Gloo has no call that ends a group. But when a wait times out, Gloo closes all connections of the
// group with an error that wakes all other waits. So this waits for a message that nobody sends.
void GlooBackend::end_all(const char* prefix, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return;
  closed_ = prefix + why;
  say_farewell(why);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      std::vector<at::Tensor> nothing{at::empty({1}, at::kByte)};
      gloo_->recv(nothing, peer, kNobodySendsThis)->wait(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // As intended; or this connection was closed already.
    }
  }
}

TransferPointer GlooBackend::post_send(Kind kind, const void* memory, int64_t bytes, int to) {
  std::vector<at::Tensor> tensors = as_tensors(const_cast<void*>(memory), bytes);
  return start(to, " did not receive",
               [&] { return gloo_->send(tensors, to, tag_of(kind, bytes)); });
}

TransferPointer GlooBackend::post_receive(Kind kind, void* memory, int64_t bytes, int from) {
  std::vector<at::Tensor> tensors = as_tensors(memory, bytes);
  return start(from, kind == Kind::header ? " did not arrive" : " did not send",
               [&] { return gloo_->recv(tensors, from, tag_of(kind, bytes)); });
}

template <typename Post>
TransferPointer GlooBackend::start(int peer, const char* missing, const Post& post) {
  std::string error;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) throw CallFailure(closed_);
    try {
      return std::make_unique<MessageTransfer>(*this, post(), peer, missing);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  }
  throw explain(peer, error, missing, new_deadline());
}

}  // namespace colossal::comm
