// The control all-reduce: sums, maxima, and the bytes of its law.
#include "colossal/engine/control.h"

#include <gtest/gtest.h>

#include "colossal/comm/law.h"
#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

TEST(Control, SumsAndKeepsTheNumbersOfEachRankForMaxima) {
  constexpr int kRanks = 3;
  test::run_ranks(kRanks, [&](comm::World& world) {
    const comm::Group group = world.group("dp", {0, 1, 2});
    const int rank = world.rank();
    ControlMessage mine{
        .loss_sum = 1.0 + rank, .token_count = 2, .stop_requested = rank == 1 ? 1.0 : 0.0};
    mine.used = {1, static_cast<double>(rank)};
    mine.metrics = {0.5, 1, 3, 1};
    mine.maxima.resize(kRanks);
    mine.maxima[rank] = 10 - rank;
    mine.routers = {4};
    world.ledger().reset();
    const ControlSums all = reduce_control(mine, group);
    EXPECT_EQ(all.loss_sum, 6);
    EXPECT_EQ(all.token_count, 6);
    EXPECT_EQ(all.stop_requested, 1);
    EXPECT_EQ(all.used, (std::vector<double>{3, 3}));
    EXPECT_EQ(all.metrics, (std::vector<double>{1.5, 3, 9, 3}));
    EXPECT_EQ(all.maxima, (std::vector<double>{10, 9, 8}));
    EXPECT_EQ(all.routers, (std::vector<double>{12}));
    const comm::Traffic booked = world.ledger().entries().at({"dp", comm::Reason::control});
    const int64_t numbers = 5 + 2 + 4 + kRanks + 1;
    EXPECT_EQ(booked.law_bytes, comm::law::all_reduce(numbers, kRanks, rank, 8));
    EXPECT_EQ(booked.wire_bytes, booked.law_bytes);
  });
}

TEST(Control, MetricsAreMaximaByTheirName) {
  EXPECT_TRUE(is_maximum("sampling/sampling_logp_difference/max"));
  EXPECT_FALSE(is_maximum("completions/max_length"));
}

}  // namespace
}  // namespace colossal
