#include "colossal/job/routing_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal {

namespace {

constexpr uint64_t kMostRows = uint64_t{1} << 48;  // the sum over a thousand experts fits 63 bits

}  // namespace

void write_routing(const std::filesystem::path& path, const RowsOfExperts& rows, int64_t steps) {
  io::write_file_atomically(path, nlohmann::json{{"steps", steps}, {"rows", rows}}.dump() + "\n");
}

RowsOfExperts read_routing(const std::filesystem::path& path, const models::ModelFacts& facts) {
  const nlohmann::json file = io::read_json(path);
  const auto refuse = [&](const std::string& what) -> ConfigError {
    return ConfigError(
        fmt::format("experts.observed = \"{}\": {}; give the routing.json of a run of this model",
                    path.string(), what));
  };
  const auto rows = file.is_object() ? file.find("rows") : file.end();
  if (rows == file.end() || !rows->is_array()) throw refuse("it has no list \"rows\"");
  if (static_cast<int64_t>(rows->size()) != facts.layers) {
    throw refuse(fmt::format("it has {} blocks, but the model has {}", rows->size(), facts.layers));
  }
  RowsOfExperts result;
  for (const nlohmann::json& of_block : *rows) {
    if (!of_block.is_array()) throw refuse("a block is not a list of numbers");
    const auto count = static_cast<int64_t>(of_block.size());
    if (count != 0 && count != facts.experts) {
      throw refuse(fmt::format("a block has {} experts, but the model's blocks have {}", count,
                               facts.experts));
    }
    std::vector<int64_t>& numbers = result.emplace_back();
    for (const nlohmann::json& number : of_block) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > kMostRows) {
        throw refuse(fmt::format("{} is not a number of rows", io::show_value(number)));
      }
      numbers.push_back(number.get<int64_t>());
    }
  }
  return result;
}

}  // namespace colossal
