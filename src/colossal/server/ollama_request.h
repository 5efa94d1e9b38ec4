// Requests of ollama's API that generate text: POST /api/chat and POST /api/generate.
#pragma once

#include "colossal/server/translated_request.h"

namespace colossal::server {

// Returns the chat request that a body of /api/chat means. The options, such as num_predict, become
// parameters of the chat request; options that set up ollama's own engine are ignored. Throws
// ApiError 400 if a field is invalid or has what this server does not have: images.
TranslatedRequest translate_ollama_chat(const Json& body);

// The request that a body of /api/generate means: a chat request if `is_chat`, else a completion
// request.
struct OllamaGeneration {
  bool is_chat;
  TranslatedRequest request;
};
// has_template: whether the model has a chat template. Without one, or if the request has "raw":
// true, the prompt is continued as it is. Throws as translate_ollama_chat() does.
OllamaGeneration translate_ollama_generation(const Json& body, bool has_template);

// Returns whether a request only asks to load or unload the model: it has no messages and no
// prompt. Fields that say so: "messages" of /api/chat, "prompt" of /api/generate.
bool is_ollama_load(const Json& body);

}  // namespace colossal::server
