// Errors that the server sends to a client as an error response of the client's API.
#pragma once

#include <string>

#include "colossal/base/error.h"

namespace colossal::server {

// How an API writes its errors.
enum class ErrorForm {
  openai,     // {"error": {"message", "type", "param", "code"}}
  anthropic,  // {"type": "error", "error": {"type", "message"}}
  ollama      // {"error": message}
};

// Thrown by the handlers of requests.
struct ApiError : Error {
  // status: HTTP status. parameter: name of the invalid field of the request; "" if the error
  // concerns no field.
  ApiError(int status, const std::string& message, std::string parameter = "")
      : Error(message), status(status), parameter(std::move(parameter)) {}

  int status;
  std::string parameter;
  std::string code{};   // OpenAI's name of the error, such as "context_length_exceeded"; "" if none
  int retry_after = 0;  // value of the header Retry-After, in seconds; 0: no such header
  std::string allowed_method{};  // value of the header Allow, of status 405; "": no such header

  // Returns the body of the response. "type" follows from the status. In OpenAI's form "param" is
  // `parameter`, null if empty, and "code" is `code`, or the status if it is empty.
  std::string json(ErrorForm form = ErrorForm::openai) const;
};

// Returns an error with status 400 for a prompt that does not fit the model, with OpenAI's code
// "context_length_exceeded". max_length: maximum tokens of a prompt and its answer together.
// found: what the request has, such as "the prompt has 7 tokens".
ApiError too_long(int64_t max_length, const std::string& found, std::string parameter);

}  // namespace colossal::server
