// What all panels show: one sentence, its translation and what the model did (see visualization/explain.py).

export let data = null;

export function setData(explanation) {
  data = explanation;
}

// Puts another piece, by its id, at a step and lets decoding go on from there; null where the page cannot translate.
export let force = null;

function setForce(action) {
  force = action;
}
