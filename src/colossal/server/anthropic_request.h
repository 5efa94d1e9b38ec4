// Requests of Anthropic's API, POST /v1/messages and POST /v1/messages/count_tokens.
#pragma once

#include "colossal/server/translated_request.h"

namespace colossal::server {

// Returns the chat request that a body of /v1/messages means. Blocks of text, tool calls, results
// of tools and thinking become messages of chat templates. A last message of the assistant is
// continued. generates: false for count_tokens, which does not need max_tokens. Throws ApiError 400
// if a field is invalid or has what this server does not have: images, documents, and tools that
// run at Anthropic's.
TranslatedRequest translate_anthropic(const Json& body, bool generates);

}  // namespace colossal::server
