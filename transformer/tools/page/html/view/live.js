// Where the weights lie in the page: the translation follows what is typed, by the search that is chosen.

import { clear, find, make, radios, type } from "./dom.js";
import { drawHeading, languageName, show } from "./panels.js";
import { notAllowed, NUMBERS, request, searchOptions } from "./search_options.js";
import { isInAnotherScript } from "./script.js";
import { visible } from "./sentence.js";
import { latest, opening, setForce, setTranslator, translator } from "./state.js";
import { language, text } from "./texts.js";

let explained = null;
const ask = latest();
const MAX_NAMED = 50;
const METHODS = ["greedy", "beam", "sampling"];

export async function translate() {
  const options = searchOptions(), typed = find("input").value;
  const target = find("target-text");
  const progress = partial => {
    target.ariaBusy = "true";  // a screen reader waits for the whole translation
    target.textContent = partial.text;
    find("unsure").hidden = true;
  };
  try {
    const explanation = await ask(typed, { ...options, tree: true, progress });
    if (explanation === undefined) return;
    target.ariaBusy = "false";
    explained = explanation;
    find("panels").hidden = !explanation;
    drawNotice();
    drawForced();
    if (!explanation) {
      document.title = opening.title ?? text("title");
      find("unsure").hidden = true;
      return clear(target);
    }
    drawSentences(explanation);
    explanation.model.name = opening.name;
    show({ ...explanation, forced: options.prefix.length });
  } catch (error) {
    target.ariaBusy = "false";
    find("notice").textContent = error.message;
  }
}

// Which number is not allowed, what the model cannot read, and which sentence was too long.
function drawNotice() {
  const field = notAllowed(), sentences = explained?.sentences ?? [], long = sentences.find(sentence => sentence.cut);
  const [source] = explained?.languages ?? [], unknown = new Set(sentences.flatMap(sentence => sentence.unknown));
  const notices = [
    source && isInAnotherScript(sentences.map(sentence => sentence.text).join(" "), source)
      && text("other script", { language: languageName(source) }),
    unknown.size && text("unknown", { list: [...unknown].slice(0, MAX_NAMED).map(visible).join(" ") }),
    field && text("not allowed", { name: text(field.id.replace("-", " ")), min: field.min, max: field.max, used: field.defaultValue }),
    long && text("cut", { ...long.cut, end: long.text.slice(0, long.cut.at).slice(-30) }),
  ];
  find("notice").textContent = notices.filter(Boolean).join(" ");
}

function drawForced() {
  const count = explained ? request.prefix.length : 0;
  find("forced").hidden = !count;
  if (count) find("forced-what").textContent = text("forced", { piece: visible(explained.target[count]) });
}

// Of several sentences the panels show the one that is chosen here.
function drawSentences({ sentences, sentence, languages: [source] }) {
  find("sentence-choice").hidden = sentences.length === 1;
  const options = sentences.map(({ text }, at) => [at, make("span", { lang: source, dir: "auto" }, text)]);
  radios(find("sentence-choice"), "sentence-choice", options, sentence, chosen => {
    request.sentence = chosen;
    request.prefix = [];  // what was forced belonged to another sentence
    translate();
  });
}

export function drawOptions() {
  if (!translator) return;
  radios(find("method"), "method", METHODS.map(name => [name, text(`method ${name}`)]), request.method, method => {
    request.method = method;
    drawOptions();
    translate();
  });
  for (const element of document.querySelectorAll("#options [data-for]")) {
    element.hidden = element.dataset.for !== request.method;
  }
  drawDirections();
  drawNotice();
  drawForced();
  const languages = request.languages ?? translator.about.languages, [source] = languages;
  drawHeading(languages, { ...translator.about.size, name: opening.name });
  drawExamples(languages);
  find("input").lang = source;
  find("input-label").textContent = text("type here", { language: languageName(source) });
}

// What can be asked: sentences to begin with, in the language that they are in, and how much the model can read.
function drawExamples(languages) {
  const { about } = translator, [source] = languages;
  const examples = String(languages) === String(about.languages) ? opening.examples ?? [] : [];
  const button = sentence => {
    const made = make("button", { type: "button", className: "plain", lang: source, dir: "auto" }, sentence);
    made.addEventListener("click", () => type(sentence));
    return made;
  };
  clear(find("examples"), ...examples.map(button));
  const key = about.tokenizer === "word" ? "vocabulary of words" : "vocabulary";
  find("vocabulary").textContent = text(key, { count: about.pieces.toLocaleString(language) });
  find("offered").hidden = false;
}

// The directions that the model has learned, if they are several.
function drawDirections() {
  const { directions } = translator.about;
  find("direction-choice").hidden = !directions.length;
  const named = directions.map(([source, target], at) =>
    make("option", { value: at }, text("languages", { source: languageName(source), target: languageName(target) })));
  clear(find("direction"), ...named);
  find("direction").value = directions.findIndex(one => String(one) === String(request.languages));
}

export function startLive(ready) {
  setTranslator(ready);
  setForce(prefix => {
    request.prefix = prefix;
    translate();
  });
  for (const id of ["input", "options"]) find(id).hidden = false;
  find("source-text").hidden = true;
  if (ready.about.directions.length) request.languages = ready.about.languages;
  find("direction").addEventListener("change", () => {
    request.languages = translator.about.directions[find("direction").value];
    request.prefix = [];  // what was forced belonged to another language
    drawOptions();
    translate();
  });
  find("length-penalty").defaultValue = ready.about.length_penalty;
  find("input").value = opening.text;
  find("input").addEventListener("input", () => {
    request.prefix = [];  // what was forced belonged to another sentence
    translate();
  });
  for (const id of NUMBERS) find(id).addEventListener("input", translate);
  find("again").addEventListener("click", () => {
    request.seed += 1;
    translate();
  });
  find("unforce").addEventListener("click", () => {
    request.prefix = [];
    find("method").querySelector(":checked").focus();  // the button goes away
    translate();
  });
  for (const name of ["arithmetic", "what-if"]) find(`tab-${name}`).hidden = false;
  drawOptions();
  translate();
}
