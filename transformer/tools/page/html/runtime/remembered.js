// The translations of sentences: of a long text only the sentence that is typed in is translated anew.

// A sentence takes some 200 bytes.
const MOST = 10000;

export class Remembered {
  constructor() {
    this.found = new Map();
  }

  get(sentence, settings) {
    return this.found.get(JSON.stringify([sentence, settings]));
  }

  set(sentence, settings, { text, ids, cut }) {
    if (this.found.size >= MOST) this.found.clear();
    this.found.set(JSON.stringify([sentence, settings]), { text, ids, cut });
  }
}
