// A reward computed by an HTTP service.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Returns a reward that posts {"completions": [...]} to an address "http://HOST[:PORT][/PATH]".
// Each completion is the JSON object that describe() returns (reward_program.h). The service
// answers {"rewards": [...]} with a number, null (no reward) or {"reward": ...} for each
// completion, in order. timeout: seconds for the whole exchange. score() throws Error if there is
// no such answer in time. Throws ConfigError for an invalid address.
std::unique_ptr<Reward> make_reward_address(const std::string& address, double timeout);

}  // namespace colossal::tune
