#include "colossal/server/chat_page.h"

#include <fmt/format.h>

namespace colossal::server {
namespace {

constexpr std::string_view kHead = R"page(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Colossal</title>
)page";

constexpr std::string_view kBody = R"page(
<nav id="side" aria-label="Conversations">
  <button id="clear" type="button" class="primary">New conversation</button>
  <div id="list"></div>
</nav>
<div id="shade"></div>
<div id="column">
  <header>
    <button id="menu" type="button" aria-label="Conversations">☰</button>
    <select id="model" aria-label="Model or adapter"></select>
    <span id="about"></span>
    <details id="settings"><summary>Settings</summary><div class="panel">
      <label for="temperature">Temperature</label><input id="temperature" type="number" min="0" max="2" step="0.1" placeholder="default">
      <label for="top_p">Top p</label><input id="top_p" type="number" min="0" max="1" step="0.05" placeholder="default">
      <label for="max_tokens">Maximum tokens</label><input id="max_tokens" type="number" min="1" placeholder="all">
      <label for="system" class="wide">System message</label><textarea id="system" class="wide" rows="3"></textarea>
      <label for="key">API key</label><input id="key" type="password" autocomplete="off">
    </div></details>
  </header>
  <main>
    <form id="ask-key" hidden>
      <b>This server needs its API key.</b>
      <p>Ask for it whoever started the server. The page keeps the key until you close it.</p>
      <div><input id="asked-key" type="password" autocomplete="off" placeholder="API key" aria-label="API key"><button class="primary">Use this key</button></div>
      <p id="wrong-key" class="wrong"></p>
    </form>
    <p id="no-server" class="wrong" hidden></p>
    <div id="talk" aria-live="polite"></div>
  </main>
  <footer><form id="form">
    <textarea id="text" rows="1" placeholder="Message" aria-label="Message" autofocus></textarea>
    <button id="send" class="primary">Send</button>
  </form></footer>
</div>
)page";

}  // namespace

std::string chat_page() {
  return fmt::format("{}<style>{}</style>{}<script>\n\"use strict\";\n{}{}</script>\n</html>\n",
                     kHead, chat_page_style(), kBody, chat_page_markdown(), chat_page_script());
}

}  // namespace colossal::server
