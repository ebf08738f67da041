// The search that is chosen on the page.

import { find } from "./dom.js";

// What is asked for besides the numbers in the input fields: `sentence` is the index of the sentence that the panels show,
// `prefix` holds the ids of the pieces forced in it, `languages` is there where the model has learned several directions.
export const request = { method: "greedy", seed: 1, sentence: 0, prefix: [] };
export const NUMBERS = ["beam", "length-penalty", "temperature"];

// What is no number is not >= anything.
const isAllowed = ({ valueAsNumber, min, max }) => valueAsNumber >= min && valueAsNumber <= max;

// The first field in use that holds a number outside its limits.
export const notAllowed = () => NUMBERS.map(find).find(field => !field.closest("label").hidden && field.value && !isAllowed(field));

// All options of a search, as the translator takes them; a number that is not allowed is replaced by the default.
export function searchOptions() {
  const [beam, length_penalty, temperature] = NUMBERS.map(find)
    .map(field => (isAllowed(field) ? field.valueAsNumber : Number(field.defaultValue)));
  return { ...request, beam: Math.round(beam), length_penalty, temperature };
}
