// Elements, and figures as people read them. Text is only ever set as text: nothing a message holds becomes markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const there = children.flat().filter((child) => child !== null && child !== undefined);
  element.append(...there.map((child) => (typeof child === "string" ? legible(child) : child)));
  return element;
}

// Characters that turn the direction of what stands behind them, or embed it, are written out: a name with one of them would have
// a question about it read as another.
export function legible(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (found) => `\\u${found.codePointAt(0).toString(16)}`);
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function count(number) {
  return (number < 10 ? Number(number.toFixed(1)) : Math.round(number)).toLocaleString("en-US");
}

// `1 message`, `2 messages`.
export function many(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

export function micros(us) {
  const digits = (number) => Number(number.toPrecision(3));
  if (us < 1) return `${Math.round(us * 1e3)} ns`;
  if (us < 1000) return `${digits(us)} µs`;
  if (us < 1e6) return `${digits(us / 1e3)} ms`;
  return `${digits(us / 1e6)} s`;
}

export function age(ms) {
  const units = [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]];
  const unit = units.find(([, length]) => ms >= length);
  return unit ? `${Math.floor(ms / unit[1])} ${unit[0]}` : `${Math.round(ms)} ms`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${at === 0 ? number : Number(number.toPrecision(3))} ${units[at]}`;
}

// A table: columns are [heading, cell of a row, class]. On a narrow window a row is a card, whose cells say what they are.
export function table(caption, columns, rows) {
  const head = ([heading, , name]) => h("th", { class: name, scope: "col" }, heading);
  const cell = (row) => ([heading, of, name]) => h("td", { class: name, "data-label": heading }, of(row));
  return h("div", { class: "scroll" },
    h("table", { "aria-label": caption, class: columns.length < 3 ? "short" : null },
      h("thead", {}, h("tr", {}, columns.map(head))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(cell(row)))))));
}

// Puts new content in place of old. Whoever was at a button or link of it is at the same one afterwards.
export function renew(place, children) {
  const from = place.contains(document.activeElement) ? document.activeElement : null;
  const name = from && label(from);
  place.replaceChildren(...children);
  if (from) [...place.querySelectorAll(from.tagName)].find((element) => label(element) === name)?.focus();
}

// Whether somebody is at it: a button is held down, text of it is selected, or a question is open, after which they are to be
// where they were.
export function isInUse(place) {
  const selection = getSelection();
  return place.querySelector(":active") !== null || document.querySelector("dialog[open]") !== null
    || (!selection.isCollapsed && place.contains(selection.anchorNode));
}

// An arrow behind the name only says how a column is sorted.
function label(element) {
  return element.getAttribute("aria-label") ?? element.textContent.replace(/ [↓↑]$/, "");
}

// Asks before something that cannot be undone; `field` is asked for with it.
export function confirmed(question, action, field = null) {
  return new Promise((resolve) => {
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const dialog = h("dialog", { "aria-label": question, oncancel: () => close(false) },
      h("p", {}, question),
      field,
      h("div", { class: "row" },
        h("button", { class: "danger", onclick: () => close(true) }, action),
        h("button", { autofocus: true, onclick: () => close(false) }, "Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  });
}
