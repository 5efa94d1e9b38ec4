// The web page of the server's route "/".
#pragma once

#include <string>

namespace colossal::server {

// Returns an HTML page for chatting with the model. The page is self-contained (inline CSS and
// JavaScript) and sends requests to this server only.
std::string chat_page();

}  // namespace colossal::server
