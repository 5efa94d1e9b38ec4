#include "colossal/server/api_error.h"

#include <nlohmann/json.hpp>

#include "colossal/server/json_body.h"

namespace colossal::server {
namespace {

const char* openai_type(int status) {
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

const char* anthropic_type(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : openai_type(status);
  }
}

}  // namespace

std::string ApiError::json(ErrorForm form) const {
  if (form == ErrorForm::ollama) return to_text({{"error", what()}});
  if (form == ErrorForm::anthropic) {
    return to_text(
        {{"type", "error"}, {"error", {{"type", anthropic_type(status)}, {"message", what()}}}});
  }
  nlohmann::ordered_json error{{"message", what()}, {"type", openai_type(status)}};
  error["param"] = nullptr;
  if (!parameter.empty()) error["param"] = parameter;
  error["code"] = status;
  if (!code.empty()) error["code"] = code;
  return to_text({{"error", std::move(error)}});
}

ApiError too_long(int64_t max_length, const std::string& found, std::string parameter) {
  ApiError error(
      400, fmt::format("this model's maximum context length is {} tokens: {}", max_length, found),
      std::move(parameter));
  error.code = "context_length_exceeded";
  return error;
}

}  // namespace colossal::server
