#pragma once

#include <string>

namespace colossal::server {

// Returns a self-contained HTML page (with inline CSS and JavaScript) to chat with the model. The
// page sends requests to this server only.
std::string chat_page();

}  // namespace colossal::server
