// Who may use the server: keys, and the sites whose pages a browser may let use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/server/http_server.h"

namespace colossal::server {

struct AccessOptions {
  // If not empty, clients must send "Authorization: Bearer KEY" or "x-api-key: KEY" with one of
  // these keys; administrative routes require admin_key if it is not empty.
  std::string key, admin_key;
  // Names of this server that requests may have in Host, in lower case, without a port.
  std::vector<std::string> allowed_hosts;
  // Origins of other sites whose pages may use the server, such as "https://chat.example"; "*":
  // all.
  std::vector<std::string> allowed_origins;
};

// Checks requests. Protects against pages of other sites in the browser of a user who can reach the
// server: pages that send requests to it, and pages whose name resolves to its address (DNS
// rebinding).
class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  // Call before requests are checked. host: the address as the user has given it. is_loopback:
  // whether only programs of this machine can connect. Then, or if there are allowed_hosts,
  // requests must have a Host of these: `host`, localhost, 127.0.0.1, [::1], allowed_hosts.
  void set_address(const std::string& host, bool is_loopback);

  // Throws ApiError 403 if the request's Host is not a name of this server.
  void check_host(const HttpRequest& request) const;
  // Returns the header fields with which a page of another, allowed site may read the response;
  // none if the request has no Origin, or that of this server. Throws ApiError 403 if the Origin is
  // another.
  Headers check_origin(const HttpRequest& request) const;
  // Returns the header fields of the response to a browser that asks whether a page may send a
  // request (a CORS preflight); nullopt if the request is no preflight. `allowed`: what
  // check_origin() returned.
  std::optional<Headers> answer_preflight(const HttpRequest& request, Headers allowed) const;
  // Throws ApiError 415 if a POST request has another content type than JSON, which a browser sends
  // to other sites without asking.
  static void check_content_type(const HttpRequest& request);
  // Throws ApiError 401 unless the request has the key. is_administrative: of the route.
  void check_key(const HttpRequest& request, bool is_administrative) const;

 private:
  AccessOptions options_;
  bool checks_host_ = false;
};

// Returns a header field of the request; "" if missing. name: in lower case.
std::string header_of(const HttpRequest& request, const char* name);

}  // namespace colossal::server
