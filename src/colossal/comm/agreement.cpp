#include "colossal/comm/agreement.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/backend.h"

namespace colossal::comm {
namespace {

std::string settings_key(int rank) {
  return fmt::format("settings/{}", rank);
}

std::string text_of(const Settings& settings) {
  return nlohmann::json(settings).dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);  // paths may have any bytes
}

Settings read_settings(c10d::Store& store, int rank) {
  return nlohmann::json::parse(store.get_to_str(settings_key(rank))).get<Settings>();
}

std::string value_in(const Settings& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &Settings::value_type::first);
  return found == settings.end() ? "none" : found->second;
}

// Returns the names of settings that differ: in the order of `first`, then those that only `second`
// has.
std::vector<std::string> differing_names(const Settings& first, const Settings& second) {
  std::vector<std::string> names;
  for (const auto* settings : {&first, &second}) {
    for (const auto& [name, value] : *settings) {
      if (value_in(first, name) == value_in(second, name)) continue;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// Rank 0 serves the store and ends after this. So it waits until the other ranks have read it.
void wait_for_readers(c10d::Store& store, int ranks, std::chrono::milliseconds timeout) {
  const std::string kReaders = "settings/readers";
  const Deadline deadline(timeout);
  store.add(kReaders, 1);
  while (store.add(kReaders, 0) < ranks && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string describe_difference(const Settings& of_rank_0, int rank, const Settings& of_rank) {
  std::vector<std::string> names = differing_names(of_rank_0, of_rank);
  if (names.empty()) return "";
  const std::string first = names.front();
  names.erase(names.begin());
  const std::string others =
      names.empty() ? "" : fmt::format(", and {} differ too", fmt::join(names, ", "));
  return fmt::format(
      "rank {} has {} = {}, rank 0 has {}{}: all ranks must be started with the same program, "
      "settings and data",
      rank, first, value_in(of_rank, first), value_in(of_rank_0, first), others);
}

std::string publish_settings(c10d::Store& store, int rank, const Settings& settings) {
  store.set(settings_key(rank), text_of(settings));
  Settings sorted = settings;
  std::ranges::sort(sorted);
  const std::string text = text_of(sorted);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

void require_agreement(c10d::Store& store, const Rendezvous& rendezvous,
                       const std::vector<Arrival>& arrivals, std::chrono::milliseconds timeout) {
  const auto other = std::ranges::find_if(arrivals, [&](const Arrival& arrival) {
    return arrival.settings != arrivals.front().settings;
  });
  if (other == arrivals.end()) return;
  const int rank = static_cast<int>(other - arrivals.begin());
  const std::string difference =
      describe_difference(read_settings(store, 0), rank, read_settings(store, rank));
  refuse_together(store, rendezvous, difference, timeout);
}

void refuse_together(c10d::Store& store, const Rendezvous& rendezvous, const std::string& why,
                     std::chrono::milliseconds timeout) {
  if (rendezvous.rank == 0) {
    wait_for_readers(store, rendezvous.size, timeout);
  } else {
    store.add("settings/readers", 1);
  }
  throw ConfigError(why);
}

}  // namespace colossal::comm
