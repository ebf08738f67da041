// The search that is chosen on the page.

import { find } from "./dom.js";

// What is asked for besides the numbers in the input fields: `sentence` is the index of the sentence that the panels show,
// `prefix` holds the ids of the pieces forced in it, `languages` is there where the model has learned several directions.
export const request = { method: "greedy", seed: 1, sentence: 0, prefix: [] };

// All options of a search, as the translator takes them.
export function searchOptions() {
  const number = id => {
    const { valueAsNumber, min, max, defaultValue } = find(id);
    // What is no number is not >= anything.
    return valueAsNumber >= min && valueAsNumber <= max ? valueAsNumber : Number(defaultValue);
  };
  return {
    ...request, beam: Math.round(number("beam")), length_penalty: number("length-penalty"), temperature: number("temperature"),
  };
}
