#include "colossal/optim/optimizer_config.h"

#include "colossal/base/nearest.h"

namespace colossal {

using optim::GroupConfig;

TypeDescription ConfigType<GroupConfig>::describe(const KeyOptions&) {
  return {"table", "{pattern = \"bias\", learning_rate_scale = 2}", {}, {}};
}

GroupConfig ConfigType<GroupConfig>::read(const nlohmann::json& found, const KeyOptions&) {
  if (!found.is_object()) throw WrongType();
  GroupConfig group;
  const std::vector<std::string> keys{"pattern", "name", "learning_rate_scale", "weight_decay",
                                      "frozen"};
  for (const auto& [key, value] : found.items()) {
    if (key == "pattern") {
      group.pattern = ConfigType<std::string>::read(value, {});
    } else if (key == "name") {
      group.name = ConfigType<std::string>::read(value, {.choices = optim::optimizer_names()});
    } else if (key == "learning_rate_scale") {
      group.learning_rate_scale = ConfigType<double>::read(value, {.minimum = 0});
    } else if (key == "weight_decay") {
      group.weight_decay = ConfigType<double>::read(value, {.minimum = 0});
    } else if (key == "frozen") {
      group.frozen = ConfigType<bool>::read(value, {});
    } else {
      throw BadValue(fmt::format("has no key \"{}\"; nearest: \"{}\"", key, nearest(key, keys)));
    }
  }
  if (group.pattern.empty()) throw BadValue("must have a pattern, such as {pattern = \"bias\"}");
  return group;
}

nlohmann::json ConfigType<GroupConfig>::show(const GroupConfig& group) {
  nlohmann::json shown{{"pattern", group.pattern}};
  if (group.name) shown["name"] = *group.name;
  if (group.learning_rate_scale != 1) shown["learning_rate_scale"] = group.learning_rate_scale;
  if (group.weight_decay) shown["weight_decay"] = *group.weight_decay;
  if (group.frozen) shown["frozen"] = true;
  return shown;
}

}  // namespace colossal
