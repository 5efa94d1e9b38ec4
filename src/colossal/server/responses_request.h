// Requests of OpenAI's POST /v1/responses.
#pragma once

#include "colossal/server/translated_request.h"

namespace colossal::server {

// Returns the chat request that a body of /v1/responses means. Items of the input become messages
// of chat templates: messages, calls of functions, their outputs, and reasoning. Throws ApiError
// 400 if a field is invalid or has what this server does not have: stored responses and
// conversations, background responses, images, files, and tools that run at OpenAI's.
TranslatedRequest translate_responses(const Json& body);

}  // namespace colossal::server
