// An error response of the OpenAI API.
#pragma once

#include <string>

#include "colossal/base/error.h"

namespace colossal::server {

struct ApiError : Error {
  // status: HTTP status. parameter: the name of the invalid field of the request, or empty.
  ApiError(int status, const std::string& message, std::string parameter = "")
      : Error(message), status(status), parameter(std::move(parameter)) {}

  int status;
  std::string parameter;
  int retry_after = 0;  // seconds; 0: no Retry-After header

  // {"error": {"message", "type", "param", "code"}}
  std::string json() const;
};

}  // namespace colossal::server
