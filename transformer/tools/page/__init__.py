"""One HTML file that translates in a browser and shows how, and the explanation of one translation."""
