// Plans when chunks whose weights are sharded or rest elsewhere are fetched, ahead of their use,
// and when they are released. The plan is a pure function of the order of use, so that all ranks do
// the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::memory {

// The order in which a micro-batch reads chunks, by index; none twice in a row.
struct OrderOfUse {
  std::vector<int> forward;
  std::vector<int> backward;

  std::string to_text() const;  // and back: how ranks compare theirs
  static OrderOfUse from_text(const std::string& text);
  bool operator==(const OrderOfUse&) const = default;
};

// The order of use in each stage of the pipeline.
using OrderOfStages = std::map<int, OrderOfUse>;

// Whether `shorter` comes out of `longer` by leaving uses out.
bool is_subsequence(const std::vector<int>& shorter, const std::vector<int>& longer);

// A mark in an order of use: nothing before it is used again. It stands between the passes, so that
// a head's table is not kept until the last layer's weights are used in the backward pass.
inline constexpr int kNoUse = -1;

// What happens before a use: first chunks are released, then others are fetched, in this order.
struct FetchStep {
  int chunk = 0;  // that is used, or kNoUse
  std::vector<int> release;
  std::vector<int> fetch;
};

struct FetchPlan {
  std::vector<FetchStep> steps;
  std::vector<int> release_at_end;
  std::optional<size_t> repeat_from;  // after the last step comes this one; none: it ends

  // The step of this number, from 0, counted on through repetitions; null: after the end.
  const FetchStep* step(size_t number) const;
};

// Plans fetches so that at each use the chunk itself is whole, and so are the chunks used next, as
// far as all take no more than `window_bytes` (at least the next one in any case). At kNoUse chunks
// are only released. `bytes` are those of each chunk.
FetchPlan plan_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                       int64_t window_bytes);

// The same for an order that is gone through again and again: what the next round uses first is
// fetched while the last of this one is used.
FetchPlan plan_repeated_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                                int64_t window_bytes);

// Returns the most bytes that are fetched at once.
int64_t peak_bytes(const FetchPlan& plan, const std::vector<int64_t>& bytes);

// Fetches all that the order uses, from its beginning to its end: for an unknown order.
FetchPlan plan_all_at_once(const std::vector<int>& order);

}  // namespace colossal::memory
