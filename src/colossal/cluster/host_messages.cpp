#include "colossal/cluster/host_messages.h"

#include <nlohmann/json.hpp>

namespace colossal::cluster {
namespace {

using Json = nlohmann::json;

// A program's message may have any bytes: those that are not UTF-8 are replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns make(parsed line) if the line is of this kind and has all fields that `make` reads.
template <class Make>
auto parse(const std::string& line, const char* kind, Make make)
    -> std::optional<decltype(make(Json()))> {
  try {
    const Json json = Json::parse(line);
    if (json.at("kind") != kind) return std::nullopt;
    return make(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

constexpr const char* kKindNames[] = {"failed", "stop", "kill"};

}  // namespace

std::string to_line(const Hello& hello) {
  return dump({{"kind", "hello"},
               {"index", hello.index},
               {"hosts", hello.hosts},
               {"ranks_per_host", hello.ranks_per_host}});
}

std::optional<Hello> parse_hello(const std::string& line) {
  return parse(line, "hello", [](const Json& json) {
    return Hello{json.at("index"), json.at("hosts"), json.at("ranks_per_host")};
  });
}

std::string to_line(const JobStart& start) {
  return dump({{"kind", "start"}, {"store_port", start.store_port}, {"job", start.job}});
}

std::optional<JobStart> parse_start(const std::string& line) {
  return parse(line, "start", [](const Json& json) {
    return JobStart{json.at("store_port"), json.at("job")};
  });
}

std::string refusal_line(const std::string& reason) {
  return dump({{"kind", "refused"}, {"reason", reason}});
}

std::optional<std::string> parse_refusal(const std::string& line) {
  return parse(line, "refused",
               [](const Json& json) { return json.at("reason").get<std::string>(); });
}

std::string to_line(const HostMessage& message) {
  Json json{{"kind", kKindNames[static_cast<int>(message.kind)]}};
  if (message.kind == HostMessage::Kind::failed) {
    json["who"] = message.failure.who;
    json["event"] = message.failure.event;
    json["text"] = message.failure.text;
    json["exit_code"] = message.failure.exit_code;
    json["sudden"] = message.failure.sudden;
  }
  return dump(json);
}

std::optional<HostMessage> parse_message(const std::string& line) {
  const auto failed = parse(line, "failed", [](const Json& json) {
    return HostMessage{HostMessage::Kind::failed,
                       Failure{json.at("who"), json.at("event"), json.at("text"),
                               json.at("exit_code"), json.at("sudden")}};
  });
  if (failed) return failed;
  const auto of_kind = [](HostMessage::Kind kind) {
    return [kind](const Json&) { return HostMessage{kind, {}}; };
  };
  const auto stop = parse(line, "stop", of_kind(HostMessage::Kind::stop));
  return stop ? stop : parse(line, "kill", of_kind(HostMessage::Kind::kill));
}

std::string done_line() {
  return dump({{"kind", "done"}});
}

bool is_done_line(const std::string& line) {
  return parse(line, "done", [](const Json&) { return true; }).has_value();
}

}  // namespace colossal::cluster
