// A refusal as clients of the OpenAI API know it.
#pragma once

#include <string>

#include "colossal/base/error.h"

namespace colossal::server {

struct ApiError : Error {
  // parameter: the field of the request that is at fault, or empty.
  ApiError(int status, const std::string& message, std::string parameter = "")
      : Error(message), status(status), parameter(std::move(parameter)) {}

  int status;  // of HTTP
  std::string parameter;
  int retry_after = 0;  // seconds; 0: not said

  // {"error": {"message", "type", "param", "code"}}
  std::string json() const;
};

}  // namespace colossal::server
