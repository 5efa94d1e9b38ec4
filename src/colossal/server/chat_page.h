// The web page of the server's route "/".
#pragma once

#include <string>
#include <string_view>

namespace colossal::server {

// Returns an HTML page for chatting with the model. The page is self-contained (inline CSS and
// JavaScript) and sends requests to this server only. It keeps conversations in the browser.
std::string chat_page();

// The parts of the page.
//
// Its style sheet.
std::string_view chat_page_style();
// A script: renderMarkdown(source, place) shows Markdown as elements in `place`. It makes elements
// and text nodes only, so no text becomes HTML.
std::string_view chat_page_markdown();
// The script of the page, which uses the one above.
std::string_view chat_page_script();

}  // namespace colossal::server
