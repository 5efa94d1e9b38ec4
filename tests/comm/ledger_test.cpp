#include "colossal/comm/ledger.h"

#include <gtest/gtest.h>

#include <string>

namespace colossal::comm {
namespace {

TEST(Ledger, AddsUpByAxisAndReason) {
  Ledger ledger;
  ledger.book("dp", Reason::gradient, 100);
  ledger.book("dp", Reason::gradient, 20);
  ledger.book_wire("dp", Reason::gradient, 120);
  ledger.book("dp", Reason::parameter, 7);
  ledger.book("tp", Reason::tensor, 1);
  const auto entries = ledger.entries();
  EXPECT_EQ(entries.size(), 3);
  EXPECT_EQ((entries.at({"dp", Reason::gradient})), (Traffic{2, 120, 120}));
  EXPECT_EQ((entries.at({"dp", Reason::parameter})), (Traffic{1, 7, 0}));
  EXPECT_EQ((entries.at({"tp", Reason::tensor})), (Traffic{1, 1, 0}));
}

TEST(Ledger, SumOfAnAxisLeavesOutCheckpointAndRendezvous) {
  Ledger ledger;
  ledger.book("dp", Reason::gradient, 100);
  ledger.book("dp", Reason::control, 8);
  ledger.book("dp", Reason::checkpoint, 1000);
  ledger.book("pp", Reason::rendezvous, 1000);
  const auto sums = ledger.by_axis();
  EXPECT_EQ(sums.size(), 1);
  EXPECT_EQ(sums.at("dp"), (Traffic{2, 108, 0}));
}

TEST(Ledger, ResetForgets) {
  Ledger ledger;
  ledger.book("dp", Reason::gradient, 100);
  ledger.reset();
  EXPECT_TRUE(ledger.entries().empty());
}

TEST(Ledger, ReasonsHaveNames) {
  EXPECT_EQ(std::string(reason_name(Reason::gradient)), "gradient");
  EXPECT_EQ(std::string(reason_name(Reason::metrics)), "metrics");
}

}  // namespace
}  // namespace colossal::comm
