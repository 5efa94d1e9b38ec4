#include "colossal/comm/call_listener.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "colossal/comm/world.h"
#include "tests/support/run_ranks.h"

namespace colossal::comm {
namespace {

class Listener final : public CallListener {
 public:
  struct Heard {
    Operation operation;
    int64_t law_bytes;
    std::optional<std::vector<int>> partners;  // none: all other ranks
    bool operator==(const Heard&) const = default;
  };
  void issued(const IssuedCall& call) override {
    heard.push_back({call.operation, call.law_bytes, call.partners});
    EXPECT_EQ(call.group->axis, "dp");
    EXPECT_EQ(call.reason, Reason::data);
    EXPECT_FALSE(call.buffers.empty());
  }
  std::vector<Heard> heard;
};

// Makes calls in a group of four of six ranks; group rank i is global rank 5 - i.
void use(World& world, at::Device device) {
  if (world.rank() < 2) return;
  const Group group = world.group("dp", {5, 4, 3, 2});
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor eight = at::zeros({8}, options), two = at::zeros({2}, options);
  const std::vector<int64_t> even(4, 2);
  Listener listener;
  world.ledger().set_listener(&listener);
  all_reduce(eight, group, Reason::data);
  reduce_scatter(eight, two, even, group, Reason::data);
  all_gather_async(eight, even, group, Reason::data).wait();
  rotate_async(two, two.clone(), group, Reason::data).wait();
  broadcast(two, 1, group, Reason::data);
  // Group rank 0 sends one element to each other rank and receives none.
  const std::vector<int64_t> none(4, 0), one{0, 1, 1, 1}, from_zero{1, 0, 0, 0};
  const at::Tensor nothing = at::zeros({0}, options), three = at::zeros({3}, options);
  if (group.rank() == 0) {
    all_to_all(three, one, nothing, none, group, Reason::data);
    send(two, 3, group, Reason::data);
  } else {
    all_to_all(nothing, none, at::zeros({1}, options), from_zero, group, Reason::data);
    if (group.rank() == 3) receive(two, 0, group, Reason::data);
  }
  world.ledger().set_listener(nullptr);
  all_reduce(eight, group, Reason::data);

  const std::vector<int> all{5, 4, 3, 2};
  std::vector<int> others = all, chain,
                   ring = {all[(group.rank() + 1) % 4], all[(group.rank() + 3) % 4]};
  std::erase(others, world.rank());
  std::sort(ring.begin(), ring.end(), std::greater<>());
  // 1 -> 2 -> 3 -> 0
  if (group.rank() != 1) chain.push_back(all[(group.rank() + 3) % 4]);
  if (group.rank() != 0) chain.push_back(all[(group.rank() + 1) % 4]);
  std::vector<Listener::Heard> expected{{Operation::all_reduce, 2 * 3 * 8, std::nullopt},
                                        {Operation::reduce_scatter, 3 * 8, std::nullopt},
                                        {Operation::all_gather, 3 * 8, std::nullopt},
                                        {Operation::rotate, 8, ring},
                                        {Operation::broadcast, group.rank() == 0 ? 0 : 8, chain}};
  if (group.rank() == 0) {
    expected.push_back({Operation::all_to_all, 3 * 4, others});
    expected.push_back({Operation::send, 8, std::vector{2}});
  } else {
    expected.push_back({Operation::all_to_all, 0, std::vector{5}});
    if (group.rank() == 3) expected.push_back({Operation::send, 0, std::vector{5}});
  }
  EXPECT_TRUE(listener.heard == expected) << "group rank " << group.rank();
}

TEST(CallListener, HearsWhatIsSentAndWithWhom) {
  test::run_ranks(6, [](World& world) { use(world, at::kCPU); });
}

TEST(CallListener, HearsTheSameInADryRun) {
  for (int rank = 0; rank < 6; ++rank) use(*dry_world(rank, 6), at::kMeta);
}

}  // namespace
}  // namespace colossal::comm
