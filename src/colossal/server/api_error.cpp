#include "colossal/server/api_error.h"

#include <nlohmann/json.hpp>

#include "colossal/server/json_body.h"

namespace colossal::server {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string ApiError::json() const {
  nlohmann::ordered_json error{{"message", what()}, {"type", error_type(status)}};
  error["param"] = nullptr;
  if (!parameter.empty()) error["param"] = parameter;
  error["code"] = status;
  return to_text({{"error", std::move(error)}});
}

}  // namespace colossal::server
