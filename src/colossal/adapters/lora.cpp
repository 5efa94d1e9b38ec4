#include "colossal/adapters/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <set>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/regex.h"

namespace colossal::adapters {
namespace {

// Returns "q_proj" for "model.layers.3.self_attn.q_proj".
std::string last_name(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

text::Regex regex_of_target(const std::string& target) {
  return text::Regex("^(?:.*\\.)?(?:" + target + ")$", target);
}

template <typename Value>
Value value_of(const std::vector<std::pair<std::string, Value>>& pattern, const std::string& module,
               Value otherwise) {
  text::RegexScratch scratch;
  for (const auto& [target, value] : pattern) {
    if (regex_of_target(target).search(module, 0, scratch)) return value;
  }
  return otherwise;
}

[[noreturn]] void refuse_target(const std::string& key, const std::string& target,
                                const std::vector<Product>& products) {
  if (products.empty()) {
    throw ConfigError(fmt::format("{} = \"{}\": the model has no stacked experts; leave {} out",
                                  key, target, key));
  }
  std::set<std::string> names;
  for (const Product& product : products) names.insert(last_name(product.module));
  throw ConfigError(
      fmt::format("{} = \"{}\": names no layer that can have an adapter; available: {}, as in {}",
                  key, target, fmt::join(names, ", "), products.front().module));
}

}  // namespace

int64_t LoraSettings::rank_of(const std::string& module) const {
  return value_of(rank_pattern, module, rank);
}

double LoraSettings::alpha_of(const std::string& module) const {
  return value_of(alpha_pattern, module, alpha);
}

double LoraSettings::alpha_in_files(double own) const {
  if (!pissa) return own;
  return own * (rslora ? std::numbers::sqrt2 : 2);
}

double LoraSettings::scale(const std::string& module) const {
  const auto size = static_cast<double>(rank_of(module));
  return alpha_of(module) / (rslora ? std::sqrt(size) : size);
}

std::vector<Product> choose_products(const std::vector<Product>& products, const Targets& targets) {
  const bool all = targets.modules.empty() && targets.parameters.empty();
  std::vector<bool> chosen(products.size());
  for (size_t i = 0; i < products.size(); ++i) {
    chosen[i] = all && products[i].is_of_blocks() && !products[i].is_of_experts();
  }
  text::RegexScratch scratch;
  const auto choose = [&](const char* key, const std::string& target, bool of_experts) {
    const text::Regex regex = regex_of_target(target);
    bool found = false;
    std::vector<Product> of_kind;
    for (size_t i = 0; i < products.size(); ++i) {
      if (products[i].is_of_experts() != of_experts) continue;
      of_kind.push_back(products[i]);
      if (!regex.search(products[i].module, 0, scratch)) continue;
      found = chosen[i] = true;
    }
    if (!found) refuse_target(key, target, of_kind);
  };
  for (const std::string& target : targets.modules) choose("adapter.targets", target, false);
  for (const std::string& target : targets.parameters) {
    choose("adapter.target_parameters", target, true);
  }
  std::vector<Product> result;
  for (size_t i = 0; i < products.size(); ++i) {
    if (chosen[i]) result.push_back(products[i]);
  }
  return result;
}

void require_adapted(const std::string& key, const std::string& target,
                     const std::vector<Product>& adapted) {
  text::RegexScratch scratch;
  const text::Regex regex = regex_of_target(target);
  const auto named = [&](const Product& product) {
    return regex.search(product.module, 0, scratch).has_value();
  };
  if (std::ranges::none_of(adapted, named)) refuse_target(key, target, adapted);
}

bool names_module(const std::string& name, const std::string& module) {
  return module == name || module.ends_with("." + name);
}

nn::AdapterOptions adapter_options(const LoraSettings& settings,
                                   const std::vector<Product>& adapted,
                                   const std::vector<std::string>& trained) {
  const auto modules = std::make_shared<std::map<std::string, std::string>>();
  std::map<std::string, nn::AdapterOptions::Size> sizes;
  for (const Product& product : adapted) {
    modules->emplace(product.name, product.module);
    sizes[product.module] = {settings.rank_of(product.module), settings.scale(product.module)};
  }
  return {.dropout = settings.dropout,
          .magnitudes = settings.dora,
          .keeps_start = settings.pissa,
          .trained = {trained.begin(), trained.end()},
          .adapted = [modules](const std::string& product) -> std::optional<std::string> {
            const auto found = modules->find(product);
            if (found == modules->end()) return std::nullopt;
            return found->second;
          },
          .sizes = std::move(sizes)};
}

}  // namespace colossal::adapters
