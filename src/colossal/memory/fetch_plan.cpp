#include "colossal/memory/fetch_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace colossal::memory {
namespace {

// Returns the chunks that should be fetched at `position`, in order of use: the one used there, the
// next other one, and following ones as long as all fit in `window_bytes`. From one position to the
// next, only the chunk just used can drop out, because the others come closer.
std::vector<int> wanted_at(size_t position, const std::vector<int>& order,
                           const std::vector<int64_t>& bytes, int64_t window_bytes) {
  std::vector<int> wanted;
  int64_t together = 0;
  for (size_t next = position; next < order.size(); ++next) {
    if (order[next] == kEndOfForward || std::ranges::find(wanted, order[next]) != wanted.end())
      continue;
    together += bytes[order[next]];
    if (together > window_bytes && wanted.size() > 1) break;
    wanted.push_back(order[next]);
  }
  return wanted;
}

}  // namespace

std::string OrderOfUse::to_text() const {
  return nlohmann::json{forward, backward}.dump();
}

OrderOfUse OrderOfUse::from_text(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {json.at(0), json.at(1)};
}

bool is_subsequence(const std::vector<int>& shorter, const std::vector<int>& longer) {
  size_t found = 0;
  for (size_t i = 0; i < longer.size() && found < shorter.size(); ++i) {
    if (longer[i] == shorter[found]) ++found;
  }
  return found == shorter.size();
}

const FetchStep* FetchPlan::step(size_t number) const {
  if (number < steps.size()) return &steps[number];
  if (!repeat_from) return nullptr;
  return &steps[*repeat_from + (number - steps.size()) % (steps.size() - *repeat_from)];
}

FetchPlan plan_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                       int64_t window_bytes) {
  FetchPlan plan;
  std::vector<int> here;
  for (size_t position = 0; position < order.size(); ++position) {
    const std::vector<int> wanted = wanted_at(position, order, bytes, window_bytes);
    const auto missing_in = [](const std::vector<int>& chunks) {
      return [&](int chunk) { return std::ranges::find(chunks, chunk) == chunks.end(); };
    };
    FetchStep& step = plan.steps.emplace_back(order[position]);
    std::ranges::copy_if(here, std::back_inserter(step.release), missing_in(wanted));
    if (order[position] == kEndOfForward) {
      std::erase_if(here, missing_in(wanted));
      continue;
    }
    std::ranges::copy_if(wanted, std::back_inserter(step.fetch), missing_in(here));
    here = wanted;
  }
  plan.release_at_end = here;
  return plan;
}

FetchPlan plan_repeated_fetches(const std::vector<int>& order, const std::vector<int64_t>& bytes,
                                int64_t window_bytes) {
  std::vector<int> round = order;
  // A chunk that ends one round and begins the next (a tied head) has one use there.
  if (round.size() > 1 && round.front() == round.back()) round.pop_back();
  // The first of three rounds begins with no chunk fetched, and the last one is followed by none.
  // So the second is the round that repeats.
  std::vector<int> rounds;
  for (int i = 0; i < 3; ++i) rounds.insert(rounds.end(), round.begin(), round.end());
  FetchPlan plan = plan_fetches(rounds, bytes, window_bytes);
  plan.steps.resize(2 * round.size());
  plan.release_at_end.clear();
  plan.repeat_from = round.size();
  return plan;
}

int64_t peak_bytes(const FetchPlan& plan, const std::vector<int64_t>& bytes) {
  int64_t together = 0, peak = 0;
  for (const FetchStep& step : plan.steps) {
    for (int chunk : step.release) together -= bytes[chunk];
    for (int chunk : step.fetch) together += bytes[chunk];
    peak = std::max(peak, together);
  }
  return peak;
}

FetchPlan plan_all_at_once(const std::vector<int>& order) {
  FetchPlan plan;
  std::set<int> here;
  for (int chunk : order) {
    if (!here.insert(chunk).second) continue;
    plan.release_at_end.push_back(chunk);
  }
  for (int chunk : order) plan.steps.emplace_back(chunk);
  if (!plan.steps.empty()) plan.steps.front().fetch = plan.release_at_end;
  return plan;
}

}  // namespace colossal::memory
