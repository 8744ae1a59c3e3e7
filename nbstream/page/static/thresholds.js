// The thresholds move on the chart and in the form together; what they would have done is asked of the server.
//
// Rules: nothing is computed here but where a handle stands. A request waits until nothing has moved for a while,
// and a later one ends an earlier one, so that an old answer never comes after a new one.

import { getJson } from "./page.js";

const NAMES = ["unsure", "spam", "reject"];
const WAIT_MILLISECONDS = 150;
const STEP = 0.1; // of log-odds, for an arrow key
const LARGE_STEP = 1;
const DIGITS = 3; // of the distance from 0 or 1, for a threshold that is dragged
const MAX_LOG_ODDS = 36;

const form = document.getElementById("trial");
const drawing = document.querySelector("svg.handles");
if (form && drawing) {
  start();
}

function start() {
  const scale = Object.fromEntries(
    ["low", "high", "start", "end"].map((name) => [name, Number(drawing.dataset[name])]),
  );
  const handles = Object.fromEntries(
    [...drawing.querySelectorAll(".handle")].map((handle) => [handle.dataset.threshold, handle]),
  );
  // Where each handle stands: P(spam), or null where the threshold is never reached.
  const standing = Object.fromEntries(NAMES.map((name) => [name, readNumber(form.elements[name].value)]));
  let timer = 0;
  let request = null;

  drawing.removeAttribute("aria-hidden");
  for (const name of NAMES) {
    const handle = handles[name];
    handle.setAttribute("role", "slider");
    handle.setAttribute("tabindex", "0");
    handle.setAttribute("aria-label", handle.querySelector("text").textContent);
    handle.setAttribute("aria-valuemin", "0");
    handle.setAttribute("aria-valuemax", "1");
    place(name, standing[name], handle.dataset.words);
    handle.addEventListener("keydown", (event) => pressKey(event, name));
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      handle.focus();
      event.preventDefault();
    });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) {
        const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(drawing.getScreenCTM().inverse()).x;
        moveTo(name, logOddsAt(x));
      }
    });
  }
  form.addEventListener("input", (event) => {
    const name = event.target.name;
    if (NAMES.includes(name) && form.elements[`${name}_budget`]) {
      form.elements[`${name}_budget`].value = ""; // a number takes the place of a budget
    }
    ask();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(0);
  });

  function pressKey(event, name) {
    const [lowest, highest] = limits(name);
    const now = standing[name] === null ? highest : logOdds(standing[name]);
    const target = {
      ArrowRight: now + STEP,
      ArrowUp: now + STEP,
      ArrowLeft: now - STEP,
      ArrowDown: now - STEP,
      PageUp: now + LARGE_STEP,
      PageDown: now - LARGE_STEP,
      Home: lowest,
      End: highest,
    }[event.key];
    if (target !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      moveTo(name, target);
    }
  }

  // The log-odds between which a threshold may stand, so that their order holds.
  function limits(name) {
    const isFixed = (other) => standing[other] !== null && !form.elements[`${other}_budget`]?.value;
    const index = NAMES.indexOf(name);
    const below = NAMES.slice(0, index).filter(isFixed).map((other) => logOdds(standing[other]));
    const above = NAMES.slice(index + 1).filter(isFixed).map((other) => logOdds(standing[other]));
    return [Math.max(scale.low, ...below), Math.min(scale.high, ...above)];
  }

  function moveTo(name, odds) {
    const [lowest, highest] = limits(name);
    const inside = Math.max(lowest, Math.min(highest, odds));
    const isNever = name === "reject" && inside >= scale.high;
    // At a limit the threshold is that of the neighbour, to the last digit.
    const neighbour = NAMES.find((other) => other !== name && standing[other] !== null && logOdds(standing[other]) === inside);
    const p = isNever ? null : (neighbour ? standing[neighbour] : roundDistance(probability(inside)));
    const value = p === null ? "" : plainNumber(p);
    form.elements[name].value = value;
    if (form.elements[`${name}_budget`]) {
      form.elements[`${name}_budget`].value = "";
    }
    place(name, p, value);
    ask();
  }

  function place(name, p, words) {
    const handle = handles[name];
    const x = positionOf(p);
    standing[name] = p;
    handle.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
    handle.setAttribute("aria-valuenow", p === null ? "1" : plainNumber(p));
    handle.setAttribute("aria-valuetext", words);
    handle.classList.toggle("never", p === null);
    const isRight = x > drawing.viewBox.baseVal.width / 2;
    const label = handle.querySelector("text");
    label.setAttribute("text-anchor", isRight ? "end" : "start");
    const distance = Math.abs(Number(label.getAttribute("x")));
    label.setAttribute("x", isRight ? -distance : distance);
  }

  function positionOf(p) {
    const odds = p === null ? scale.high : Math.max(scale.low, Math.min(scale.high, logOdds(p)));
    return scale.start + ((odds - scale.low) / (scale.high - scale.low)) * (scale.end - scale.start);
  }

  function logOddsAt(x) {
    return scale.low + ((x - scale.start) / (scale.end - scale.start)) * (scale.high - scale.low);
  }

  function ask(wait = WAIT_MILLISECONDS) {
    clearTimeout(timer);
    request?.abort(); // its answer would move a handle back that has moved on
    timer = setTimeout(send, wait);
  }

  async function send() {
    request = new AbortController();
    const query = new URLSearchParams(new FormData(form));
    try {
      show(await getJson(`/ui/thresholds/outcome?${query}`, { signal: request.signal }));
      history.replaceState(null, "", `?${query}`);
    } catch (error) {
      if (error.name !== "AbortError") {
        document.getElementById("summary").textContent = form.dataset.failed;
      }
    }
  }

  function show(outcome) {
    for (const [id, words] of Object.entries(outcome.texts)) {
      document.getElementById(id).textContent = words;
    }
    for (const field of form.querySelectorAll("[aria-describedby]")) {
      const problem = outcome.problems[field.name] ?? "";
      document.getElementById(`problem-${field.name}`).textContent = problem;
      field.toggleAttribute("aria-invalid", false);
      if (problem) {
        field.setAttribute("aria-invalid", "true");
      }
    }
    if (!outcome.thresholds) {
      return;
    }
    for (const name of NAMES) {
      const threshold = outcome.thresholds[name];
      place(name, readNumber(threshold ?? ""), outcome.words[name]);
      if (form.elements[`${name}_budget`]?.value) {
        form.elements[name].value = threshold ?? "";
      }
    }
    if (outcome.point) {
      document.querySelector(".det .chosen")?.setAttribute("transform", `translate(${outcome.point.join(" ")})`);
    }
  }
}

function readNumber(text) {
  const number = Number.parseFloat(text);
  return number > 0 && number <= 1 ? number : null;
}

function logOdds(p) {
  const odds = Math.log(p) - Math.log1p(-p);
  return Math.max(-MAX_LOG_ODDS, Math.min(MAX_LOG_ODDS, odds));
}

function probability(odds) {
  return 1 / (1 + Math.exp(-odds));
}

// Few digits are enough for what was dragged, but 0.9995 must not become 1.
function roundDistance(p) {
  const digits = Math.ceil(-Math.log10(Math.min(p, 1 - p))) + DIGITS - 1;
  return Number(p.toFixed(Math.min(digits, 17)));
}

// All digits without an exponent, and no zeros at the end.
function plainNumber(p) {
  const text = String(p);
  return text.includes("e") ? p.toFixed(20).replace(/0+$/, "") : text;
}
