// Converts messages of launchers to lines of text and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/control_channel.h"

namespace colossal::cluster {

// The first line that a joining launcher sends: its host, and the job that it was started with.
struct Hello {
  int index = 0;  // index of its host
  std::vector<std::string> hosts;
  int ranks_per_host = 0;
};

std::string to_line(const Hello& hello);
std::string to_line(const JobStart& start);
std::string to_line(const HostMessage& message);
std::string refusal_line(const std::string& reason);
std::string done_line();

// Return nullopt if the line is another message.
std::optional<Hello> parse_hello(const std::string& line);
std::optional<JobStart> parse_start(const std::string& line);
std::optional<std::string> parse_refusal(const std::string& line);
std::optional<HostMessage> parse_message(const std::string& line);
bool is_done_line(const std::string& line);

}  // namespace colossal::cluster
