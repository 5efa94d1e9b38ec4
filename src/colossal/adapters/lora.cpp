#include "colossal/adapters/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "colossal/base/error.h"
#include "colossal/text/regex.h"

namespace colossal::adapters {
namespace {

// "q_proj" of "model.layers.3.self_attn.q_proj".
std::string last_name(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

[[noreturn]] void refuse_target(const std::string& target, const std::vector<Product>& products) {
  std::set<std::string> names;
  for (const Product& product : products) names.insert(last_name(product.module));
  throw ConfigError(
      fmt::format("adapter.targets = \"{}\": names no product of the model; there are {}, as in {}",
                  target, fmt::join(names, ", "), products.front().module));
}

}  // namespace

double LoraSettings::scale() const {
  const auto size = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(size) : size);
}

std::vector<Product> choose_products(const std::vector<Product>& products,
                                     const std::vector<std::string>& targets) {
  if (targets.empty()) return products;
  std::vector<bool> chosen(products.size());
  text::RegexScratch scratch;
  for (const std::string& target : targets) {
    const text::Regex regex("^(?:.*\\.)?(?:" + target + ")$", target);
    bool found = false;
    for (size_t i = 0; i < products.size(); ++i) {
      if (!regex.search(products[i].module, 0, scratch)) continue;
      found = chosen[i] = true;
    }
    if (!found) refuse_target(target, products);
  }
  std::vector<Product> result;
  for (size_t i = 0; i < products.size(); ++i) {
    if (chosen[i]) result.push_back(products[i]);
  }
  return result;
}

nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted) {
  const auto modules = std::make_shared<std::map<std::string, std::string>>();
  for (const Product& product : adapted) modules->emplace(product.name, product.module);
  return {.rank = settings.rank,
          .scale = settings.scale(),
          .dropout = settings.dropout,
          .base = settings.base,
          .adapted = [modules](const std::string& product) -> std::optional<std::string> {
            const auto found = modules->find(product);
            if (found == modules->end()) return std::nullopt;
            return found->second;
          }};
}

}  // namespace colossal::adapters
