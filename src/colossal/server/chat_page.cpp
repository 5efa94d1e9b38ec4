#include "colossal/server/chat_page.h"

namespace colossal::server {

std::string chat_page() {
  return R"page(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Colossal</title>
<style>
:root { color-scheme: light dark; --back: #fbfaf8; --front: #1f2328; --quiet: #6b7280; --line: #e3e0da; --card: #fff; --user: #eef2f7; --accent: #b4532a; --on-accent: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --back: #17181b; --front: #e7e5e0; --quiet: #9aa0a8; --line: #2e3036; --card: #1e2024; --user: #26303c; --accent: #e08a5b; --on-accent: #17181b; }
}
* { box-sizing: border-box; }
body { margin: 0; height: 100dvh; display: flex; flex-direction: column; background: var(--back); color: var(--front); font: 16px/1.55 system-ui, sans-serif; }
header { display: flex; gap: 1rem; align-items: center; padding: .7rem 1.2rem; border-bottom: 1px solid var(--line); }
header b { letter-spacing: .02em; }
#model { color: var(--quiet); flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
main { flex: 1; overflow-y: auto; padding: 1.2rem; }
#talk { max-width: 46rem; margin: 0 auto; display: flex; flex-direction: column; gap: 1rem; }
.turn { white-space: pre-wrap; overflow-wrap: anywhere; padding: .7rem 1rem; border-radius: .8rem; border: 1px solid var(--line); background: var(--card); }
.turn.user { background: var(--user); align-self: flex-end; max-width: 85%; }
.turn.error { border-color: #c0392b; color: #c0392b; }
.turn small { display: block; margin-top: .5rem; color: var(--quiet); font-variant-numeric: tabular-nums; }
.turn small:empty { display: none; }
#talk:empty::before { content: "Say something."; color: var(--quiet); text-align: center; margin-top: 20vh; }
footer { border-top: 1px solid var(--line); padding: .8rem 1.2rem 1rem; }
form { max-width: 46rem; margin: 0 auto; display: flex; gap: .6rem; align-items: flex-end; }
textarea { flex: 1; resize: none; max-height: 12rem; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: .7rem; background: var(--card); color: inherit; font: inherit; }
button { font: inherit; padding: .55rem 1.1rem; border: 1px solid var(--line); border-radius: .7rem; background: var(--card); color: inherit; cursor: pointer; }
button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
details { position: relative; }
summary { list-style: none; cursor: pointer; color: var(--quiet); }
.panel { position: absolute; right: 0; top: 2rem; z-index: 1; width: 17rem; padding: 1rem; border: 1px solid var(--line); border-radius: .8rem; background: var(--card); display: grid; grid-template-columns: 1fr 7rem; gap: .5rem; align-items: center; }
.panel input, .panel textarea { width: 100%; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--back); color: inherit; font: inherit; }
.panel .wide { grid-column: 1 / 3; }
</style>
<header>
  <b>Colossal</b><span id="model">…</span>
  <details><summary>Settings</summary><div class="panel">
    <label for="temperature">Temperature</label><input id="temperature" type="number" min="0" max="2" step="0.1" placeholder="default">
    <label for="top_p">Top p</label><input id="top_p" type="number" min="0" max="1" step="0.05" placeholder="default">
    <label for="max_tokens">Maximum tokens</label><input id="max_tokens" type="number" min="1" placeholder="all">
    <label for="system" class="wide">System message</label><textarea id="system" class="wide" rows="3"></textarea>
    <label for="key">API key</label><input id="key" type="password" autocomplete="off">
  </div></details>
  <button id="clear" type="button">New</button>
</header>
<main><div id="talk"></div></main>
<footer><form id="form">
  <textarea id="text" rows="1" placeholder="Message" autofocus></textarea>
  <button id="send" class="primary">Send</button>
</form></footer>
<script>
"use strict";
const $ = id => document.getElementById(id);
let model = null, messages = [], running = null;

const headers = () => {
  const all = {"Content-Type": "application/json"};
  if ($("key").value) all.Authorization = "Bearer " + $("key").value;
  return all;
};

async function loadModel() {
  try {
    const answer = await fetch("v1/models", {headers: headers()});
    const json = await answer.json();
    if (!answer.ok) throw new Error(json.error.message);
    model = json.data[0];
    $("model").textContent = model.id + " · " + model.max_model_len.toLocaleString() + " tokens" +
      (model.chat_template ? "" : " · no chat template: continues your text");
  } catch (error) {
    model = null;
    $("model").textContent = error.message;
  }
}

function addTurn(kind, text) {
  const turn = document.createElement("div");
  turn.className = "turn " + kind;
  turn.append(document.createTextNode(text));
  $("talk").append(turn);
  turn.scrollIntoView({block: "end"});
  return turn;
}

function request(text) {
  const body = {model: model.id, stream: true, stream_options: {include_usage: true}};
  for (const name of ["temperature", "top_p", "max_tokens"])
    if ($(name).value) body[name] = Number($(name).value);
  if (!model.chat_template) {
    if (!body.max_tokens) body.max_tokens = 256;
    return ["v1/completions", {...body, prompt: text}];
  }
  const system = $("system").value ? [{role: "system", content: $("system").value}] : [];
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
  if (!model) await loadModel();
  if (!model || running) return;
  $("text").value = "";
  $("text").style.height = "auto";
  const talk = messages;  // "New" replaces it
  talk.push({role: "user", content: text});
  addTurn("user", text);
  const turn = addTurn("assistant", ""), node = turn.firstChild, note = document.createElement("small");
  turn.append(note);
  note.textContent = "…";
  running = new AbortController();
  $("send").textContent = "Stop";
  const [path, body] = request(text), start = performance.now();
  let first = 0, tokens = 0, usage = null, all = "", end = "", failure = "", frame = 0;
  const show = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    node.textContent = all + (all && failure ? "\n" : "") + failure;
    const now = performance.now(), seconds = first ? (now - first) / 1000 : 0;
    const count = usage ? usage.completion_tokens : tokens;
    const figures = !first ? [] : [count + " tokens", seconds > 0 && count > 1 ? ((count - 1) / seconds).toFixed(1) + " tokens/s" : "",
      "first token after " + ((first - start) / 1000).toFixed(2) + " s"];
    note.textContent = [...figures, end].filter(Boolean).join(" · ") || (failure ? "" : "…");
    const main = document.querySelector("main");
    if (main.scrollHeight - main.scrollTop - main.clientHeight < 120) turn.scrollIntoView({block: "end"});
  };
  try {
    const answer = await fetch(path, {method: "POST", headers: headers(), body: JSON.stringify(body), signal: running.signal});
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    await readEvents(answer, event => {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) usage = event.usage;
      const choice = event.choices && event.choices[0];
      if (!choice) return;
      const piece = choice.delta ? choice.delta.content || "" : choice.text;
      if (piece) { if (!first) first = performance.now(); ++tokens; all += piece; }
      if (choice.finish_reason === "length") end = "cut at the maximum number of tokens";
      if (choice.finish_reason === "stop" && !first) end = "no text";
      if (!frame) frame = requestAnimationFrame(show);  // a layout for each token takes all the time of a long answer
    });
  } catch (error) {
    if (error.name === "AbortError") end = "stopped";
    else { failure = error.message; turn.classList.add("error"); }
  }
  show();
  if (failure) talk.pop();  // what failed is not asked again with the next message
  else talk.push({role: "assistant", content: all});
  running = null;
  $("send").textContent = "Send";
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  if (running) return running.abort();
  const text = $("text").value;
  if (text.trim()) send(text);
});
$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); if (!running) $("form").requestSubmit(); }
});
$("text").addEventListener("input", () => {
  $("text").style.height = "auto";
  $("text").style.height = $("text").scrollHeight + "px";
});
$("clear").addEventListener("click", () => {
  if (running) running.abort();
  messages = [];
  $("talk").replaceChildren();
  $("text").focus();
});
$("key").addEventListener("change", loadModel);
loadModel();
</script>
</html>
)page";
}

}  // namespace colossal::server
