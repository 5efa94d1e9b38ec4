#include "colossal/cluster/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

constexpr int kAnotherRankDied = 3;
constexpr size_t kMostLines = 16;

}  // namespace

std::string Failure::describe() const {
  return text.empty() ? fmt::format("{} {}", who, event)
                      : fmt::format("{} {}: {}", who, event, text);
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "" : fmt::format("SIG{}", name);
}

void JobOutcome::add_local(Failure failure) {
  ++local_failures_;
  failures_.push_back(std::move(failure));
}

void JobOutcome::add_remote(Failure failure) {
  failures_.push_back(std::move(failure));
}

bool JobOutcome::failed() const {
  return std::any_of(failures_.begin(), failures_.end(), [this](const Failure& f) {
    return !stopped_ || f.sudden || f.exit_code != kAnotherRankDied;
  });
}

const Failure& JobOutcome::cause() const {
  COLOSSAL_CHECK(failed(), "no failure of {} ranks", num_local_ranks_);
  const auto find = [this](auto matches) {
    return std::find_if(failures_.begin(), failures_.end(), matches);
  };
  auto found = find([](const Failure& f) { return f.sudden; });
  if (found == failures_.end()) {
    found = find([](const Failure& f) { return f.exit_code != kAnotherRankDied; });
  }
  return found == failures_.end() ? failures_.front() : *found;
}

bool JobOutcome::all_failed_alike() const {
  return local_failures_ == num_local_ranks_ && !all_blame_another_rank() &&
         std::all_of(failures_.begin(), failures_.end(), [this](const Failure& f) {
           return !f.sudden && f.exit_code == failures_.front().exit_code;
         });
}

std::string JobOutcome::message() const {
  if (!all_failed_alike()) return cause().describe();
  const auto said = std::find_if(failures_.begin(), failures_.end(),
                                 [](const Failure& f) { return !f.text.empty(); });
  if (said != failures_.end()) return said->text;
  if (failures_.size() == 1) return cause().describe();
  return fmt::format("all {} ranks{} {}", num_local_ranks_,
                     static_cast<int>(failures_.size()) > num_local_ranks_ ? " of this host" : "",
                     cause().event);
}

bool JobOutcome::all_blame_another_rank() const {
  return std::all_of(failures_.begin(), failures_.end(),
                     [](const Failure& f) { return !f.sudden && f.exit_code == kAnotherRankDied; });
}

std::vector<std::string> JobOutcome::messages_of_ranks() const {
  std::vector<std::string> said;
  for (const Failure& failure : failures_) {
    if (failure.text.empty()) continue;
    if (said.size() == kMostLines) break;
    said.push_back(failure.describe());
  }
  return said;
}

}  // namespace colossal::cluster
