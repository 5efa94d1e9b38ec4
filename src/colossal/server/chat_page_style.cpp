#include "colossal/server/chat_page.h"

namespace colossal::server {

std::string_view chat_page_style() {
  return R"page(
:root { color-scheme: light dark; --back: #fbfaf8; --front: #1f2328; --quiet: #6b7280; --line: #e3e0da; --card: #fff; --user: #eef2f7; --code: #f3f1ec; --accent: #b4532a; --on-accent: #fff; --wrong: #c0392b; }
@media (prefers-color-scheme: dark) {
  :root { --back: #17181b; --front: #e7e5e0; --quiet: #9aa0a8; --line: #2e3036; --card: #1e2024; --user: #26303c; --code: #111215; --accent: #e08a5b; --on-accent: #17181b; --wrong: #f08a80; }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; height: 100dvh; display: flex; background: var(--back); color: var(--front); font: 16px/1.55 system-ui, sans-serif; }
button, select, input, textarea { font: inherit; color: inherit; }
button { padding: .5rem 1rem; border: 1px solid var(--line); border-radius: .7rem; background: var(--card); cursor: pointer; }
button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.plain { border: 0; background: none; padding: .1rem .4rem; color: var(--quiet); font-size: .85rem; }
button.plain:hover, button.plain:focus-visible { color: var(--front); }
.wrong { color: var(--wrong); }

#side { width: 16rem; flex: none; display: flex; flex-direction: column; gap: .7rem; padding: .7rem; border-right: 1px solid var(--line); background: var(--card); }
#list { flex: 1; overflow-y: auto; display: flex; flex-direction: column; gap: .15rem; }
.conversation { display: flex; border-radius: .5rem; }
.conversation.open, .conversation:hover { background: var(--user); }
.conversation button { border: 0; background: none; padding: .4rem .5rem; }
.conversation .title { flex: 1; min-width: 0; text-align: left; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.conversation .delete { color: var(--quiet); }
#shade { display: none; }
#menu { display: none; padding: .3rem .7rem; }

#column { flex: 1; min-width: 0; display: flex; flex-direction: column; }
header { display: flex; gap: .8rem; align-items: center; padding: .6rem 1.2rem; border-bottom: 1px solid var(--line); }
#model { min-width: 4rem; max-width: 16rem; padding: .35rem .5rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); text-overflow: ellipsis; }
#about { color: var(--quiet); flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
details#settings { position: relative; }
summary { list-style: none; cursor: pointer; color: var(--quiet); }
summary::-webkit-details-marker { display: none; }
.panel { position: absolute; right: 0; top: 2rem; z-index: 1; width: 17rem; padding: 1rem; border: 1px solid var(--line); border-radius: .8rem; background: var(--card); display: grid; grid-template-columns: 1fr 7rem; gap: .5rem; align-items: center; }
.panel input, .panel textarea, #ask-key input { width: 100%; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--back); }
.panel .wide { grid-column: 1 / 3; }
main { flex: 1; overflow-y: auto; padding: 1.2rem; }
#ask-key { max-width: 30rem; margin: 12vh auto 0; padding: 1.2rem; border: 1px solid var(--accent); border-radius: .8rem; background: var(--card); }
#ask-key div { display: flex; gap: .6rem; }
#ask-key button { white-space: nowrap; }
#no-server { text-align: center; }

#talk { max-width: 46rem; margin: 0 auto; display: flex; flex-direction: column; gap: 1rem; }
#talk:empty::before { content: "Say something."; color: var(--quiet); text-align: center; margin-top: 20vh; }
#ask-key:not([hidden]) ~ #talk:empty::before { content: ""; }
.turn { overflow-wrap: anywhere; padding: .7rem 1rem; border-radius: .8rem; border: 1px solid var(--line); background: var(--card); min-width: 0; }
.turn.user { background: var(--user); align-self: flex-end; max-width: 85%; }
.turn.user .content { white-space: pre-wrap; }
.turn.error { border-color: var(--wrong); }
.turn .failure { color: var(--wrong); white-space: pre-wrap; }
.turn .below { display: flex; flex-wrap: wrap; align-items: center; gap: .2rem; margin: .4rem 0 -.3rem -.4rem; }
.turn small { margin-left: .4rem; color: var(--quiet); font-variant-numeric: tabular-nums; }
.turn textarea { width: min(34rem, 70vw); padding: .4rem .6rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--back); }
.thinking { border-left: 3px solid var(--line); padding-left: .8rem; margin-bottom: .6rem; color: var(--quiet); }
.thinking .thought { white-space: pre-wrap; font-size: .95rem; }
.thinking summary::before { content: "▸ "; }
.thinking[open] summary::before { content: "▾ "; }

.content > :first-child { margin-top: 0; }
.content > :last-child { margin-bottom: 0; }
.content p, .content ul, .content ol, .content blockquote, .content table, .content .code { margin: .7rem 0; }
.content h1, .content h2, .content h3, .content h4, .content h5, .content h6 { margin: 1rem 0 .5rem; line-height: 1.3; font-size: 1.05rem; }
.content h1 { font-size: 1.35rem; } .content h2 { font-size: 1.2rem; }
.content ul, .content ol { padding-left: 1.5rem; }
.content blockquote { border-left: 3px solid var(--line); padding-left: .8rem; color: var(--quiet); margin-left: 0; margin-right: 0; }
.content a { color: var(--accent); }
.content code { background: var(--code); border-radius: .3rem; padding: .1em .3em; font: .9em/1.45 ui-monospace, monospace; }
.content .code { border: 1px solid var(--line); border-radius: .6rem; background: var(--code); overflow: hidden; }
.content .code .bar { display: flex; align-items: center; justify-content: space-between; padding: .1rem .3rem .1rem .8rem; color: var(--quiet); font-size: .85rem; border-bottom: 1px solid var(--line); }
.content .code pre { margin: 0; padding: .7rem .8rem; overflow-x: auto; }
.content .code code { background: none; padding: 0; overflow-wrap: normal; white-space: pre; }
.content .table { overflow-x: auto; }
.content table { border-collapse: collapse; margin: 0; }
.content th, .content td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.content hr { border: 0; border-top: 1px solid var(--line); }

footer { border-top: 1px solid var(--line); padding: .8rem 1.2rem 1rem; }
#form { max-width: 46rem; margin: 0 auto; display: flex; gap: .6rem; align-items: flex-end; }
#text { flex: 1; min-width: 0; resize: none; max-height: 12rem; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: .7rem; background: var(--card); }

@media (max-width: 760px) {
  #side { position: fixed; inset: 0 auto 0 0; z-index: 3; width: min(18rem, 85vw); transform: translateX(-105%); visibility: hidden; transition: transform .15s; }
  body.menu #side { transform: none; visibility: visible; }
  body.menu #shade { display: block; position: fixed; inset: 0; z-index: 2; background: #0006; }
  #menu { display: block; }
  header { padding: .5rem .7rem; gap: .5rem; }
  #model { flex: 1; max-width: none; }
  #about { display: none; }
  main { padding: .8rem .7rem; }
  footer { padding: .6rem .7rem .7rem; }
  .turn.user { max-width: 92%; }
}
)page";
}

}  // namespace colossal::server
