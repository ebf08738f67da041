// Small helpers of everything that draws.

export const find = id => document.getElementById(id);

const FOCUSABLE = "button, input, [tabindex]";

// Gives an element other children. The focus, if it was within, stays at its place: keyboards go on from there.
export function clear(element, ...children) {
  const at = [...element.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (at >= 0) [...element.querySelectorAll(FOCUSABLE)].slice(0, at + 1).at(-1)?.focus();
  return element;
}

// An element with properties and children. Strings become text, never markup.
export function make(tag, properties = {}, ...children) {
  const { aria = {}, dataset = {}, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(aria)) element.setAttribute(`aria-${name}`, value);
  Object.assign(element.dataset, dataset);
  element.append(...children);
  return element;
}

export const percent = share =>
  share >= 0.0995 ? `${Math.round(share * 100)}%` : share >= 0.0005 ? `${(share * 100).toFixed(1)}%` : "<0.1%";

// Puts a sentence into the input, as if it had been typed.
export function type(sentence) {
  find("input").value = sentence;
  find("input").dispatchEvent(new Event("input"));
}

const range = count => Array.from({ length: count }, (_, at) => at);

// One choice of several: radio buttons in a fieldset; `options` are pairs of a value and what stands on its button.
export function radios(fieldset, name, options, chosen, onChoose) {
  const labels = options.map(([value, ...content]) => {
    const input = make("input", { type: "radio", name, value, checked: String(value) === String(chosen) });
    input.addEventListener("change", () => onChoose(value));
    return make("label", { className: "choice" }, input, make("span", {}, ...content));
  });
  clear(fieldset, ...fieldset.querySelectorAll("legend"), ...labels);
}

// The arrow keys move the focus among the buttons of a row, which is one stop of the tab key.
export function walkWithArrows(row, selector) {
  row.addEventListener("keydown", event => {
    const buttons = [...row.querySelectorAll(selector)];
    const at = buttons.indexOf(event.target.closest(selector));
    const forward = getComputedStyle(row).direction === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: at + forward,
      ArrowLeft: at - forward,
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    buttons[to]?.focus();
  });
}
