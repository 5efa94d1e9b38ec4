// Rewards by a program of the user's.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Runs `command` by the shell for each batch: a line of JSON for each completion on its standard
// input, the prompt's line with "completion" and "tokens"; it answers with as many lines, in order,
// each a number, null for none, or {"reward": ...}. What it writes to standard error is the run's.
// timeout: in seconds; then it is killed. score() throws Error for an exit code, a signal, a
// timeout and lines that are none.
std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout);

// The line that a program gets of a completion, and the number of a line or field that it gives.
std::string describe(const ScoredText& text);
double read_reward(const nlohmann::json& answer);  // throws Error

}  // namespace colossal::tune
