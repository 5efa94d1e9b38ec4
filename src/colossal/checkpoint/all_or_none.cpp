#include "colossal/checkpoint/all_or_none.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal::checkpoint {
namespace {

constexpr char kDone = '+';
constexpr char kFailed = '-';
constexpr char kMisconfigured = '!';

constexpr size_t kMostRanksNamed = 8;

std::string attempt(const std::function<std::string()>& work) {
  try {
    return kDone + work();
  } catch (const CommError&) {
    throw;
  } catch (const ConfigError& error) {
    return kMisconfigured + std::string(error.what());
  } catch (const std::exception& error) {
    return kFailed + std::string(error.what());
  }
}

struct Failure {
  std::string reason;
  std::vector<size_t> ranks;
};

std::vector<Failure> gather_failures(const std::vector<std::string>& outcomes) {
  std::vector<Failure> failures;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].front() == kDone) continue;
    const std::string reason = outcomes[rank].substr(1);
    auto same = std::ranges::find(failures, reason, &Failure::reason);
    if (same == failures.end()) same = failures.insert(same, {reason, {}});
    same->ranks.push_back(rank);
  }
  return failures;
}

// Returns "rank 1: ", "ranks 0, 1: " or "all 4 ranks: "; "" if there is only one rank.
std::string who(const std::vector<size_t>& failed, size_t ranks) {
  if (ranks == 1) return "";
  if (failed.size() == ranks) return fmt::format("all {} ranks: ", ranks);
  if (failed.size() == 1) return fmt::format("rank {}: ", failed.front());
  const size_t named = std::min(failed.size(), kMostRanksNamed);
  std::string text =
      fmt::format("ranks {}", fmt::join(failed.begin(), failed.begin() + named, ", "));
  if (failed.size() > named) text += fmt::format(" and {} more", failed.size() - named);
  return text + ": ";
}

[[noreturn]] void raise(const std::vector<Failure>& failures,
                        const std::vector<std::string>& outcomes) {
  const bool misconfigured = std::ranges::none_of(
      outcomes, [](const std::string& outcome) { return outcome.front() == kFailed; });
  // A mistake in the settings is the job's, so no rank is named.
  if (misconfigured && failures.size() == 1) throw ConfigError(failures.front().reason);
  std::string text;
  for (const Failure& failure : failures) {
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", who(failure.ranks, outcomes.size()),
                        failure.reason);
  }
  if (misconfigured) throw ConfigError(text);
  throw IoError(text);
}

}  // namespace

std::vector<std::string> all_or_none(const comm::Group& group,
                                     const std::function<std::string()>& work) {
  std::vector<std::string> outcomes =
      comm::gather_bytes(attempt(work), group, comm::Reason::checkpoint);
  const std::vector<Failure> failures = gather_failures(outcomes);
  if (!failures.empty()) raise(failures, outcomes);
  for (std::string& outcome : outcomes) outcome.erase(0, 1);
  return outcomes;
}

std::string on_first_rank(const comm::Group& group, const std::function<std::string()>& work) {
  return all_or_none(group, [&] { return group.rank() == 0 ? work() : std::string(); }).front();
}

}  // namespace colossal::checkpoint
