// Plans when chunks with sharded or offloaded weights are fetched to the device, ahead of their
// use, and when they are released. The plan is a pure function of the order of use, the chunks'
// sizes and a limit in bytes, so ranks that agree on these make the same plan. ChunkFetcher carries
// it out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::memory {

// The chunks that a micro-batch uses in a stage, as indices of chunks in the order of their uses. A
// chunk that is used several times in a row is listed once.
struct OrderOfUse {
  std::vector<int> forward;   // in the forward pass
  std::vector<int> backward;  // in the backward pass

  // A text form of an order and its inverse. Ranks send each other the text to compare their
  // orders.
  std::string to_text() const;
  static OrderOfUse from_text(const std::string& text);
  bool operator==(const OrderOfUse&) const = default;
};

// The order of use in each of a rank's pipeline stages, by stage.
using OrderOfStages = std::map<int, OrderOfUse>;

// Returns whether `shorter` results from `longer` by removing entries.
bool is_subsequence(const std::vector<int>& shorter, const std::vector<int>& longer);

// An entry that stands between the uses of the forward and of the backward pass in the list of uses
// that plan_fetches() gets. Chunks are released only before an entry or after the last one. This
// entry lets the head's table be released early: the forward pass uses the table last, and the
// backward pass usually does not use it, because the loss computes the head's gradients in the
// forward pass (ops/loss/linear_cross_entropy.h). Without this entry, the table would be kept until
// the first use of the backward pass.
inline constexpr int kEndOfForward = -1;

// The use of a chunk, and what is done before: first the chunks `release` are released, then the
// chunks `fetch` are fetched.
struct FetchStep {
  int chunk = 0;  // the chunk that is used, or kEndOfForward
  std::vector<int> release;
  std::vector<int> fetch;
};

struct FetchPlan {
  std::vector<FetchStep> steps;  // in order of use
  // The chunks to release after the last step; empty in a plan that repeats.
  std::vector<int> release_at_end;
  // Index of the step that follows the last step, in a plan that repeats; nullopt: the plan ends.
  std::optional<size_t> repeat_from;

  // Returns step `number`, counted from 0 through all repetitions; null after the end.
  const FetchStep* step(size_t number) const;
};

// Plans the fetches for uses in `order`, a list of chunks that may contain kEndOfForward. At each
// use, exactly the chunks of a window are on the device. The window begins with the used chunk, and
// continues with the other chunks in the order of their next uses, as long as all of them together
// have at most `window_bytes` bytes. It has at least two chunks, of any size, if two are still to
// be used. Chunks outside the window are released before the use. At kEndOfForward, the window
// begins with the chunk of the next use. Chunks outside this window are released, and none are
// fetched. bytes: size of each chunk, by index of the chunk.
FetchPlan plan_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                       int64_t window_bytes);

// Plans the fetches as plan_fetches() does, for an order that repeats without end. The first chunks
// of the next repetition are fetched while the last chunks of the current repetition are used. If
// the last chunk of `order` is also its first, the end of one repetition and the beginning of the
// next are a single use of this chunk, with one step.
FetchPlan plan_repeated_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                                int64_t window_bytes);

// Returns the largest number of bytes of chunks that are on the device at the same time under the
// plan. bytes: size of each chunk, by index of the chunk.
int64_t peak_bytes(const FetchPlan& plan, const std::vector<int64_t>& bytes);

// Returns a plan that fetches all chunks in `order` before the first use and releases them at the
// end. For chunks whose order of use is unknown.
FetchPlan plan_all_at_once(const std::vector<int>& order);

}  // namespace colossal::memory
