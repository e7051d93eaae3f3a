"use strict";
const $ = id => document.getElementById(id);
const nothing = "–";

function number(value, digits = 0) {
  return value === null || value === undefined ? nothing : value.toLocaleString("en", {maximumFractionDigits: digits, minimumFractionDigits: digits});
}
function time(ms) {
  if (ms === null) return nothing;
  return ms >= 1000 ? number(ms / 1000, 2) + " s" : number(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0) + " ms";
}
const percent = share => share === null ? nothing : number(100 * share, 1) + "%";
const known = list => list.filter(x => x !== null);
const mean = list => list.length ? list.reduce((sum, x) => sum + x, 0) / list.length : null;

// Names come from outside: text nodes only, never markup.
function cell(content, className) {
  const td = document.createElement("td");
  if (content instanceof Node) td.append(content); else td.textContent = content;
  if (className) td.className = className;
  return td;
}
function bar(share, over) {
  const outer = document.createElement("span"), inner = document.createElement("i");
  outer.className = over ? "bar over" : "bar";
  inner.style.width = Math.min(100, Math.max(0, 100 * share)) + "%";
  outer.append(inner);
  return outer;
}
function row(table, cells) {
  const tr = document.createElement("tr");
  tr.append(...cells);
  table.tBodies[0].append(tr);
}

function svg(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}
// A round number at or above: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(x => x * power).find(x => x >= value * 0.999);
}
function chart(id, history, curves, fixedTop) {
  const box = $(id).querySelector("svg"), width = box.clientWidth || 480, height = 130, left = 40, bottom = 16;
  const known = curves.flatMap(c => c.values).filter(v => v !== null);
  const top = fixedTop || roundUp(Math.max(1, ...known));
  // As much time as there is history for: a minute, two, or all five.
  const length = Math.max(...curves.map(c => c.values.length)), slots = [60, 120].find(n => n >= length) || 300;
  const x = i => left + (width - left) * i / (slots - 1), y = v => 4 + (height - bottom - 4) * (1 - v / top);
  box.setAttribute("viewBox", `0 0 ${width} ${height}`);
  box.replaceChildren();
  for (const share of [0, 0.5, 1]) {
    box.append(svg("line", {class: "grid", x1: left, x2: width, y1: y(top * share), y2: y(top * share)}));
    box.append(svg("text", {x: left - 6, y: y(top * share) + 4, "text-anchor": "end"}, number(top * share, Number.isInteger(top / 2) ? 0 : 1)));
  }
  const span = slots * history.period_s, ticks = span <= 120 ? 4 : 5;
  for (let i = 0; i <= ticks; ++i) {
    const ago = Math.round(span * (1 - i / ticks)), label = ago === 0 ? "now" : ago % 60 ? `−${ago} s` : `−${ago / 60} min`;
    box.append(svg("text", {x: left + (width - left) * i / ticks, y: height - 2, "text-anchor": i === 0 ? "start" : i === ticks ? "end" : "middle"}, label));
  }
  for (const {values, kind} of curves) {
    const first = slots - values.length;
    let path = "", drawing = false;
    values.forEach((value, i) => {
      if (value !== null) path += `${drawing ? "L" : "M"}${x(first + i).toFixed(1)} ${y(value).toFixed(1)}`;
      drawing = value !== null;
    });
    box.append(svg("path", {class: kind, d: path}));
  }
}

function showClasses(classes) {
  const table = $("classes");
  table.tBodies[0].replaceChildren();
  for (const c of classes) {
    const cells = [cell(c.name)];
    for (const kind of ["ttft", "tpot"]) {
      const p99 = c[kind + "_p99_ms"], objective = c[kind + "_objective_ms"], over = p99 !== null && p99 > objective;
      cells.push(cell(time(c[kind + "_p50_ms"])), cell(time(p99), over ? "over" : ""), cell(time(objective)),
                 cell(p99 === null ? "" : bar(p99 / objective, over), "left"));
    }
    row(table, [...cells, cell(percent(c.attainment)), cell(number(c.queued))]);
  }
}
function showWorkers(workers) {
  const table = $("workers");
  table.tBodies[0].replaceChildren();
  $("no-workers").hidden = workers.length > 0;
  const order = w => (w.role === "prefill" ? "0" : "1") + w.name;
  for (const w of [...workers].sort((a, b) => order(a) < order(b) ? -1 : 1)) {
    const used = w.total_blocks - w.free_blocks, decode = w.role === "decode";
    row(table, [cell(w.name), cell(w.role, "left"), cell(w.state.replace("_", " "), "left " + w.state),
                cell(`${number(w.running)} of ${number(w.max_batch)}`), cell(number(w.waiting)),
                cell(`${number(used)} of ${number(w.total_blocks)}`), cell(bar(w.total_blocks ? used / w.total_blocks : 0), "left"),
                cell(w.step_ms > 0 ? time(w.step_ms) : nothing),
                cell(decode && w.activated_experts > 0 ? `${number(w.routed_experts, 1)} → ${number(w.activated_experts, 1)}` : nothing),
                cell(w.transport || nothing), cell(time(w.heard_ms_ago) + " ago")]);
  }
}
function show(o) {
  const h = o.history, judged = o.classes.reduce((sum, c) => sum + c.judged, 0);
  const experts = {routed: mean(known(h.routed.slice(-10))), activated: mean(known(h.activated.slice(-10)))};
  document.title = `Lynx router: ${o.in_flight} in flight`;
  $("what").textContent = `router ${o.version}, model ${o.model}`;
  $("in-flight").textContent = number(o.in_flight);
  $("queued").textContent = number(o.queued);
  $("tokens").textContent = number(mean(h.tokens_per_s.slice(-10)), 0);
  $("attainment").textContent = judged ? percent(o.classes.reduce((sum, c) => sum + (c.attainment || 0) * c.judged, 0) / judged) : nothing;
  $("judged").textContent = number(judged);
  $("experts").textContent = experts.activated === null ? nothing : `${number(experts.routed, 1)} → ${number(experts.activated, 1)}`;
  chart("chart-flight", h, [{values: h.queued, kind: "b"}, {values: h.in_flight, kind: "a"}]);
  chart("chart-tokens", h, [{values: h.tokens_per_s, kind: "a"}]);
  chart("chart-attainment", h, [{values: h.attainment.map(v => v === null ? null : 100 * v), kind: "a"}], 100);
  chart("chart-experts", h, [{values: h.routed, kind: "b"}, {values: h.activated, kind: "a"}]);
  showClasses(o.classes);
  showWorkers(o.workers);
}
function state(name, text) {
  document.body.dataset.state = name;
  $("state").textContent = text;
}
async function poll() {
  try {
    const reply = await fetch("debug/overview", {cache: "no-store", signal: AbortSignal.timeout(5000)});
    if (!reply.ok) throw new Error("HTTP status " + reply.status);
    const overview = await reply.json();
    show(overview);
    overview.ready ? state("live", "live") : state("unready", "not ready: no pair of prefill and decode worker");
  } catch (error) {
    state("lost", "no answer from the router: " + error.message);
  }
  setTimeout(poll, 1000);
}
poll();
