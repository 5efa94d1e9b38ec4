#include "colossal/server/access.h"

#include <algorithm>

#include "colossal/io/json.h"
#include "colossal/server/api_error.h"

namespace colossal::server {
namespace {

// Returns a value of Host without its port; the brackets of an IPv6 address stay.
std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  const bool has_port =
      colon != host.npos && host.find_first_not_of("0123456789", colon + 1) == host.npos;
  return has_port ? host.substr(0, colon) : host;
}

// Takes equally long wherever the texts differ, so that a key cannot be guessed letter by letter.
bool equal_in_constant_time(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(wanted.empty() ? 0 : wanted[i % wanted.size()]);
  }
  return difference == 0;
}

// Returns the key of a request; "" if it has none. The name of the scheme has any case (RFC 9110,
// 11.1). Anthropic's clients send x-api-key.
std::string key_of(const HttpRequest& request) {
  const std::string scheme = "bearer ", given = header_of(request, "authorization");
  if (lower_case(given.substr(0, scheme.size())) == scheme) {
    return given.substr(std::min(given.find_first_not_of(' ', scheme.size()), given.size()));
  }
  return given.empty() ? header_of(request, "x-api-key") : "";
}

}  // namespace

std::string header_of(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string() : found->second;
}

void Access::set_address(const std::string& host, bool is_loopback) {
  std::vector<std::string>& hosts = options_.allowed_hosts;
  checks_host_ = is_loopback || !hosts.empty();
  hosts.insert(hosts.end(), {"localhost", "127.0.0.1", "[::1]"});
  hosts.push_back(host.find(':') == host.npos ? lower_case(host)
                                              : fmt::format("[{}]", lower_case(host)));
}

void Access::check_host(const HttpRequest& request) const {
  if (!checks_host_) return;
  const std::string host = without_port(lower_case(header_of(request, "host")));
  if (std::ranges::find(options_.allowed_hosts, host) != options_.allowed_hosts.end()) return;
  throw ApiError(403, fmt::format("{} is not a name of this server: use localhost, or start the "
                                  "server with --allowed-host=NAME",
                                  io::quote_text(host.substr(0, 200))));
}

Headers Access::check_origin(const HttpRequest& request) const {
  const std::string origin = header_of(request, "origin");
  if (origin.empty()) return {};
  const size_t scheme = origin.find("://");
  const bool is_own = scheme != origin.npos && lower_case(origin.substr(scheme + 3)) ==
                                                   lower_case(header_of(request, "host"));
  if (is_own) return {};
  const auto& allowed = options_.allowed_origins;
  for (const std::string& site : {lower_case(origin), std::string("*")}) {
    if (std::ranges::find(allowed, site) == allowed.end()) continue;
    return {{"Access-Control-Allow-Origin", origin},
            {"Access-Control-Expose-Headers", "Retry-After"},
            {"Vary", "Origin"}};
  }
  throw ApiError(403, fmt::format("pages of {} may not use this server; to allow it, start the "
                                  "server with --allowed-origin={}",
                                  io::quote_text(origin.substr(0, 200)), origin.substr(0, 200)));
}

std::optional<Headers> Access::answer_preflight(const HttpRequest& request, Headers allowed) const {
  if (request.method != "OPTIONS" || header_of(request, "access-control-request-method").empty()) {
    return std::nullopt;
  }
  allowed.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  const std::string headers = header_of(request, "access-control-request-headers");
  if (!headers.empty()) allowed.emplace_back("Access-Control-Allow-Headers", headers);
  if (header_of(request, "access-control-request-private-network") == "true") {
    allowed.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  allowed.emplace_back("Access-Control-Max-Age", "600");
  return allowed;
}

void Access::check_content_type(const HttpRequest& request) {
  if (request.method != "POST") return;
  const std::string type = lower_case(header_of(request, "content-type"));
  if (type.substr(0, type.find_first_of("; \t")) == "application/json") return;
  throw ApiError(415, "send the body as \"Content-Type: application/json\"");
}

void Access::check_key(const HttpRequest& request, bool is_administrative) const {
  const std::string given = key_of(request);
  const bool is_admin =
      !options_.admin_key.empty() && equal_in_constant_time(given, options_.admin_key);
  if (is_admin) return;
  if (is_administrative && !options_.admin_key.empty()) {
    throw ApiError(401, "this route requires the admin key: \"Authorization: Bearer KEY\"");
  }
  if (options_.key.empty() || equal_in_constant_time(given, options_.key)) return;
  throw ApiError(401, "this server requires its API key: \"Authorization: Bearer KEY\"");
}

}  // namespace colossal::server
