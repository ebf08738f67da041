"""How things are kept on disk: whole or not at all, and flat where they are many. Imports nothing of ours."""
