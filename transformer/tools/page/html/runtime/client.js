// The page's side of the worker: `startTranslator()` starts it with the weights that lie in the page, and sets
// window.translator once it is ready. What goes wrong before is a key of texts/: “error program”.

export async function startTranslator() {
  const text = id => document.getElementById(id)?.textContent ?? "";
  const address = URL.createObjectURL(new Blob([text("runtime")], { type: "text/javascript" }));
  const worker = new Worker(address), calls = new Map();

  const about = await new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => ("about" in data ? resolve(data.about) : reject(new Error(data.failed)));
    worker.onerror = () => reject(new Error("program"));
    worker.postMessage({ weights: text("weights").trim() });
  });

  worker.onmessage = ({ data: { call, progress, result, failed } }) => {
    const { resolve, reject, onProgress } = calls.get(call) ?? {};
    if (progress !== undefined) return onProgress?.(progress);
    calls.delete(call);
    return failed === undefined ? resolve?.(result) : reject?.(new Error(failed));
  };

  let count = 0;
  // `signal` (an AbortSignal) takes a call back; `progress` is called after every step.
  const ask = (method, text, { signal, progress: onProgress, ...options } = {}) => new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const call = count++;
    calls.set(call, { resolve, reject, onProgress });
    signal?.addEventListener("abort", () => {
      if (calls.delete(call)) worker.postMessage({ cancel: call });
      reject(signal.reason);
    });
    worker.postMessage({ call, method, text, options });
  });

  window.translator = {
    about,
    translate: (text, options) => ask("translate", text, options),
    explain: (text, options) => ask("explain", text, options),
    split: options => ask("split", "", options),
    tokenize: options => ask("tokenize", "", options),
    read: options => ask("read", "", options),
    // The weights after an earlier step of training, a snapshot of the page, for all calls from here on; null: the model's own.
    goTo: step => worker.postMessage({ snapshot: step, weights: step === null ? null : text(`snapshot-${step}`) }),
  };
  return window.translator;
}
