#include "colossal/cluster/host_list.h"

#include <charconv>
#include <optional>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

// No cluster is larger; a list such as a[1-999999999] must not fill the memory.
constexpr size_t kMaxHosts = 1 << 17;

[[noreturn]] void fail(std::string_view list, std::string_view reason) {
  throw ConfigError(fmt::format(
      "host list '{}': {}; expected names such as host1,host[2-4] (SLURM_STEP_NODELIST)", list,
      reason));
}

std::optional<long> parse_number(std::string_view digits) {
  long value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  const bool whole = error == std::errc() && end == digits.end() && value >= 0;
  return whole && digits.front() != '-' ? std::optional(value) : std::nullopt;
}

// Splits a list at the commas outside brackets.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> pieces;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (depth < 0 || depth > 1) fail(list, "brackets do not match");
    if (list[i] != ',' || depth > 0) continue;
    pieces.push_back(list.substr(start, i - start));
    start = i + 1;
  }
  if (depth != 0) fail(list, "brackets do not match");
  pieces.push_back(list.substr(start));
  return pieces;
}

// Appends the numbers of a range: "01-03" is 01, 02, 03, with the leading zeros of the first.
void expand_range(std::string_view list, std::string_view range, std::vector<std::string>& found) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == range.npos ? first : range.substr(dash + 1);
  const std::optional<long> low = parse_number(first);
  const std::optional<long> high = parse_number(last);
  if (!low || !high || *low > *high) fail(list, fmt::format("'{}' is not a range", range));
  if (static_cast<size_t>(*high - *low) >= kMaxHosts - found.size()) fail(list, "too many hosts");
  for (long i = *low; i <= *high; ++i) found.push_back(fmt::format("{:0{}}", i, first.size()));
}

std::vector<std::string> expand_brackets(std::string_view list, std::string_view inside) {
  std::vector<std::string> found;
  for (const std::string_view range : split(inside)) expand_range(list, range, found);
  return found;
}

// Returns all names of one piece of a list: each bracket multiplies the names before it.
std::vector<std::string> expand_name(std::string_view list, std::string_view name) {
  std::vector<std::string> names{""};
  while (!name.empty()) {
    const size_t open = name.find('[');
    for (std::string& n : names) n += name.substr(0, open);
    if (open == name.npos) break;
    const size_t close = name.find(']', open);
    const auto middles = expand_brackets(list, name.substr(open + 1, close - open - 1));
    if (names.size() * middles.size() > kMaxHosts) fail(list, "too many hosts");
    std::vector<std::string> product;
    for (const std::string& head : names) {
      for (const std::string& middle : middles) product.push_back(head + middle);
    }
    names = std::move(product);
    name.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view piece : split(list)) {
    if (piece.empty()) fail(list, "a name is empty");
    for (std::string& name : expand_name(list, piece)) hosts.push_back(std::move(name));
    if (hosts.size() > kMaxHosts) fail(list, "too many hosts");
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (std::string_view piece : split(list)) {
    std::optional<long> times = 1;
    if (const size_t open = piece.find("(x"); open != piece.npos && piece.back() == ')') {
      times = parse_number(piece.substr(open + 2, piece.size() - open - 3));
      piece = piece.substr(0, open);
    }
    const std::optional<long> count = parse_number(piece);
    if (!count || !times || static_cast<size_t>(*times) > kMaxHosts) {
      throw ConfigError(fmt::format(
          "tasks per host '{}': expected counts such as 4(x2),3 (SLURM_STEP_TASKS_PER_NODE)",
          list));
    }
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace colossal::cluster
