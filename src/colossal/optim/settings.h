// The settings with which an optimizer is made: those of OptimizerConfig, or the
// optimizer's defaults (make_optimizer()).
#pragma once

#include <memory>
#include <string>

#include "colossal/optim/optimizer.h"

namespace colossal::optim {

// The settings of one optimizer, with its defaults filled in; those that it does not have are empty
// or 0. `config` must outlive this.
struct Settings {
  std::vector<double> betas;
  double eps = 0;
  double momentum = 0;
  const OptimizerConfig& config;
};

// Each function makes one optimizer.
std::unique_ptr<Optimizer> make_adam(const Settings& settings);   // adam.cpp
std::unique_ptr<Optimizer> make_adamw(const Settings& settings);  // adamw.cpp
std::unique_ptr<Optimizer> make_sgd(const Settings& settings);    // sgd.cpp
std::unique_ptr<Optimizer> make_lion(const Settings& settings);   // lion.cpp
std::unique_ptr<Optimizer> make_adan(const Settings& settings);   // adan.cpp
std::unique_ptr<Optimizer> make_lamb(const Settings& settings);   // lamb.cpp
std::unique_ptr<Optimizer> make_lars(const Settings& settings);   // lars.cpp
// matrix: as in make_optimizer().
std::unique_ptr<Optimizer> make_adafactor(const Settings& settings, bool matrix);  // adafactor.cpp
std::unique_ptr<Optimizer> make_came(const Settings& settings, bool matrix);       // came.cpp
std::unique_ptr<Optimizer> make_muon(const Settings& settings);                    // muon.cpp
std::unique_ptr<Optimizer> make_galore(const Settings& settings);                  // galore.cpp

}  // namespace colossal::optim
