// Plans when chunks with sharded or offloaded weights are fetched, ahead of their use, and when
// they are released. The plan is a pure function of the order of use, the chunks' sizes and the
// limit, so ranks that agree on these make the same plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::memory {

// The order in which a micro-batch uses chunks, by index, without immediate repetitions.
struct OrderOfUse {
  std::vector<int> forward;
  std::vector<int> backward;

  std::string to_text() const;  // text form and its inverse, by which ranks compare their orders
  static OrderOfUse from_text(const std::string& text);
  bool operator==(const OrderOfUse&) const = default;
};

// The order of use in each stage of the pipeline.
using OrderOfStages = std::map<int, OrderOfUse>;

// Whether `shorter` results from `longer` by removing entries.
bool is_subsequence(const std::vector<int>& shorter, const std::vector<int>& longer);

// A mark in an order of use, between the forward and the backward pass. At the mark, every chunk is
// released that is not among the next uses within window_bytes (plan_fetches()). Without it, the
// head's table would be kept until the backward pass uses the last layer's weights.
inline constexpr int kNoUse = -1;

// What is done before a use: first chunks `release` are released, then chunks `fetch` are fetched.
struct FetchStep {
  int chunk = 0;  // the chunk that is used, or kNoUse
  std::vector<int> release;
  std::vector<int> fetch;
};

struct FetchPlan {
  std::vector<FetchStep> steps;
  std::vector<int> release_at_end;
  std::optional<size_t> repeat_from;  // index of the step that follows the last; nullopt: none

  // Returns step `number`, counted from 0 through all repetitions; null after the end.
  const FetchStep* step(size_t number) const;
};

// Plans fetches so that, at each use, the used chunk and the chunks used next have been fetched, as
// many as together have at most `window_bytes`, but at least the used chunk and the next one. At
// kNoUse, chunks are only released. bytes: size of each chunk.
FetchPlan plan_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                       int64_t window_bytes);

// As plan_fetches(), for an order that repeats without end: the first chunks of the next repetition
// are fetched while the last chunks of the current one are used.
FetchPlan plan_repeated_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                                int64_t window_bytes);

// Returns the most bytes of chunks that are on the device at the same time under the plan.
int64_t peak_bytes(const FetchPlan& plan, const std::vector<int64_t>& bytes);

// Fetches all chunks in `order` before the first use and releases them at the end. For chunks whose
// order of use is unknown.
FetchPlan plan_all_at_once(const std::vector<int>& order);

}  // namespace colossal::memory
