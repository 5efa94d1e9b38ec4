// Errors that the server sends to a client as an error response of OpenAI's API.
#pragma once

#include <string>

#include "colossal/base/error.h"

namespace colossal::server {

// Thrown by the handlers of requests.
struct ApiError : Error {
  // status: HTTP status. parameter: name of the invalid field of the request; "" if the error
  // concerns no field.
  ApiError(int status, const std::string& message, std::string parameter = "")
      : Error(message), status(status), parameter(std::move(parameter)) {}

  int status;
  std::string parameter;
  int retry_after = 0;  // value of the header Retry-After, in seconds; 0: no such header

  // Returns the body of the response: {"error": {"message", "type", "param", "code"}}. "type"
  // follows from the status; "param" is `parameter`, null if empty; "code" is the status.
  std::string json() const;
};

}  // namespace colossal::server
