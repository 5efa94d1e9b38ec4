#pragma once

#include <string>

namespace colossal::server {

// A page to chat with the model: HTML, style and script in one, which asks this server only.
std::string chat_page();

}  // namespace colossal::server
