#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "colossal/comm/law.h"
#include "colossal/comm/world.h"
#include "tests/comm/settings.h"

namespace colossal::comm {
namespace {

// Makes the same calls in any world. Meta tensors have no values, so only the bookings are
// compared.
void use_all_calls(World& world, at::Device device) {
  std::vector<int> all(world.size());
  std::iota(all.begin(), all.end(), 0);
  const Group group = world.group("dp", all);
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const std::vector<int64_t> counts = even_counts(1001, group.size());
  const at::Tensor full = at::zeros({1001}, options);
  const at::Tensor part = at::zeros({counts[group.rank()]}, options);
  all_reduce_async(full, group, Reason::gradient).wait();
  reduce_scatter(full, part, counts, group, Reason::gradient);
  all_gather(full, counts, group, Reason::parameter);
  broadcast(full, 1, group, Reason::parameter);
  const std::vector<int64_t> three(group.size(), 3);
  const at::Tensor received = at::zeros({3 * group.size()}, options);
  all_to_all(full.narrow(0, 0, 3 * group.size()), three, received, three, group, Reason::expert);
  rotate_async(full, full.clone(), group, Reason::sequence).wait();
  barrier(group);
  gather_bytes("four", group, Reason::checkpoint);
}

TEST(DryWorld, BooksTheLawOfARealOneAndNoWire) {
  test::run_ranks(3, [](World& real) {
    use_all_calls(real, at::kCPU);
    const auto dry = dry_world(real.rank(), 3);
    use_all_calls(*dry, at::kMeta);
    const auto expected = real.ledger().entries();
    const auto booked = dry->ledger().entries();
    ASSERT_EQ(booked.size(), expected.size());
    for (const auto& [key, traffic] : booked) {
      EXPECT_EQ(traffic, (Traffic{expected.at(key).calls, expected.at(key).law_bytes, 0}));
    }
  });
}

TEST(DryWorld, LeavesTensorsAlone) {
  const auto world = dry_world(2, 4);
  EXPECT_STREQ(world->backend(), "dry");
  const Group group = world->group("tp", {2, 3});
  EXPECT_EQ(group.rank(), 0);
  const at::Tensor tensor = at::ones({4});
  all_reduce(tensor, group, Reason::tensor);
  send(tensor, 1, group, Reason::stage);
  EXPECT_TRUE(at::equal(tensor, at::ones({4})));
  EXPECT_EQ(gather_bytes("a", group, Reason::control), (std::vector<std::string>{"a", "a"}));
  EXPECT_EQ(gather_distinct_bytes("a", group, Reason::control), (std::set<std::string>{"a"}));
}

TEST(SingleWorld, HasGroupsOfOne) {
  const auto world = single_world();
  EXPECT_EQ(world->size(), 1);
  const Group group = world->group("dp", {0});
  EXPECT_STREQ(group.backend(), "single");
  EXPECT_EQ(gather_bytes("a", group, Reason::control), (std::vector<std::string>{"a"}));
  all_reduce(at::ones({4}), group, Reason::gradient);
  EXPECT_TRUE(world->ledger().entries().empty());
}

}  // namespace
}  // namespace colossal::comm
