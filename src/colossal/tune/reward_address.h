// A reward given by a service on the network.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Posts {"completions": [...]} to an address "http://HOST[:PORT][/PATH]"; each completion is the
// object that a reward's program gets as a line (reward_program.h). The service answers {"rewards":
// [number or null, ...]}. timeout: seconds for the whole exchange. score() throws Error without
// such an answer. Throws ConfigError for an invalid address.
std::unique_ptr<Reward> make_reward_address(const std::string& address, double timeout);

}  // namespace colossal::tune
