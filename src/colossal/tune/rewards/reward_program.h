// The reward "command:PROGRAM" of an on-policy run: a user's program computes the rewards. Used by
// make_reward_function() (rewards.h).
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {

// Returns a reward whose score() runs `command` in the shell. The program reads one line of JSON
// per completion from standard input: the fields of the prompt's line, "completion" (the text) and
// "tokens" (its number of tokens). It must write one line per completion to standard output, in the
// order of the input: a number, null (no reward) or {"reward": a number or null}. Its standard
// error is that of the run. timeout: seconds after which the program is killed. score() throws
// Error for a nonzero exit code, a signal, a timeout, an invalid line or a wrong number of lines.
// make_reward_program() throws ConfigError if `command` is blank.
std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout);

// Returns the JSON object that a program or an HTTP service receives for a completion, as one line
// without line feed. The object has all fields of the prompt's line, and "completion" (the text)
// and "tokens" (its number of tokens).
std::string describe(const ScoredText& text);
// Returns the reward in the answer of a program or an HTTP service for one completion: a number,
// null or {"reward": a number or null}. NaN for null. Throws Error for any other answer.
double read_reward(const nlohmann::json& answer);

}  // namespace colossal::tune
