#include "colossal/optim/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

struct Entry {
  std::string name;
  DefaultSettings defaults;
  std::unique_ptr<Optimizer> (*make)(const Settings& settings, bool matrix);
  bool apart = true;  // whether `make` depends on `matrix`
};

// Drops `matrix` for optimizers that treat all tensors alike.
template <std::unique_ptr<Optimizer> (*make)(const Settings&)>
std::unique_ptr<Optimizer> alike(const Settings& settings, bool) {
  return make(settings);
}

// AdamW updates the tensors that have no matrix.
template <std::unique_ptr<Optimizer> (*make)(const Settings&)>
std::unique_ptr<Optimizer> for_matrices(const Settings& settings, bool matrix) {
  return matrix ? make(settings) : make_adamw(settings);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"adamw", {.betas = {{0.9, 0.95}}, .eps = 1e-8}, alike<make_adamw>, false},
      {"adam", {.betas = {{0.9, 0.95}}, .eps = 1e-8}, alike<make_adam>, false},
      {"sgd", {.momentum = 0}, alike<make_sgd>, false},
      {"lion", {.betas = {{0.9, 0.99}}}, alike<make_lion>, false},
      {"adan", {.betas = {{0.98, 0.92, 0.99}}, .eps = 1e-8}, alike<make_adan>, false},
      {"lamb", {.betas = {{0.9, 0.999}}, .eps = 1e-6}, for_matrices<make_lamb>},
      {"lars",
       {.eps = 1e-8, .momentum = 0.9},
       [](const Settings& settings, bool matrix) {
         return matrix ? make_lars(settings) : make_sgd(settings);
       }},
      {"adafactor", {.betas = {{0}}, .eps = 1e-30}, make_adafactor},
      {"came", {.betas = {{0.9, 0.999, 0.9999}}, .eps = 1e-30}, make_came},
      {"muon", {.betas = {{0.9, 0.95}}, .eps = 1e-8, .momentum = 0.95}, for_matrices<make_muon>},
      {"galore", {.betas = {{0.9, 0.95}}, .eps = 1e-8}, for_matrices<make_galore>},
  };
  return all;
}

const Entry& find(const std::string& name) {
  const auto found = std::ranges::find(entries(), name, &Entry::name);
  if (found != entries().end()) return *found;
  throw ConfigError(fmt::format("optimizer.name = \"{}\": unknown; nearest: \"{}\"", name,
                                nearest(name, optimizer_names())));
}

void check_betas(const std::vector<double>& betas, const Entry& entry) {
  const std::vector<double>& defaults = *entry.defaults.betas;
  const auto is_decay_rate = [](double beta) { return beta >= 0 && beta < 1; };
  if (betas.size() == defaults.size() && std::ranges::all_of(betas, is_decay_rate)) return;
  throw ConfigError(fmt::format(
      "optimizer.betas = [{}]: {} has {} decay rate{} from 0 to below 1, for example [{}]",
      fmt::join(betas, ", "), entry.name, defaults.size(), defaults.size() == 1 ? "" : "s",
      fmt::join(defaults, ", ")));
}

}  // namespace

MatrixShape matrix_shape(at::IntArrayRef shape) {
  MatrixShape matrices;
  if (!shape.empty()) matrices.columns = shape.back();
  if (shape.size() >= 2) matrices.rows = shape[shape.size() - 2];
  for (size_t dim = 0; dim + 2 < shape.size(); ++dim) matrices.matrices *= shape[dim];
  return matrices;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

bool treats_matrices_apart(const std::string& name) {
  return find(name).apart;
}

bool has_adam_betas(const std::string& name) {
  return name == "adam" || name == "adamw" || name == "muon" || name == "galore";
}

DefaultSettings default_settings(const std::string& name) {
  return find(name).defaults;
}

DefaultSettings used_settings(const std::string& name, const OptimizerConfig& config) {
  DefaultSettings used = default_settings(name);
  if (used.betas && has_adam_betas(name)) used.betas = config.adam_betas;
  if (used.betas && config.betas) used.betas = config.betas;
  if (used.eps && config.eps) used.eps = config.eps;
  if (used.momentum && config.momentum) used.momentum = config.momentum;
  return used;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerConfig& config,
                                          bool matrix) {
  const Entry& entry = find(name);
  const DefaultSettings& defaults = entry.defaults;
  const DefaultSettings used = used_settings(name, config);
  Settings settings{.config = config};
  if (used.betas) {
    settings.betas = *used.betas;
    check_betas(settings.betas, entry);
  }
  settings.eps = config.eps.value_or(used.eps.value_or(0));
  settings.momentum = config.momentum.value_or(used.momentum.value_or(0));
  if (!(settings.momentum >= 0 && settings.momentum < 1)) {
    throw ConfigError(
        fmt::format("optimizer.momentum = {}: a decay rate from 0 to below 1", settings.momentum));
  }
  if (config.nesterov && settings.momentum == 0 && defaults.momentum) {
    throw ConfigError("optimizer.nesterov = true needs optimizer.momentum above 0, such as 0.9");
  }
  return entry.make(settings, matrix);
}

}  // namespace colossal::optim
