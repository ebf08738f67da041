// The worker: a thread of its own, so that typing never waits for the model. Messages in: { weights } once, then
// { call, method, text, options }, { cancel: call }, and { snapshot: step, weights } or { snapshot: null }. Messages out: { about } or { failed } once, then of each call any
// number of { call, progress } and one { call, result } or { call, failed }.

import { Change } from "./change.js";
import { Record } from "./record.js";
import { explain } from "./explain.js";
import { splitSentences } from "./sentences.js";
import { Translator } from "./translator.js";
import { unpack } from "./weights.js";

const METHODS = {
  translate: (translator, { text, options }) => translator.translate(text, options),
  explain: (translator, { text, options }) => explain(translator, text, options),
  // For tests: the sentences of many texts, what the tokenizers make of texts and ids, and the logits of one pass over a
  // source and its translation.
  split: function* (translator, { options: { texts } }) {
    return texts.map(splitSentences);
  },
  tokenize: function* (translator, { options: { texts = [], ids = [] } }) {
    return { ids: texts.map(text => translator.source.encode(text)), texts: ids.map(one => translator.target.decode(one)) };
  },
  read: function* (translator, { options: { source, target } }) {
    const run = { change: new Change({}), record: new Record() };
    const { logits, attention } = translator.read(source, target, translator.model.encode(source, run), run);
    return { logits, attention };
  },
};

const cancelled = new Set();
// The translator as training has left it, and a promise of the one that answers: it may be of a snapshot.
let fullyTrained = null, translator = null;

self.onmessage = async ({ data }) => {
  if (data.snapshot !== undefined) goTo(data);
  else if (data.weights !== undefined) await start(data.weights);
  else if (data.cancel !== undefined) cancelled.add(data.cancel);
  else await answer(data);
};

async function start(weights) {
  try {
    fullyTrained = translator = new Translator(await unpack(weights));
    self.postMessage({ about: fullyTrained.about });
  } catch (error) {
    self.postMessage({ failed: error.message });
  }
}

// Of all snapshots only the one in use is unpacked. Calls that have begun keep their own.
function goTo({ snapshot, weights }) {
  translator = snapshot === null ? fullyTrained : unpack(weights).then(({ tensors }) => fullyTrained.withWeights(tensors));
  translator.catch?.(() => {});  // a call says what is wrong
}

async function answer({ call, method, ...request }) {
  try {
    const steps = METHODS[method](await translator, request);
    let last = performance.now(), progress = steps.next();
    for (; !progress.done; progress = steps.next()) {
      self.postMessage({ call, progress: progress.value });
      if (performance.now() - last > 10) {
        await otherMessages();
        last = performance.now();
      }
      if (cancelled.delete(call)) return;
    }
    self.postMessage({ call, result: progress.value });
  } catch (error) {
    self.postMessage({ call, failed: error.message });
  }
}

// Lets messages be received that have come in the meantime. (A timer of 0 ms would wait for 4.)
function otherMessages() {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resolve(); };
    port2.postMessage(null);
  });
}
