#include "colossal/server/chat_page.h"

namespace colossal::server {

std::string_view chat_page_script() {
  return R"page(
const $ = id => document.getElementById(id);
const kSettings = ["temperature", "top_p", "max_tokens", "system"];
const kMostConversations = 100;
let models = [], running = null;

// Conversations are kept in the browser: [{id, title, messages}], the last changed first. A message
// is {role, content}; of an answer also {thinking, note}, and {failure} if there is no whole answer.
const keptJson = (key, otherwise) => {
  try { return JSON.parse(localStorage.getItem(key)) || otherwise; } catch { return otherwise; }
};
let conversations = keptJson("colossal.conversations", []);
let current = null;

function keep() {
  if (current.messages.length && !conversations.includes(current)) conversations.unshift(current);
  conversations = conversations.slice(0, kMostConversations);
  for (;;) {  // without the oldest ones if the browser has no room
    try { localStorage.setItem("colossal.conversations", JSON.stringify(conversations)); break; } catch {
      if (conversations.length < 2) break;
      conversations.pop();
    }
  }
  showList();
}

function open(conversation) {
  if (running) running.abort();
  current = conversation;
  history.replaceState(null, "", conversation.messages.length ? "#" + conversation.id : location.pathname);
  document.body.classList.remove("menu");
  showTalk();
  showList();
}

const fresh = () => ({id: Math.random().toString(36).slice(2), title: "", messages: []});

function showList() {
  $("list").replaceChildren(...conversations.map(conversation => {
    const title = button(conversation.title || "…", () => open(conversation), "title");
    const remove = button("×", () => {
      if (!confirm("Delete this conversation?")) return;
      conversations = conversations.filter(other => other !== conversation);
      if (conversation === current) open(fresh());
      keep();
    }, "delete");
    remove.setAttribute("aria-label", "Delete the conversation " + conversation.title);
    return element("div", "conversation" + (conversation === current ? " open" : ""), title, remove);
  }));
}

const headers = () => {
  const all = {"Content-Type": "application/json"};
  if ($("key").value) all.Authorization = "Bearer " + $("key").value;
  return all;
};

const model = () => models.find(each => each.id === $("model").value);

async function loadModels() {
  $("no-server").hidden = true;
  try {
    const answer = await fetch("v1/models", {headers: headers()});
    $("ask-key").hidden = answer.status !== 401;
    if (answer.status === 401) {
      $("wrong-key").textContent = $("key").value ? "The server does not accept this key." : "";
      $("asked-key").focus();
      models = [];
      return showModels();
    }
    const json = await answer.json();
    if (!answer.ok) throw new Error(json.error.message);
    models = json.data;
    showModels();
  } catch (error) {
    models = [];
    showModels();
    $("no-server").textContent = error.message;
    $("no-server").hidden = false;
  }
}

function showModels() {
  const chosen = $("model").value || localStorage.getItem("colossal.model");
  $("model").replaceChildren(...models.map(each => new Option(each.id, each.id)));
  if (models.some(each => each.id === chosen)) $("model").value = chosen;
  showAbout();
}

function showAbout() {
  const one = model();
  $("about").textContent = !one ? "" : one.max_model_len.toLocaleString() + " tokens" +
    (one.chat_template ? "" : " · no chat template: continues your text");
}

// Divides an answer in which the server has found no reasoning into thinking and text.
function divide(message) {
  if (message.thinking) return [message.thinking, message.content];
  const found = message.content.match(/^\s*<think>([^]*?)(<\/think>([^]*))?$/);
  return found ? [found[1].trim(), (found[3] || "").trimStart()] : ["", message.content];
}

// Shows a message in its turn; again whenever it changes.
function showMessage(turn, message) {
  turn.source = message.content;
  turn.classList.toggle("error", Boolean(message.failure));
  const content = turn.querySelector(".content");
  if (message.role === "user") {
    content.textContent = message.content;
    return;
  }
  const [thinking, text] = divide(message);
  const fold = turn.querySelector(".thinking");
  fold.hidden = !thinking;
  fold.querySelector(".thought").textContent = thinking;
  fold.querySelector("summary").textContent = text || message.note ? "Thinking" : "Thinking …";
  renderMarkdown(text, content);
  turn.querySelector(".failure").textContent = message.failure || "";
  turn.querySelector("small").textContent = message.note || "";
}

function addTurn(message) {
  const turn = element("div", "turn " + message.role);
  if (message.role === "assistant") {
    turn.append(element("details", "thinking", element("summary"), element("div", "thought")));
  }
  turn.append(element("div", "content"));
  const below = element("div", "below", button("Copy", event => copyText(divide(message)[1] || message.content, event.target)));
  if (message.role === "user") {
    below.append(button("Edit", () => edit(turn, message)));
  } else {
    turn.append(element("div", "failure"));
    below.append(button("Regenerate", () => { if (!running) { cutFrom(message); generate(); } }), element("small"));
  }
  turn.append(below);
  $("talk").append(turn);
  showMessage(turn, message);
  turn.scrollIntoView({block: "end"});
  return turn;
}

function showTalk() {
  $("talk").replaceChildren();
  for (const message of current.messages) addTurn(message);
}

// Removes a message and all after it.
function cutFrom(message) {
  const at = current.messages.indexOf(message);
  if (at < 0) return;
  current.messages.length = at;
  while ($("talk").children.length > at) $("talk").lastChild.remove();
}

function edit(turn, message) {
  if (running || turn.querySelector("textarea")) return;
  const area = element("textarea"), content = turn.querySelector(".content"), below = turn.querySelector(".below");
  area.value = message.content;
  area.rows = Math.min(10, message.content.split("\n").length + 1);
  const end = () => { row.remove(); area.remove(); content.hidden = below.hidden = false; };
  const row = element("div", "below",
    button("Send", () => { if (area.value.trim() && !running) { const text = area.value; cutFrom(message); send(text); } }),
    button("Cancel", end));
  content.hidden = below.hidden = true;
  turn.append(area, row);
  area.focus();
}

// Messages for the model: not those that have failed, with what they were asked.
function asked(messages) {
  return messages.filter((message, i) => !message.failure && !(messages[i + 1] || {}).failure);
}

function request() {
  const body = {model: model().id, stream: true, stream_options: {include_usage: true}};
  for (const name of ["temperature", "top_p", "max_tokens"])
    if ($(name).value) body[name] = Number($(name).value);
  if (!model().chat_template) {
    if (!body.max_tokens) body.max_tokens = 256;
    return ["v1/completions", {...body, prompt: current.messages.at(-1).content}];
  }
  const system = $("system").value ? [{role: "system", content: $("system").value}] : [];
  const messages = asked(current.messages).map(({role, content}) => ({role, content}));
  return ["v1/chat/completions", {...body, messages: [...system, ...messages]}];
}

// Calls `take` with the JSON of each event.
async function readEvents(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events)
      if (event.startsWith("data: ") && event !== "data: [DONE]") take(JSON.parse(event.slice(6)));
  }
}

async function send(text) {
  if (!model()) await loadModels();
  if (!model() || running) return;
  const message = {role: "user", content: text};
  if (!current.title) current.title = text.trim().split("\n")[0].slice(0, 60);
  current.messages.push(message);
  conversations = [current, ...conversations.filter(other => other !== current)];
  history.replaceState(null, "", "#" + current.id);
  addTurn(message);
  keep();
  await generate();
}

// Asks for an answer to the last message.
async function generate() {
  const conversation = current, [path, body] = request(), start = performance.now();
  const message = {role: "assistant", content: "", thinking: "", note: "…"};
  conversation.messages.push(message);
  const turn = addTurn(message), controller = new AbortController();
  running = controller;
  $("send").textContent = "Stop";
  let first = 0, tokens = 0, usage = null, end = "", frame = 0;
  const show = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    const now = performance.now(), seconds = first ? (now - first) / 1000 : 0;
    const count = usage ? usage.completion_tokens : tokens;
    const figures = !first ? [] : [count + " tokens", seconds > 0 && count > 1 ? ((count - 1) / seconds).toFixed(1) + " tokens/s" : "",
      "first token after " + ((first - start) / 1000).toFixed(2) + " s"];
    message.note = [...figures, end].filter(Boolean).join(" · ") || (message.failure ? "" : "…");
    showMessage(turn, message);
    const main = document.querySelector("main");
    if (main.scrollHeight - main.scrollTop - main.clientHeight < 120) turn.scrollIntoView({block: "end"});
  };
  try {
    const answer = await fetch(path, {method: "POST", headers: headers(), body: JSON.stringify(body), signal: controller.signal});
    if (answer.status === 401) loadModels();  // asks for the key
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    await readEvents(answer, event => {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) usage = event.usage;
      const choice = event.choices && event.choices[0];
      if (!choice) return;
      const delta = choice.delta || {content: choice.text};
      const thought = delta.reasoning_content || delta.reasoning || "", piece = delta.content || "";
      if (thought || piece) { if (!first) first = performance.now(); ++tokens; }
      message.thinking += thought;
      message.content += piece;
      if (choice.finish_reason === "length") end = "cut at the maximum number of tokens";
      if (choice.finish_reason === "stop" && !first) end = "no text";
      if (!frame) frame = requestAnimationFrame(show);  // a layout for each token takes all the time of a long answer
    });
  } catch (error) {
    if (error.name === "AbortError") end = "stopped";
    else message.failure = error.message;
  }
  show();
  running = null;
  $("send").textContent = "Send";
  keep();
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  if (running) return running.abort();
  const text = $("text").value;
  if (!text.trim()) return;
  if (!model()) return loadModels();
  $("text").value = "";
  $("text").style.height = "auto";
  send(text);
});
$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); if (!running) $("form").requestSubmit(); }
});
$("text").addEventListener("input", () => {
  $("text").style.height = "auto";
  $("text").style.height = $("text").scrollHeight + "px";
});
$("clear").addEventListener("click", () => { open(fresh()); $("text").focus(); });
$("menu").addEventListener("click", () => document.body.classList.toggle("menu"));
$("shade").addEventListener("click", () => document.body.classList.remove("menu"));
$("model").addEventListener("change", () => { localStorage.setItem("colossal.model", $("model").value); showAbout(); });
const useKey = key => { $("key").value = key; sessionStorage.setItem("colossal.key", key); loadModels(); };
$("key").addEventListener("change", () => useKey($("key").value));
$("ask-key").addEventListener("submit", event => { event.preventDefault(); useKey($("asked-key").value.trim()); });
document.addEventListener("click", event => { if (!$("settings").contains(event.target)) $("settings").open = false; });

addEventListener("pagehide", () => { if (running) keep(); });
addEventListener("storage", event => {  // another tab has kept conversations
  if (event.key !== "colossal.conversations") return;
  conversations = keptJson(event.key, []).map(each => each.id === current.id ? current : each);
  showList();
});

const settings = keptJson("colossal.settings", {});
for (const name of kSettings) {
  $(name).value = settings[name] || "";
  $(name).addEventListener("change", () => {
    settings[name] = $(name).value;
    localStorage.setItem("colossal.settings", JSON.stringify(settings));
  });
}
$("key").value = sessionStorage.getItem("colossal.key") || "";
open(conversations.find(conversation => "#" + conversation.id === location.hash) || fresh());
loadModels();
)page";
}

}  // namespace colossal::server
