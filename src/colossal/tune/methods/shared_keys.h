// Keys of [tune] that several methods have: their descriptions, ranges and checks.
#pragma once

#include <string>

#include "colossal/base/config_schema.h"
#include "colossal/job/run_config.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::tune {

// The keys of sampling completions.
void describe_sampling(ConfigSchema& schema, TuneConfig& config);
// The keys of all on-policy methods. kl_text: describes tune.beta.
void describe_online(ConfigSchema& schema, TuneConfig& config, const std::string& kl_text);
// The keys of on-policy methods that compare the completions of a prompt with each other.
void describe_groups(ConfigSchema& schema, TuneConfig& config);
// Checks the values of the keys of on-policy methods.
void validate_online(const TuningMethod& method, const RunConfig& run, const TuneConfig& config);

// The keys of methods that train on preferences. text: describes tune.beta.
void describe_beta(ConfigSchema& schema, TuneConfig& config, const std::string& text);
void describe_label_smoothing(ConfigSchema& schema, TuneConfig& config);

}  // namespace colossal::tune
