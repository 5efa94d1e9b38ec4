// Converts the messages between launchers (control_channel.h) to lines of JSON and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/control_channel.h"

namespace colossal::cluster {

// The first message of a launcher that joins: its host, and the options with which it was started,
// which must be those of the first host's launcher.
struct Hello {
  int index = 0;  // index of the launcher's host in `hosts`
  std::vector<std::string> hosts;
  int ranks_per_host = 0;
};

std::string to_line(const Hello& hello);
std::string to_line(const JobStart& start);
std::string to_line(const HostMessage& message);
std::string refusal_line(const std::string& reason);
std::string done_line();

// Return nullopt if the line is no message of that type.
std::optional<Hello> parse_hello(const std::string& line);
std::optional<JobStart> parse_start(const std::string& line);
std::optional<std::string> parse_refusal(const std::string& line);
std::optional<HostMessage> parse_message(const std::string& line);
bool is_done_line(const std::string& line);

}  // namespace colossal::cluster
