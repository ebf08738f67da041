// The worker: a thread of its own, so that typing never waits for the model. Messages in: { weights } once, then
// { call, method, text, options }, and { cancel: call }. Messages out: { about } or { failed } once, then of each call any
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
let translator = null;

self.onmessage = async ({ data }) => {
  if (data.weights !== undefined) await start(data.weights);
  else if (data.cancel !== undefined) cancelled.add(data.cancel);
  else await answer(data);
};

async function start(weights) {
  try {
    translator = new Translator(await unpack(weights));
    self.postMessage({ about: translator.about });
  } catch (error) {
    self.postMessage({ failed: error.message });
  }
}

async function answer({ call, method, ...request }) {
  try {
    const steps = METHODS[method](translator, request);
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
