#include "colossal/checkpoint/together.h"

#include "colossal/base/error.h"

namespace colossal::checkpoint {
namespace {

constexpr char kDone = '+';
constexpr char kFailed = '-';

std::string attempt(const std::function<std::string()>& work) {
  try {
    return kDone + work();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    return kFailed + std::string(error.what());
  }
}

}  // namespace

std::vector<std::string> together(const comm::Group& group,
                                  const std::function<std::string()>& work) {
  std::vector<std::string> outcomes =
      comm::gather_bytes(attempt(work), group, comm::Reason::checkpoint);
  std::string failures;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const char mark = outcomes[rank].front();
    outcomes[rank].erase(0, 1);
    if (mark == kDone) continue;
    if (!failures.empty()) failures += "; ";
    failures +=
        outcomes.size() > 1 ? fmt::format("rank {}: {}", rank, outcomes[rank]) : outcomes[rank];
  }
  if (!failures.empty()) throw IoError(failures);
  return outcomes;
}

}  // namespace colossal::checkpoint
