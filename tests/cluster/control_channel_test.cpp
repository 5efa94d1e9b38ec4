// Tests what launchers tell each other when one of them is slow to listen.
#include "colossal/cluster/control_channel.h"

#include <gmock/gmock.h>

#include <array>
#include <future>

#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

constexpr std::array kSignals{SIGUSR2};

// The launchers of two hosts, in one process.
class ControlChannelOfTwo : public testing::Test {
 protected:
  ControlChannelOfTwo() {
    const int port = bound_port(bind_socket("127.0.0.1", 0));
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    HostTable hosts{.names = {"127.0.0.1", "127.0.0.2"}, .addresses = {"127.0.0.1", "127.0.0.2"}};
    auto gathered = std::async([&, hosts] {
      SignalQueue signals(kSignals);
      auto channel = ControlChannel::gather(hosts, port, true, 2, deadline, signals);
      channel->start({.store_port = 1, .job = "first", .members = {0, 1}});
      return channel;
    });
    hosts.own_index = 1;
    other_ = *ControlChannel::join(hosts, port, true, &order_, deadline, signals_);
    first_ = *gathered.get();
  }

  SignalQueue signals_{kSignals};
  ControlChannel first_, other_;
  Order order_;  // that `other_` got when it joined
};

TEST_F(ControlChannelOfTwo, AStopThatArrivesWithTheStartIsOfTheRanksThatStart) {
  EXPECT_EQ(order_.start.value().job, "first");
  first_.send({HostMessage::Kind::pause});  // of ranks that will have been replaced
  first_.start({.store_port = 2, .job = "second", .members = {0, 1}});
  first_.send({HostMessage::Kind::stop});
  EXPECT_EQ(other_.next_order(signals_).value().start.value().job, "second");
  EXPECT_THAT(other_.receive(), ElementsAre(Field(&HostMessage::kind, HostMessage::Kind::stop)));
}

TEST_F(ControlChannelOfTwo, ALossThatArrivesWithTheStartIsToldWhenTheRanksRun) {
  first_.start({.store_port = 2, .job = "second", .members = {0, 1}});
  first_ = {};
  EXPECT_EQ(other_.next_order(signals_).value().start.value().job, "second");
  EXPECT_THAT(other_.receive(), ElementsAre(Field(&HostMessage::kind, HostMessage::Kind::failed)));
}

TEST_F(ControlChannelOfTwo, AHostThatWasDoneIsNotLost) {
  first_.start({.store_port = 2, .job = "second", .members = {0, 1}});
  first_.send_done();
  first_ = {};
  EXPECT_EQ(other_.next_order(signals_).value().start.value().job, "second");
  EXPECT_THAT(other_.receive(), IsEmpty());
}

}  // namespace
}  // namespace colossal::cluster
