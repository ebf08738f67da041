// What all panels show: one sentence, its translation and what the model did (see tools/page/explanation.py).

export let data = null;

export function setData(explanation) {
  data = explanation;
}

// Makes the translation begin with these ids and lets decoding go on behind them; null where the page cannot translate.
export let force = null;

export function setForce(action) {
  force = action;
}

// What the page begins with: { text, name }, and where the export gave them title, examples and what_if (see
// tools/page/examples.py).
export let opening = {};

export function setOpening(given) {
  opening = given;
}

// The translator of this page, where its weights lie in it (see runtime/client.js).
export let translator = null;

export function setTranslator(ready) {
  translator = ready;
}

// A function that explains a text, of whose calls only the newest counts: it takes back the one before, which gives
// undefined then.
export function latest() {
  let newest = null;
  return async (sentence, options) => {
    newest?.abort();
    const call = newest = new AbortController();
    try {
      return await translator.explain(sentence, { ...options, signal: call.signal });
    } catch (error) {
      if (!call.signal.aborted) throw error;
    }
  };
}
