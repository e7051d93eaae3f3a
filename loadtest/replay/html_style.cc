#include "loadtest/replay/html_report.h"

namespace lynx {

// Colours keep apart for the colour-blind (after Okabe & Ito), in light and dark; print uses the light ones.
const char* html_style() {
  return R"css(
:root { color-scheme: light dark; --ground:#fbfbfa; --card:#fff; --ink:#1b2127; --soft:#5f6a73; --line:#dfe3e6; --apart:#eef0f2;
  --c0:#0b6e99; --c1:#c4641a; --c2:#2b8a57; --c3:#8a4f9e; --c4:#a08a00; --c5:#b23a48; --c6:#4a5fc1; --c7:#5d6b75; --bad:#b3372f; }
@media (prefers-color-scheme: dark) { :root { --ground:#13181d; --card:#1a2026; --ink:#e5eaee; --soft:#98a4ae; --line:#303a43; --apart:#232b32;
  --c0:#5cb3dc; --c1:#eb9c55; --c2:#6cc795; --c3:#c791d8; --c4:#d9c24a; --c5:#ec808c; --c6:#93a4f4; --c7:#a9b5be; --bad:#ef857c; } }
@media print { :root { color-scheme: light; --ground:#fff; --card:#fff; --ink:#000; --soft:#444; --line:#ccc; --apart:#eee;
  --c0:#0b6e99; --c1:#c4641a; --c2:#2b8a57; --c3:#8a4f9e; --c4:#a08a00; --c5:#b23a48; --c6:#4a5fc1; --c7:#5d6b75; --bad:#b3372f; }
  figure, .tile, tr { break-inside: avoid; } body { font-size: 11px !important; padding: 0 !important; } .charts { grid-template-columns: 1fr 1fr !important; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.6rem; margin: 0; letter-spacing: -.02em; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; max-width: 75ch; }
.soft, figcaption, small, th { color: var(--soft); font-weight: 400; }
figcaption b { color: var(--ink); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: .7rem; margin: 1.2rem 0; }
.tile, figure { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: 0; }
.tile b { display: block; font-size: 1.5rem; font-weight: 500; line-height: 1.3; letter-spacing: -.02em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: .7rem; }
figcaption { font-size: .85rem; }
.none { color: var(--soft); padding: 3rem 0; text-align: center; max-width: none; }
svg { display: block; width: 100%; height: auto; margin-top: .4rem; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .tick { stroke: var(--soft); }
svg .mark { stroke: var(--bad); stroke-dasharray: 2 3; }
svg .apart { fill: var(--apart); }
svg path { fill: none; stroke-width: 1.7; stroke-linejoin: round; }
path.dashed { stroke-dasharray: 5 3; }
.s0 { stroke: var(--c0); --k: var(--c0); } .s1 { stroke: var(--c1); --k: var(--c1); } .s2 { stroke: var(--c2); --k: var(--c2); }
.s3 { stroke: var(--c3); --k: var(--c3); } .s4 { stroke: var(--c4); --k: var(--c4); } .s5 { stroke: var(--c5); --k: var(--c5); }
.s6 { stroke: var(--c6); --k: var(--c6); } .s7 { stroke: var(--c7); --k: var(--c7); }
.bars { stroke: none; fill: var(--k); opacity: .45; }
.key { margin-left: .7em; white-space: nowrap; }
.key::before { content: ""; display: inline-block; width: 1.2em; height: 0; border-top: 2.5px solid var(--k); margin-right: .35em; vertical-align: middle; }
.key.dashed::before { border-top-style: dashed; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; white-space: nowrap; }
th, td { padding: .35rem .8rem; text-align: right; }
th { font-size: .82rem; } td { border-top: 1px solid var(--line); }
th:first-child, td:first-child, td.left { text-align: left; } td.wrap { white-space: normal; min-width: 22em; }
)css";
}

}  // namespace lynx
