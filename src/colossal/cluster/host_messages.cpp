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

constexpr const char* kKindNames[] = {"failed", "stop", "kill", "stopped", "pause", "leave"};

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
  return dump({{"kind", "start"},
               {"store_port", start.store_port},
               {"job", start.job},
               {"members", start.members}});
}

std::optional<JobStart> parse_start(const std::string& line) {
  return parse(line, "start", [](const Json& json) {
    return JobStart{json.at("store_port"), json.at("job"), json.at("members")};
  });
}

std::string to_line(const Refusal& refusal) {
  return dump({{"kind", "refused"}, {"reason", refusal.reason}, {"for_now", refusal.for_now}});
}

std::optional<Refusal> parse_refusal(const std::string& line) {
  return parse(line, "refused", [](const Json& json) {
    return Refusal{json.at("reason"), json.at("for_now")};
  });
}

std::string end_line(int exit_code) {
  return dump({{"kind", "end"}, {"exit_code", exit_code}});
}

std::optional<int> parse_end(const std::string& line) {
  return parse(line, "end", [](const Json& json) { return json.at("exit_code").get<int>(); });
}

std::string to_line(const HostMessage& message) {
  Json json{{"kind", kKindNames[static_cast<int>(message.kind)]}, {"job", message.job}};
  if (message.kind == HostMessage::Kind::failed) {
    json["who"] = message.failure.who;
    json["event"] = message.failure.event;
    json["text"] = message.failure.text;
    json["exit_code"] = message.failure.exit_code;
    json["sudden"] = message.failure.sudden;
    json["host"] = message.failure.host;
  }
  return dump(json);
}

std::optional<HostMessage> parse_message(const std::string& line) {
  using Kind = HostMessage::Kind;
  const auto failed = parse(line, kKindNames[0], [](const Json& json) {
    return HostMessage{Kind::failed,
                       Failure{json.at("who"), json.at("event"), json.at("text"),
                               json.at("exit_code"), json.at("sudden"), json.at("host")},
                       json.at("job")};
  });
  if (failed) return failed;
  for (const Kind kind : {Kind::stop, Kind::kill, Kind::stopped, Kind::pause, Kind::leave}) {
    const auto message = parse(line, kKindNames[static_cast<int>(kind)], [kind](const Json& json) {
      return HostMessage{kind, {}, json.at("job")};
    });
    if (message) return message;
  }
  return std::nullopt;
}

std::string done_line(const std::string& job) {
  return dump({{"kind", "done"}, {"job", job}});
}

std::optional<std::string> parse_done(const std::string& line) {
  return parse(line, "done", [](const Json& json) { return json.at("job").get<std::string>(); });
}

}  // namespace colossal::cluster
